"""Shared parts of the OpenAPI document: security schemes, parameters and response headers."""

from typing import Any

from manilla.ledger.transactions import Scenario
from manilla.reference import examples
from manilla.reference.openapi.fields import (
    ACCOUNT_ID_PATTERN,
    CUSTOMER_PATTERN,
    DISPUTE_ID_PATTERN,
    ENDPOINT_ID_PATTERN,
    INVOICE_NUMBER_PATTERN,
    LINK_ID_PATTERN,
    TRX_ID_PATTERN,
    WAY_ID_PATTERN,
)

TAGS = {
    "Payments": "Collect money from customers through hosted checkout.",
    "Refunds": "Return payments to customers.",
    "Disputes": "Answer customers' banks that take payments back.",
    "Customers": "Give customers account numbers of their own.",
    "Splits": "Divide payments between you and other receivers.",
    "Payouts": "Send bank transfers from your wallet.",
    "Prices": "Read what your transactions cost.",
    "Invoices": "Read the invoices for our fees.",
    "Balance": "Read your wallets' balances and statement.",
    "Site": "Information about this site.",
    "Legacy API": "The API before version 1. Do not use it for new integrations.",
    "Notifications": "Status changes: events, webhook endpoints and notifications to `ipn_url`.",
}


def header_parameter(
    name: str, description: str, example: str, *, required: bool = False, **schema: Any
) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": required,
        "description": description,
        "schema": {"type": "string", **schema},
        "example": example,
    }


PARAMETERS = {
    "Environment": header_parameter(
        "X-Environment",
        "The environment, by default `production`. The credentials must belong to it.",
        "sandbox",
        enum=["sandbox", "production"],
        default="production",
    ),
    "IdempotencyKey": header_parameter(
        "Idempotency-Key",
        "Makes a retry safe: the same key and body within 24 hours return the first response, with "
        "`Idempotent-Replayed: true`. A different body returns 422 `DUPLICATE_REFERENCE`.",
        "order-1001-try-1",
        minLength=1,
        maxLength=255,
        pattern="^[ -~]+$",
    ),
    "SandboxScenario": header_parameter(
        "X-Sandbox-Scenario",
        "The transaction's result. Only for the sandbox. `disputed` is only for payments.",
        "success",
        enum=list(Scenario),
    ),
    "TrxId": {
        "name": "trxId",
        "in": "path",
        "required": True,
        "description": "The transaction id, from the initiation response (for a "
        "payment: from its `payment_url`) or from a notification.",
        "schema": {"type": "string", "pattern": TRX_ID_PATTERN},
        "example": examples.TRX_ID,
    },
    "LinkId": {
        "name": "linkId",
        "in": "path",
        "required": True,
        "description": "The payment link's `id`.",
        "schema": {"type": "string", "pattern": LINK_ID_PATTERN},
        "example": examples.LINK_ID,
    },
    "SplitId": {
        "name": "splitId",
        "in": "path",
        "required": True,
        "description": "The split's `id`.",
        "schema": {"type": "string", "pattern": DISPUTE_ID_PATTERN.replace("DSP", "SPL")},
        "example": examples.SPLIT_ID,
    },
    "DisputeId": {
        "name": "disputeId",
        "in": "path",
        "required": True,
        "description": "The dispute's `id`.",
        "schema": {"type": "string", "pattern": DISPUTE_ID_PATTERN},
        "example": examples.DISPUTE_ID,
    },
    "Number": {
        "name": "number",
        "in": "path",
        "required": True,
        "description": "The invoice's `number`, with `.pdf` or `.xml` for its file.",
        "schema": {"type": "string", "pattern": INVOICE_NUMBER_PATTERN},
        "example": examples.INVOICE_NUMBER,
    },
    "Reference": {
        "name": "reference",
        "in": "path",
        "required": True,
        "description": "Your reference of the customer.",
        "schema": {"type": "string", "pattern": CUSTOMER_PATTERN},
        "example": "pupil-17",
    },
    "AccountId": {
        "name": "accountId",
        "in": "path",
        "required": True,
        "description": "The account's `id`.",
        "schema": {"type": "string", "pattern": ACCOUNT_ID_PATTERN},
        "example": examples.ACCOUNT_ID,
    },
    "WayId": {
        "name": "wayId",
        "in": "path",
        "required": True,
        "description": "The id of the saved way to pay.",
        "schema": {"type": "string", "pattern": WAY_ID_PATTERN},
        "example": examples.WAY_ID,
    },
    "FileId": {
        "name": "fileId",
        "in": "path",
        "required": True,
        "description": "The file's `id`.",
        "schema": {"type": "integer", "minimum": 1},
        "example": 1,
    },
    "EndpointId": {
        "name": "endpointId",
        "in": "path",
        "required": True,
        "description": "The webhook endpoint's `id`.",
        "schema": {"type": "string", "pattern": ENDPOINT_ID_PATTERN},
        "example": examples.ENDPOINT_ID,
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
        "The request's id. Quote it when you contact the operator.",
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
        "The remaining quota: `r` requests in the next `t` seconds.",
        '"merchant";r=119;t=60',
        required=False,
        type="string",
        pattern=r'^"(merchant|address)";r=\d+;t=\d+$',
    ),
    "Retry-After": _header(
        "The seconds to wait before retrying.", 1, required=True, type="integer", minimum=0
    ),
    "X-Transaction-Id": _header(
        "The `trx_id` of the payment, payout or refund.",
        examples.TRX_ID,
        required=True,
        type="string",
        pattern=TRX_ID_PATTERN,
    ),
    "Idempotent-Replayed": _header(
        "Present if this is the stored response to an earlier request with this `Idempotency-Key`.",
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
        "X-Merchant-Key",
        "The merchant's key in this environment. Sandbox keys start with `test_`.",
    ),
    "ApiKey": _key(
        "X-API-Key", "The API key of this environment. Sandbox keys start with `test_`."
    ),
    "Timestamp": _key(
        "X-Timestamp",
        "Unix time in seconds. By default, at most 300 seconds from the server's time.",
    ),
    "Signature": _key(
        "X-Signature",
        "Hex HMAC-SHA256 of `<timestamp>.<METHOD>.<path_with_query>.<raw_body>`, keyed with the "
        "API secret. The prefix `sha256=` is optional.",
    ),
    "Bearer": {"type": "http", "scheme": "bearer", "description": "The API key. Legacy API only."},
}
SIGNED: list[dict[str, list[str]]] = [
    {"MerchantKey": [], "ApiKey": [], "Timestamp": [], "Signature": []}
]
BEARER: list[dict[str, list[str]]] = [{"Bearer": []}]

# An OpenAPI link uses a value from a response as a parameter of another request.
LINKS = {
    "initiatePayment": "verifyPayment",
    "initiatePaymentLegacy": "verifyPayment",
    "initiateRefund": "verifyRefund",
    "initiatePayout": "verifyPayout",
}


def links(operation_id: str) -> dict[str, Any]:
    if operation_id not in LINKS:
        return {}
    target = LINKS[operation_id]
    link = {
        "operationId": target,
        "parameters": {"trxId": "$response.body#/trx_id"},
        "description": "`trxId` is the response's `trx_id`.",
    }
    return {"links": {target: link}}
