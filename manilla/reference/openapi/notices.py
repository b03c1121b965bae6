"""Describes the notifications to `ipn_url` as webhooks in the OpenAPI document."""

from functools import partial
from typing import Any

import msgspec

from manilla.payments.fields import LegacyNotice, PaymentNotice, RefundNotice
from manilla.payouts.fields import PayoutNotice
from manilla.reference import examples
from manilla.reference.openapi import parts, schemas

KINDS: dict[str, type[msgspec.Struct]] = {
    "payment": PaymentNotice,
    "payout": PayoutNotice,
    "refund": RefundNotice,
    "legacyPayment": LegacyNotice,
}
SUMMARIES = {
    "payment": "A payment completed, failed or was canceled",
    "payout": "A payout completed, failed, or was canceled or reversed",
    "refund": "A refund completed",
    "legacyPayment": "A legacy API payment completed or failed",
}
DESCRIPTION = (
    "A POST request to the `ipn_url` that you sent when you created the transaction. Verify the "
    "signature over the raw bytes of the body, then respond with 2xx within 10 seconds. Otherwise "
    "we retry: three attempts in total, 10 seconds after the first and 60 seconds after the "
    "second. A notification can arrive twice, so process each combination of `event`, `trx_id` and "
    "`status` once. We may add fields."
)


def webhooks() -> dict[str, Any]:
    return {event: {"post": _operation(event)} for event in KINDS}


def _operation(event: str) -> dict[str, Any]:
    named = {
        name: {"summary": f"{event}: {name}", "value": value}
        for name, value in examples.NOTICES[event].items()
    }
    content = {"schema": schemas.reference(KINDS[event]), "examples": named}
    return {
        "operationId": f"on{event[0].upper()}{event[1:]}",
        "tags": ["Notifications"],
        "summary": SUMMARIES[event],
        "description": DESCRIPTION,
        "security": [],
        "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in HEADERS],
        "requestBody": {
            "required": True,
            "description": "The event.",
            "content": {"application/json": content},
        },
        "responses": {
            "200": {"description": "Received. Any 2xx status is a success. The body is ignored."},
            "401": {"description": "The signature does not match. We retry."},
        },
    }


_header = partial(parts.header_parameter, required=True)
HEADERS = {
    "NoticeSignature": _header(
        "X-Signature",
        "Hex HMAC-SHA256 of the raw body, keyed with the environment's API secret. Also accept the "
        "prefix `sha256=`.",
        "0b4d9a1e7c52f3868d0ae1b9c47f25306e8bd1f4a97c03e5d26b8f10c9a4e7d3",
        pattern="^(sha256=)?[0-9a-f]{64}$",
    ),
    "NoticeEnvironment": _header(
        "X-Environment",
        "The environment whose API secret signed the notification.",
        "production",
        enum=["sandbox", "production"],
    ),
    "NoticeTimestamp": _header(
        "X-Timestamp", "The time of this attempt, in Unix seconds.", "1794722352"
    ),
    "WebhookId": _header(
        "webhook-id",
        "Standard Webhooks: the notification's id, the same for every attempt.",
        "msg_01K09BW2C94Y0000001S27C69ZCG4GR",
        pattern="^msg_[0-9A-Z]+$",
    ),
    "WebhookTimestamp": _header(
        "webhook-timestamp", "Standard Webhooks: the same as `X-Timestamp`.", "1794722352"
    ),
    "WebhookSignature": _header(
        "webhook-signature",
        "Standard Webhooks: `v1,` followed by the base64-encoded HMAC-SHA256 of "
        "`<webhook-id>.<webhook-timestamp>.<body>`. The key is `whsec_` followed by the "
        "base64-encoded API secret.",
        "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc=",
    ),
}
