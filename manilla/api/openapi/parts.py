"""What all operations share: security schemes, parameters, the headers of answers."""

from typing import Any

from manilla.api import examples
from manilla.api.openapi.glossary import TRX_ID_PATTERN

TAGS = {
    "Payments": "Hosted checkout: money from customers.",
    "Payouts": "Bank transfers from the merchant's wallet.",
    "Site": "What this site says of itself.",
    "Older API": "What is left of the API before version 1. Not for new shops.",
    "Notifications": "What we send to the merchant's `ipn_url`.",
}


def _parameter(name: str, description: str, example: str, **schema: Any) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": {"type": "string", **schema},
        "example": example,
    }


PARAMETERS = {
    "Environment": _parameter(
        "X-Environment",
        "Where the call runs; `production` when omitted. The credentials must be of the same.",
        "sandbox",
        enum=["sandbox", "production"],
        default="production",
    ),
    "IdempotencyKey": _parameter(
        "Idempotency-Key",
        "Marks a repetition: the same key and body within 24 hours replays the first answer, with "
        "`Idempotent-Replayed: true`. Another body is 422 `DUPLICATE_REFERENCE`.",
        "order-1001-try-1",
        minLength=1,
        maxLength=255,
        pattern="^[ -~]+$",
    ),
    "SandboxScenario": _parameter(
        "X-Sandbox-Scenario",
        "How the transaction ends. In the sandbox only.",
        "success",
        enum=["success", "failed", "pending"],
    ),
    "TrxId": {
        "name": "trxId",
        "in": "path",
        "required": True,
        "description": "The platform's transaction id, from the answer to the initiation (for a "
        "payment: from its `payment_url`) or from a notification.",
        "schema": {"type": "string", "pattern": TRX_ID_PATTERN},
        "example": examples.TRX_ID,
    },
}


def _header(description: str, example: Any, *, required: bool, **schema: Any) -> dict[str, Any]:
    return {
        "description": description,
        "required": required,
        "schema": schema,
        "example": example,
    }


HEADERS = {
    "X-Request-Id": _header(
        "Names this request; quote it to the operator.",
        examples.REQUEST_ID,
        required=True,
        type="string",
        pattern="^[0-9a-f]{24}$",
    ),
    "RateLimit-Policy": _header(
        "The limit that applies: `q` requests in `w` seconds.",
        '"merchant";q=120;w=60',
        required=False,
        type="string",
        pattern=r'^"(merchant|address)";q=\d+;w=\d+$',
    ),
    "RateLimit": _header(
        "What is left of it: `r` requests in the next `t` seconds.",
        '"merchant";r=119;t=60',
        required=False,
        type="string",
        pattern=r'^"(merchant|address)";r=\d+;t=\d+$',
    ),
    "Retry-After": _header(
        "After how many seconds to try again.", 1, required=True, type="integer", minimum=0
    ),
    "X-Transaction-Id": _header(
        "The `trx_id` of the payment or payout.",
        examples.TRX_ID,
        required=True,
        type="string",
        pattern=TRX_ID_PATTERN,
    ),
    "Idempotent-Replayed": _header(
        "There where the first answer to the same `Idempotency-Key` is given again.",
        "true",
        required=False,
        type="string",
        enum=["true"],
    ),
}


def headers(*more: str) -> dict[str, Any]:
    names = ("X-Request-Id", "RateLimit-Policy", "RateLimit", *more)
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _key(name: str, description: str) -> dict[str, str]:
    return {"type": "apiKey", "in": "header", "name": name, "description": description}


SECURITY_SCHEMES = {
    "MerchantKey": _key(
        "X-Merchant-Key", "Identifies the merchant in its environment; `test_…` in the sandbox."
    ),
    "ApiKey": _key("X-API-Key", "The API key of the same environment; `test_…` in the sandbox."),
    "Timestamp": _key(
        "X-Timestamp", "Unix time in seconds, within 300 seconds of ours unless set otherwise."
    ),
    "Signature": _key(
        "X-Signature",
        "Hex HMAC-SHA256, bare or prefixed with `sha256=`, keyed with the API secret, of "
        "`<timestamp>.<METHOD>.<path_with_query>.<raw_body>`.",
    ),
    "Bearer": {"type": "http", "scheme": "bearer", "description": "The API key; older API only."},
}
SIGNED: list[dict[str, list[str]]] = [
    {"MerchantKey": [], "ApiKey": [], "Timestamp": [], "Signature": []}
]
BEARER: list[dict[str, list[str]]] = [{"Bearer": []}]

# An answer's values may serve as another call's parameters. A payment's id is the part of
# payment_url's path after /checkout/: what follows `#regex:` is an extension that some tools read.
LINKS = {
    "initiatePayment": (
        "verifyPayment",
        "$response.body#/payment_url#regex:/checkout/(TXN[0-9A-Z]+)",
        "`trxId` is the part of `payment_url`'s path after `/checkout/`.",
    ),
    "initiatePaymentLegacy": (
        "verifyPayment",
        "$response.body#/payment_url#regex:/checkout/(TXN[0-9A-Z]+)",
        "`trxId` is the part of `payment_url`'s path after `/checkout/`.",
    ),
    "initiatePayout": (
        "verifyPayout",
        "$response.body#/trx_id",
        "`trxId` is the answer's `trx_id`.",
    ),
}


def links(operation_id: str) -> dict[str, Any]:
    if operation_id not in LINKS:
        return {}
    target, expression, description = LINKS[operation_id]
    link = {
        "operationId": target,
        "parameters": {"trxId": expression},
        "description": description,
    }
    return {"links": {target: link}}
