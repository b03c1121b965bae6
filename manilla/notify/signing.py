"""Creates the signature headers that merchants use to verify notifications."""

import base64
import hmac
from collections.abc import Sequence


def headers(
    secret: bytes, *, notification_id: str, environment: str, body: bytes, now: int
) -> dict[str, str]:
    """Signs the exact bytes that are sent, in Manilla's and in the Standard Webhooks format."""
    return {
        "Content-Type": "application/json",
        "X-Signature": hmac.digest(secret, body, "sha256").hex(),
        "X-Environment": environment,
        "X-Timestamp": str(now),
        "webhook-id": notification_id,
        "webhook-timestamp": str(now),
        "webhook-signature": standard_signature(secret, notification_id, now, body),
    }


def endpoint_headers(
    secrets: Sequence[bytes], *, notification_id: str, environment: str, body: bytes, now: int
) -> dict[str, str]:
    """Signs a message to an endpoint with each valid secret, as Standard Webhooks specifies."""
    signatures = [standard_signature(secret, notification_id, now, body) for secret in secrets]
    return {
        "Content-Type": "application/json",
        "X-Environment": environment,
        "webhook-id": notification_id,
        "webhook-timestamp": str(now),
        "webhook-signature": " ".join(signatures),
    }


def standard_signature(secret: bytes, notification_id: str, now: int, body: bytes) -> str:
    signed = f"{notification_id}.{now}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(secret, signed, "sha256")).decode()


def standard_key(secret: bytes) -> str:
    """Returns the secret in the format that Standard Webhooks libraries expect."""
    return "whsec_" + base64.b64encode(secret).decode()
