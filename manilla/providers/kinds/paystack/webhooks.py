"""Parses Paystack's webhooks, which are signed with the secret key.

Paystack has no separate webhook secret.
"""

from typing import Any

from manilla.providers import account_replies, port, reading
from manilla.providers.kinds.paystack import accounts, answers
from manilla.providers.reading import Malformed

SIGNATURE = b"x-paystack-signature"

TRANSFER_EVENTS = {
    "transfer.success": port.TransferStatus.DELIVERED,
    "transfer.failed": port.TransferStatus.FAILED,
    "transfer.reversed": port.TransferStatus.RETURNED,
}
REFUND_EVENTS = frozenset(
    f"refund.{word}" for word in ("pending", "processing", "processed", "failed", "needs-attention")
)
ACCOUNT_EVENTS = {
    "dedicatedaccount.assign.success": port.ReportedAccountStatus.ACTIVE,
    "dedicatedaccount.assign.failed": port.ReportedAccountStatus.FAILED,
}
# These events identify the dispute, whose state is queried.
DISPUTE_EVENTS = frozenset(f"charge.dispute.{word}" for word in ("create", "remind", "resolve"))


def read(headers: port.Headers, raw: bytes, secret_key: bytes) -> port.Webhook:
    if not reading.is_hex_hmac(headers, SIGNATURE, secret_key, raw, "sha512"):
        return port.Forged()
    return reading.webhook(raw, _event)


def _event(document: Any) -> port.WebhookEvent:
    event, data = reading.text(document, "event"), reading.field(document, "data")
    if event in ACCOUNT_EVENTS:
        account_id = account_replies.our_id(reading.text(reading.field(data, "customer"), "email"))
        status = ACCOUNT_EVENTS[event]
        return port.WebhookEvent(port.WebhookSubject.ACCOUNT, account_id, claims_status=status)
    if event == "charge.success":
        reference = reading.text(data, "reference")
        if accounts.is_transfer(data):
            return port.WebhookEvent(
                port.WebhookSubject.ACCOUNT_TRANSFER,
                reference,
                _charge_claim(data),
                port.ReportedChargeStatus.PAID,
                account_reference=account_replies.named_account(data.get("customer"), "email"),
            )
        return port.WebhookEvent(
            port.WebhookSubject.CHARGE,
            reference,
            _charge_claim(data),
            port.ReportedChargeStatus.PAID,
        )
    if event in TRANSFER_EVENTS:
        # The reference was sent to Paystack in lower case.
        reference = reading.text(data, "reference").upper()
        claim = reading.read_claim(data, in_minor_units=True)
        return port.WebhookEvent(
            port.WebhookSubject.TRANSFER, reference, claim, TRANSFER_EVENTS[event]
        )
    if event in REFUND_EVENTS:
        # These events identify only the charge, not the refund.
        return port.WebhookEvent(
            port.WebhookSubject.CHARGE_REFUNDS, reading.text(data, "transaction_reference")
        )
    if event in DISPUTE_EVENTS:
        return port.WebhookEvent(port.WebhookSubject.DISPUTE, reading.id_number(data, "id"))
    raise Malformed(f"the event {event} is not used")


def _charge_claim(data: Any) -> port.Claim | None:
    try:
        name = answers.paid_field(data)
    except Malformed:
        name = "amount"
    return reading.read_claim({**data, "amount": data.get(name)}, in_minor_units=True)
