"""Reads Monnify's webhooks: `{"eventType", "eventData"}`, signed with the secret key."""

from typing import Any

import msgspec

from manilla.kit import strict_json
from manilla.providers import reading, signatures
from manilla.providers.port import (
    EventKind,
    Forged,
    Headers,
    ReportedChargeStatus,
    ReportedRefundStatus,
    TransferStatus,
    Unreadable,
    Webhook,
    WebhookEvent,
)
from manilla.providers.reading import Malformed

SIGNATURE = b"monnify-signature"
UNSIGNED_IN_SANDBOX = Unreadable("Monnify's sandbox signs no webhooks; the status is queried")


class Event(msgspec.Struct, frozen=True):
    kind: EventKind
    reference: str  # the field with our reference
    amount: str | None  # the field with the amount; None if the event claims none
    status: ReportedChargeStatus | TransferStatus | ReportedRefundStatus | None


def _transfer(status: TransferStatus) -> Event:
    return Event(EventKind.TRANSFER, "reference", "amount", status)


def _refund(status: ReportedRefundStatus) -> Event:
    return Event(EventKind.REFUND, "refundReference", "refundAmount", status)


EVENTS = {
    "SUCCESSFUL_TRANSACTION": Event(
        EventKind.CHARGE, "paymentReference", "amountPaid", ReportedChargeStatus.PAID
    ),
    # A payment of a wrong amount was returned to the customer, who can still pay the right one.
    "REJECTED_PAYMENT": Event(EventKind.CHARGE, "paymentReference", None, None),
    "SUCCESSFUL_DISBURSEMENT": _transfer(TransferStatus.DELIVERED),
    "FAILED_DISBURSEMENT": _transfer(TransferStatus.FAILED),
    "REVERSED_DISBURSEMENT": _transfer(TransferStatus.RETURNED),
    "SUCCESSFUL_REFUND": _refund(ReportedRefundStatus.PAID),
    "FAILED_REFUND": _refund(ReportedRefundStatus.FAILED),
}


def read(headers: Headers, raw: bytes, secret_key: bytes, *, is_sandbox: bool) -> Webhook:
    """Accepts and ignores what the sandbox sends without a signature: anyone can send that."""
    if is_sandbox and SIGNATURE not in headers:
        return UNSIGNED_IN_SANDBOX
    if not signatures.is_hex_hmac(headers, SIGNATURE, secret_key, raw, "sha512"):
        return Forged()
    try:
        document = strict_json.decode(raw)
        event = EVENTS.get(reading.text(document, "eventType"))
        if event is None:
            return Unreadable("the event is not in the contract")
        return _event(event, reading.field(document, "eventData"))
    except (strict_json.JsonError, Malformed) as error:
        return Unreadable(str(error))


def _event(event: Event, data: Any) -> WebhookEvent:
    reference = reading.text(data, event.reference)
    claim = None
    if event.amount is not None:
        claim = reading.claimed(
            {"amount": data.get(event.amount), "currency": data.get("currency")}
        )
    is_transfer = event.kind is EventKind.TRANSFER
    session_id = reading.optional_text(data, "sessionId") if is_transfer else ""
    return WebhookEvent(event.kind, reference, claim, event.status, session_id or None)
