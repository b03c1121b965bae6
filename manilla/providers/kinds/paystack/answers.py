"""Reads Paystack's answers."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from manilla.kit.money import Money
from manilla.providers import reading, wire
from manilla.providers.port import (
    Answer,
    Bank,
    ChargeOrder,
    ChargeState,
    HostedCheckout,
    RefundState,
    RefusalCode,
    Refused,
    ReportedChargeStatus,
    ReportedRefundStatus,
    ResolvedAccount,
    Sent,
    TransferOrder,
    TransferState,
    TransferStatus,
    VirtualAccount,
)
from manilla.providers.reading import Malformed
from manilla.providers.wire import Reply

Value = TypeVar("Value")

OTP = (
    "Paystack waits for a one-time password. Confirm the transfer in Paystack's dashboard within "
    "30 minutes, and turn off the confirmation of transfers in its settings."
)
NEEDS_ATTENTION = (
    "Paystack needs the customer's bank details: complete the refund in Paystack's dashboard."
)

# An abandoned charge can still be paid, by a late bank transfer. A reversed one was paid and given
# back.
CHARGE_STATUSES = {
    "success": ReportedChargeStatus.PAID,
    "failed": ReportedChargeStatus.FAILED,
    "reversed": ReportedChargeStatus.FAILED,
    **dict.fromkeys(
        ("abandoned", "pending", "ongoing", "processing", "queued", "pending_bank_transfer"),
        ReportedChargeStatus.PENDING,
    ),
}
TRANSFER_STATUSES = {
    "success": TransferStatus.DELIVERED,
    "reversed": TransferStatus.RETURNED,
    **dict.fromkeys(("pending", "otp", "received"), TransferStatus.PENDING),
    **dict.fromkeys(("failed", "abandoned", "blocked", "rejected"), TransferStatus.FAILED),
}
REFUND_STATUSES = {
    "processed": ReportedRefundStatus.PAID,
    "failed": ReportedRefundStatus.FAILED,
    **dict.fromkeys(("pending", "processing", "needs-attention"), ReportedRefundStatus.PENDING),
}
TRANSFER_REFUSALS: tuple[tuple[tuple[str, ...], RefusalCode], ...] = (
    (("balance is not enough",), RefusalCode.PROVIDER_INSUFFICIENT_BALANCE),
    (
        ("third party payouts", "starter business", "ip address", "has been deactivated"),
        RefusalCode.PAYOUT_FAILED,
    ),
    (
        ("bank code", "bank is invalid", "account number", "cannot resolve", "account closed"),
        RefusalCode.INVALID_BENEFICIARY,
    ),
)
INVALID_RECIPIENT = "recipient specified is invalid"
REFUNDED_BEFORE = ("fully reversed", "fully refunded", "already", "been refunded")


def transfer_answer(reply: Reply, read: Callable[[Any], Value]) -> Answer[Value]:
    """Reads the reply to a transfer, or to a call that a transfer needs first."""
    if wire.is_refusal(reply) and not wire.is_duplicate(reply):
        message = reply.message.lower()
        for words, code in TRANSFER_REFUSALS:
            if any(word in message for word in words):
                return Refused(code, reply.message)
    return wire.transfer_answer(reply, read)


def is_recipient_invalid(answer: Answer[Sent]) -> bool:
    return isinstance(answer, Refused) and INVALID_RECIPIENT in answer.guidance.lower()


def says_charge_is_unknown(reply: Reply) -> bool:
    """Paystack's document has 404, its error list also 400 "Transaction reference not found"."""
    message = reply.message.lower()
    is_error = reply.status in (400, 404) and not reply.is_success
    names_it = "transaction" in message or "reference" in message
    return is_error and names_it and "not found" in message


def says_transfer_is_unknown(reply: Reply) -> bool:
    return wire.is_not_found(reply) and "transfer" in reply.message.lower()


def says_refunded_before(reply: Reply) -> bool:
    """Whether the refund is rejected because of an earlier one, which may be this one."""
    message = reply.message.lower()
    return wire.is_refusal(reply) and any(words in message for words in REFUNDED_BEFORE)


def utc_text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def checkout(data: Any, reference: str) -> HostedCheckout:
    reading.same_reference(data, "reference", reference)
    return HostedCheckout(reading.web_address(data, "authorization_url"))


def virtual_account(data: Any, order: ChargeOrder) -> VirtualAccount:
    reading.same_reference(data, "reference", order.reference)
    return VirtualAccount(
        bank_name=reading.text(reading.field(data, "bank"), "name"),
        account_number=reading.text(data, "account_number"),
        account_name=reading.text(data, "account_name"),
        amount=reading.optional_kobo(data, "amount", order.amount.currency) or order.amount,
        expires_at=reading.moment(data, "account_expires_at"),
    )


def charge_state(data: Any, reference: str) -> ChargeState:
    reading.same_reference(data, "reference", reference)
    status = reading.one_of(CHARGE_STATUSES, data, "status")
    currency = reading.currency(data, "currency")
    paid = None
    if status is ReportedChargeStatus.PAID:
        paid = reading.kobo(data, paid_field(data), currency)
    return ChargeState(
        status=status,
        paid=paid,
        fee=_fee(data, paid, currency),
        reason=reading.optional_text(data, "gateway_response"),
        provider_reference=reading.optional_id(data, "id"),
    )


def paid_field(data: Any) -> str:
    """The field with the amount that we may credit: the smaller one.

    `amount` includes the fee where the customer bears it, and a partial payment is less than
    `requested_amount`.
    """
    charged = reading.kobo(data, "amount", "NGN")
    asked = reading.optional_kobo(data, "requested_amount", "NGN")
    return "amount" if asked is None or charged <= asked else "requested_amount"


def _fee(data: Any, paid: Money | None, currency: str) -> Money | None:
    """Returns the part of the fee that is taken from what we credit."""
    fee = _readable_fee(data, "fees", currency)
    if fee is None or paid is None:
        return fee
    from_customer = reading.kobo(data, "amount", currency).minor - paid.minor
    return Money(currency, max(fee.minor - from_customer, 0))


def _readable_fee(data: Any, name: str, currency: str) -> Money | None:
    """Reads a fee. An unreadable one is None, because a fee must not keep a transaction open."""
    try:
        return reading.optional_kobo(data, name, currency)
    except Malformed:
        return None


def refund_state(data: Any, charge_reference: str | None) -> RefundState:
    """Reads a refund. If the answer names a charge, it must be this one."""
    if charge_reference is not None and _charge_of(data) not in ("", charge_reference):
        raise Malformed("the refund is of another charge")
    currency = reading.currency(data, "currency")
    needs_attention = reading.text(data, "status") == "needs-attention"
    return RefundState(
        status=reading.one_of(REFUND_STATUSES, data, "status"),
        amount=reading.kobo(data, "amount", currency),
        provider_reference=_refund_id(data),
        needs_action=NEEDS_ATTENTION if needs_attention else "",
    )


def _charge_of(data: Any) -> str:
    """The charge's reference is in the transaction of a new refund, and beside it later."""
    named = reading.optional_text(data, "transaction_reference")
    transaction = data.get("transaction") if isinstance(data, dict) else None
    return named or reading.optional_text(transaction, "reference")


def _refund_id(data: Any) -> str:
    """Reads Paystack's id, a number. It becomes part of a path, so nothing else is accepted."""
    refund_id = reading.text_or_number(data, "id")
    if not (refund_id.isascii() and refund_id.isdigit()):
        raise Malformed("id is not a number")
    return refund_id


def banks(data: Any) -> list[Bank]:
    """Reads a page of banks, without those that take no transfers."""
    usable = [bank for bank in reading.items(data) if not _is_closed(bank)]
    return reading.banks(usable)


def _is_closed(bank: Any) -> bool:
    if not isinstance(bank, dict):
        raise Malformed("not a bank")
    is_off = any(bank.get(name) is False for name in ("active", "supports_transfer"))
    return is_off or bank.get("is_deleted") is True


def resolved(data: Any, account_number: str) -> ResolvedAccount:
    if reading.optional_text(data, "account_number") not in ("", account_number):
        raise Malformed("account_number is another one")
    return ResolvedAccount(reading.text(data, "account_name"))


def balance(data: Any, currency: str) -> Money:
    for each in reading.items(data):
        if reading.text(each, "currency") == currency:
            return reading.kobo(each, "balance", currency)
    raise Malformed(f"no balance in {currency}")


def sent(data: Any, order: TransferOrder) -> Sent:
    _same_transfer(data, order.reference)
    if data.get("currency") not in (None, order.amount.currency):
        raise Malformed("currency is another one")
    if reading.optional_kobo(data, "amount", order.amount.currency) not in (None, order.amount):
        raise Malformed("amount is another one")
    return Sent(_transfer_id(data), None, needs_action=_otp(data))


def transfer_state(data: Any, reference: str) -> TransferState:
    _same_transfer(data, reference)
    currency = reading.currency(data, "currency")
    return TransferState(
        status=reading.one_of(TRANSFER_STATUSES, data, "status"),
        amount=reading.kobo(data, "amount", currency),
        fee=_readable_fee(data, "fee_charged", currency),
        message=reading.optional_text(data, "gateway_response"),
        provider_reference=_transfer_id(data),
        session_id=reading.optional_text(data.get("session"), "id") or None,
        needs_action=_otp(data),
    )


def _transfer_id(data: Any) -> str | None:
    """Returns Paystack's number of the transfer, because the balance ledger names only that."""
    return reading.optional_id(data, "id") or reading.optional_text(data, "transfer_code") or None


def _same_transfer(data: Any, reference: str) -> None:
    if reading.text(data, "reference").lower() != reference.lower():
        raise Malformed("reference belongs to another transaction")


def _otp(data: Any) -> str:
    return OTP if data.get("status") == "otp" else ""
