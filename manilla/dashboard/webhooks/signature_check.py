"""The data with which a page checks the signature of a notification that was not accepted.

The page computes the signature in the browser, so that no secret is sent to the server.
"""

import base64
from collections.abc import Sequence

import msgspec

from manilla.notify.queries import DeliveryAttempt


class SignatureCheck(msgspec.Struct, frozen=True):
    """A signed request. The body is in base64, because the signature covers its exact bytes."""

    notification_id: str
    timestamp: str
    body: str
    signature: str  # the Standard Webhooks signatures, separated by spaces
    x_signature: str  # the X-Signature of a notification to an `ipn_url`, or ""


def of(
    notification_id: str, body: bytes, attempts: Sequence[DeliveryAttempt]
) -> SignatureCheck | None:
    """Returns the data of the last attempt, or None unless it failed."""
    last = max(attempts, key=lambda attempt: attempt.number, default=None)
    if last is None or last.error is None:
        return None
    return SignatureCheck(
        notification_id,
        last.headers.get("webhook-timestamp", ""),
        base64.b64encode(body).decode(),
        last.headers.get("webhook-signature", ""),
        last.headers.get("X-Signature", ""),
    )
