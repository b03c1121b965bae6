"""Creates the signature headers that merchants use to verify notifications."""

import base64
import hmac
from collections.abc import Mapping, Sequence

_SIGNATURES = ("X-Signature", "webhook-signature")


def headers(
    secret: bytes, *, notification_id: str, environment: str, body: bytes, now: int
) -> dict[str, str]:
    """Signs the exact bytes that are sent, in Manilla's and in the Standard Webhooks format."""
    signatures = {
        "X-Signature": hmac.digest(secret, body, "sha256").hex(),
        "webhook-signature": standard_signature(secret, notification_id, now, body),
    }
    return complete(signatures, notification_id=notification_id, environment=environment, now=now)


def endpoint_headers(
    secrets: Sequence[bytes], *, notification_id: str, environment: str, body: bytes, now: int
) -> dict[str, str]:
    """Signs a message to an endpoint with each valid secret, as Standard Webhooks specifies."""
    signatures = [standard_signature(secret, notification_id, now, body) for secret in secrets]
    return complete(
        {"webhook-signature": " ".join(signatures)},
        notification_id=notification_id,
        environment=environment,
        now=now,
    )


def complete(
    signatures: Mapping[str, str], *, notification_id: str, environment: str, now: int
) -> dict[str, str]:
    """Adds the headers that are not signatures."""
    timestamp = str(now)
    return {
        "Content-Type": "application/json",
        "X-Environment": environment,
        **({"X-Timestamp": timestamp} if "X-Signature" in signatures else {}),
        "webhook-id": notification_id,
        "webhook-timestamp": timestamp,
        **signatures,
    }


def signatures_of(headers: Mapping[str, str]) -> dict[str, str]:
    """Returns the headers that are stored with a delivery attempt. `complete` adds the others."""
    return {name: value for name, value in headers.items() if name in _SIGNATURES}


def standard_signature(secret: bytes, notification_id: str, now: int, body: bytes) -> str:
    signed = f"{notification_id}.{now}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(secret, signed, "sha256")).decode()


def standard_key(secret: bytes) -> str:
    """Returns the secret in the format that Standard Webhooks libraries expect."""
    return "whsec_" + base64.b64encode(secret).decode()
