"""Paystack's webhooks. They are signed with the secret key; there is no webhook secret."""

from typing import Any

from manilla.kit import strict_json
from manilla.providers import reading, signatures
from manilla.providers.kinds.paystack import answers
from manilla.providers.port import (
    Claim,
    EventKind,
    Forged,
    Headers,
    ReportedChargeStatus,
    TransferStatus,
    Unreadable,
    Webhook,
    WebhookEvent,
)
from manilla.providers.reading import Malformed

SIGNATURE = b"x-paystack-signature"

TRANSFER_EVENTS = {
    "transfer.success": TransferStatus.DELIVERED,
    "transfer.failed": TransferStatus.FAILED,
    "transfer.reversed": TransferStatus.RETURNED,
}
REFUND_EVENTS = frozenset(
    f"refund.{word}" for word in ("pending", "processing", "processed", "failed", "needs-attention")
)


def read(headers: Headers, raw: bytes, secret_key: bytes) -> Webhook:
    if not signatures.is_hex_hmac(headers, SIGNATURE, secret_key, raw, "sha512"):
        return Forged()
    try:
        document = strict_json.decode(raw)
        return _event(reading.text(document, "event"), reading.field(document, "data"))
    except (strict_json.JsonError, Malformed) as error:
        return Unreadable(str(error))


def _event(event: str, data: Any) -> Webhook:
    if event == "charge.success":
        reference = reading.text(data, "reference")
        return WebhookEvent(
            EventKind.CHARGE, reference, _charge_claim(data), ReportedChargeStatus.PAID
        )
    if event in TRANSFER_EVENTS:
        # The reference was sent in lower case.
        reference = reading.text(data, "reference").upper()
        claim = reading.claimed(data, in_minor_units=True)
        return WebhookEvent(EventKind.TRANSFER, reference, claim, TRANSFER_EVENTS[event])
    if event in REFUND_EVENTS:
        # These events do not say which of the charge's refunds they are about.
        return WebhookEvent(EventKind.CHARGE_REFUNDS, reading.text(data, "transaction_reference"))
    return Unreadable(f"the event {event} is not used")


def _charge_claim(data: Any) -> Claim | None:
    try:
        name = answers.paid_field(data)
    except Malformed:
        name = "amount"
    return reading.claimed({**data, "amount": data.get(name)}, in_minor_units=True)
