"""Parses Monnify's webhooks: `{"eventType", "eventData"}`, signed with the secret key."""

from typing import Any

import msgspec

from manilla.providers import account_replies, port, reading
from manilla.providers.kinds.monnify import accounts
from manilla.providers.reading import Malformed

SIGNATURE = b"monnify-signature"
UNSIGNED_IN_SANDBOX = port.Unreadable("Monnify's sandbox signs no webhooks; the status is queried")


class Event(msgspec.Struct, frozen=True):
    kind: port.WebhookSubject
    reference: str  # the name of the field with our reference
    amount: str | None  # the name of the amount field, or None if the event has no amount
    status: port.ReportedStatus | None


def _transfer(status: port.TransferStatus) -> Event:
    return Event(port.WebhookSubject.TRANSFER, "reference", "amount", status)


def _refund(status: port.ReportedRefundStatus) -> Event:
    return Event(port.WebhookSubject.REFUND, "refundReference", "refundAmount", status)


EVENTS = {
    "SUCCESSFUL_TRANSACTION": Event(
        port.WebhookSubject.CHARGE, "paymentReference", "amountPaid", port.ReportedChargeStatus.PAID
    ),
    # Monnify returned a wrong amount to the customer, who can still pay the correct amount.
    "REJECTED_PAYMENT": Event(port.WebhookSubject.CHARGE, "paymentReference", None, None),
    "SUCCESSFUL_DISBURSEMENT": _transfer(port.TransferStatus.DELIVERED),
    "FAILED_DISBURSEMENT": _transfer(port.TransferStatus.FAILED),
    "REVERSED_DISBURSEMENT": _transfer(port.TransferStatus.RETURNED),
    "MANDATE_UPDATE": Event(port.WebhookSubject.MANDATE, "externalMandateReference", None, None),
    "SUCCESSFUL_REFUND": _refund(port.ReportedRefundStatus.PAID),
    "FAILED_REFUND": _refund(port.ReportedRefundStatus.FAILED),
}


def read(headers: port.Headers, raw: bytes, secret_key: bytes, *, is_sandbox: bool) -> port.Webhook:
    """Parses a webhook. Ignores the sandbox's unsigned webhooks, which anyone could send."""
    if is_sandbox and SIGNATURE not in headers:
        return UNSIGNED_IN_SANDBOX
    if not reading.is_hex_hmac(headers, SIGNATURE, secret_key, raw, "sha512"):
        return port.Forged()
    return reading.webhook(raw, _event)


def _event(document: Any) -> port.WebhookEvent:
    event = EVENTS.get(reading.text(document, "eventType"))
    if event is None:
        raise Malformed("the event is not in the contract")
    data = reading.field(document, "eventData")
    kind, name, account_reference = event.kind, event.reference, None
    if accounts.is_transfer(data):
        # Monnify reports a reference of its own as `paymentReference`, too.
        kind, name = port.WebhookSubject.ACCOUNT_TRANSFER, "transactionReference"
        account_reference = account_replies.named_account(data["product"], "reference")
    reference = reading.text(data, name)
    claim = None
    if event.amount is not None:
        claim = reading.read_claim(
            {"amount": data.get(event.amount), "currency": data.get("currency")}
        )
    is_transfer = event.kind is port.WebhookSubject.TRANSFER
    session_id = reading.optional_text(data, "sessionId") if is_transfer else ""
    return port.WebhookEvent(
        kind, reference, claim, event.status, session_id or None, account_reference
    )
