"""Verifies that a notification (IPN) was sent by Manilla, and parses the notification."""

import base64
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from manilla_client import exact_json
from manilla_client.errors import BadNotification, NotificationTooOld, SignatureMismatch

STANDARD_PREFIX = "whsec_"
TIMESTAMP_MAX = 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A notification about a status change. `data` has all body fields, with amounts as Decimal."""

    event: str
    status: str
    trx_id: str
    ref_trx: str | None
    amount: Decimal | None
    currency_code: str | None
    environment: str | None
    message: str | None
    error_code: str | None
    timestamp: int | None
    # The id is the same for every delivery attempt, and None if only X-Signature was sent.
    id: str | None
    # The event's type, such as payment.success. Only messages to webhook endpoints have a type.
    type: str | None = None
    data: Mapping[str, Any] = field(repr=False)

    @property
    def is_sandbox(self) -> bool:
        """True for sandbox notifications. Do not deliver goods for a sandbox payment."""
        return self.environment == "sandbox"

    @property
    def handled_once_by(self) -> tuple[str, str, str, str]:
        """A unique key. Store the key, and ignore a notification whose key is already stored."""
        # A dispute or share can return to an earlier status, so the message's id distinguishes its
        # events.
        is_by_message = self.event in ("dispute", "split")
        other = self.id or "" if is_by_message else self.data.get("refund_trx_id", "")
        return self.event, self.trx_id, self.status, str(other)


def verify_ipn(
    body: bytes, headers: Mapping[str, str], secret: str, tolerance_seconds: int | None = 300
) -> Notification:
    """Returns the notification if it is from Manilla, otherwise raises BadNotification.

    `body` is the raw request body. `secret` is the environment's API secret, as it is or in the
    form `whsec_...`. If the Standard Webhooks signature is present, it is verified, because it
    covers the time of the attempt. If only X-Signature is present, the timestamp in the body must
    be within the tolerance. Otherwise an attacker could remove the other headers and replay a
    recorded notification. `tolerance_seconds=None` accepts any age.
    """
    lowered = _named(headers)
    key = _key(secret)
    if "webhook-signature" in lowered:
        sent_at: int | None = _check_standard(body, lowered, key)
        notification = _read(body, lowered, lowered.get("webhook-id"))
    else:
        _check_plain(body, lowered, key)
        notification = _read(body, lowered, None)
        sent_at = notification.timestamp
    if tolerance_seconds is not None:
        _check_age(sent_at, tolerance_seconds)
    return notification


def verify_webhook(
    body: bytes, headers: Mapping[str, str], secret: str, tolerance_seconds: int | None = 300
) -> Notification:
    """Returns the event if Manilla sent it to a webhook endpoint, otherwise raises BadNotification.

    `secret` is the endpoint's own secret, `whsec_...`. X-Signature is not sufficient, because
    Manilla signs messages to webhook endpoints only as Standard Webhooks specifies.
    """
    if "webhook-signature" not in _named(headers):
        raise SignatureMismatch("webhook-signature is missing.")
    notification = verify_ipn(body, headers, secret, tolerance_seconds)
    if notification.type is None:
        raise BadNotification("`type` is missing.")
    return notification


def sign_ipn(
    body: bytes, secret: str, *, id: str, environment: str, timestamp: int | None = None
) -> dict[str, str]:
    """Returns the headers of a notification with Manilla's signatures, for testing a receiver."""
    key, now = _key(secret), str(int(time.time()) if timestamp is None else timestamp)
    return {
        "Content-Type": "application/json",
        "X-Signature": _plain_signature(body, key),
        "X-Environment": environment,
        "X-Timestamp": now,
        "webhook-id": id,
        "webhook-timestamp": now,
        "webhook-signature": _standard_signature(body, key, id, now),
    }


def _plain_signature(body: bytes, key: bytes) -> str:
    return hmac.digest(key, body, "sha256").hex()


def _standard_signature(body: bytes, key: bytes, number: str, sent_at: str) -> str:
    signed = f"{number}.{sent_at}.".encode(errors="replace") + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


def _named(headers: Mapping[str, str]) -> dict[str, str]:
    """Returns the headers by name, as in HTTP or as servers rename them: HTTP_X_SIGNATURE."""
    names = {name: name.lower().replace("_", "-").removeprefix("http-") for name in headers}
    return {names[name]: value for name, value in headers.items()}


def _key(secret: str) -> bytes:
    encoded = secret.removeprefix(STANDARD_PREFIX)
    key = secret.encode() if encoded == secret else base64.b64decode(encoded, validate=True)
    if not key:
        # With an empty secret, anyone could compute a valid signature.
        raise ValueError("The secret is empty.")
    return key


def _check_standard(body: bytes, headers: Mapping[str, str], key: bytes) -> int:
    number, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    expected = _standard_signature(body, key, number, sent_at).encode()
    given = headers["webhook-signature"].split(" ")
    if not any([hmac.compare_digest(expected, each.encode(errors="replace")) for each in given]):  # noqa: C419
        raise SignatureMismatch("webhook-signature does not match.")
    if not (sent_at.isascii() and sent_at.isdigit() and len(sent_at) <= 12):
        raise BadNotification("webhook-timestamp is not a Unix time.")
    return int(sent_at)


def _check_plain(body: bytes, headers: Mapping[str, str], key: bytes) -> None:
    if "x-signature" not in headers:
        raise SignatureMismatch("X-Signature is missing.")
    expected = _plain_signature(body, key)
    given = headers["x-signature"].removeprefix("sha256=")
    if not hmac.compare_digest(expected.encode(), given.encode(errors="replace")):
        raise SignatureMismatch("X-Signature does not match.")


def _check_age(sent_at: int | None, tolerance_seconds: int) -> None:
    if sent_at is None:
        raise NotificationTooOld("The signed part of the notification has no time.")
    if abs(time.time() - sent_at) > tolerance_seconds:
        raise NotificationTooOld(
            f"Its time differs from this clock by more than {tolerance_seconds} s."
        )


def _read(body: bytes, headers: Mapping[str, str], number: str | None) -> Notification:
    try:
        document = exact_json.loads(body)
    except ValueError as error:
        raise BadNotification(f"The body cannot be parsed: {error}.") from None
    if not isinstance(document, dict):
        raise BadNotification("The body is not an object.")
    # A notification about a payment created through the legacy endpoint has no field `data`.
    data = document.get("data", document)
    if not isinstance(data, dict):
        raise BadNotification("`data` is not an object.")
    return Notification(
        event=_required(document, "event"),
        status=_required(document, "status"),
        trx_id=_required(data, "trx_id"),
        ref_trx=_text(data.get("ref_trx")),
        amount=_amount(data.get("amount", data.get("payout_amount"))),
        currency_code=_text(data.get("currency_code", data.get("currency"))),
        environment=_text(data.get("environment", headers.get("x-environment"))),
        message=_text(document.get("message")),
        error_code=_text(document.get("error_code")),
        timestamp=_timestamp(document.get("timestamp")),
        id=number,
        type=_text(document.get("type")),
        data=MappingProxyType(data),
    )


def _required(document: Mapping[str, Any], name: str) -> str:
    value = _text(document.get(name))
    if value is None:
        raise BadNotification(f"`{name}` is missing.")
    return value


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _timestamp(value: object) -> int | None:
    found = _whole(value)
    if found is not None and abs(found) > TIMESTAMP_MAX:
        raise BadNotification("`timestamp` is not a Unix time.")
    return found


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _amount(value: object) -> Decimal | None:
    amount = value if isinstance(value, Decimal) else _whole(value)
    if amount is None:
        return None
    if abs(Decimal(amount).adjusted()) > exact_json.DIGITS_MAX:
        raise BadNotification("The amount has too many digits.")
    return Decimal(amount)
