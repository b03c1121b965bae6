"""Parses Paystack's responses."""

from datetime import UTC, datetime
from typing import Any, TypeVar

from manilla.kit.money import Money
from manilla.providers import port, reading, replies
from manilla.providers.kinds.paystack import cards
from manilla.providers.port import Answer, Refused
from manilla.providers.reading import Malformed
from manilla.providers.replies import Read, Refusals, Reply

Value = TypeVar("Value")

OTP = (
    "Paystack is waiting for a one-time password. Confirm the transfer in Paystack's dashboard "
    "within 30 minutes, and turn off the confirmation of transfers in its settings."
)
NEEDS_ATTENTION = (
    "Paystack needs the customer's bank details. Complete the refund in Paystack's dashboard."
)

# An abandoned charge can still be paid by bank transfer. A reversed charge was paid, then refunded.
CHARGE_STATUSES = {
    "success": port.ReportedChargeStatus.PAID,
    "failed": port.ReportedChargeStatus.FAILED,
    "reversed": port.ReportedChargeStatus.FAILED,
    **dict.fromkeys(
        ("abandoned", "pending", "ongoing", "processing", "queued", "pending_bank_transfer"),
        port.ReportedChargeStatus.PENDING,
    ),
}
TRANSFER_STATUSES = {
    "success": port.TransferStatus.DELIVERED,
    "reversed": port.TransferStatus.RETURNED,
    **dict.fromkeys(("pending", "otp", "received"), port.TransferStatus.PENDING),
    **dict.fromkeys(("failed", "abandoned", "blocked", "rejected"), port.TransferStatus.FAILED),
}
REFUND_STATUSES = {
    "processed": port.ReportedRefundStatus.PAID,
    "failed": port.ReportedRefundStatus.FAILED,
    **dict.fromkeys(
        ("pending", "processing", "needs-attention"), port.ReportedRefundStatus.PENDING
    ),
}
INVALID_RECIPIENT = "recipient specified is invalid"
NO_BALANCE = "balance is not enough"
# Paystack's types of errors. It has not acted on a request that is invalid.
INVALID_REQUEST = "validation_error"
PROCESSOR_ERROR = "processor_error"  # for example, a bank did not respond in time
DUPLICATE = "duplicate"  # in the code for a used reference, whose type is INVALID_REQUEST, too
# The texts in Paystack's list of errors after which no transfer exists. The list has no codes.
TRANSFER_REFUSALS: Refusals = (
    ((NO_BALANCE,), port.RefusalCode.PROVIDER_INSUFFICIENT_BALANCE),
    (
        (
            *("you cannot initiate third party payouts", "integration has been deactivated"),
            "ip address is not allowed",
        ),
        port.RefusalCode.PAYOUT_FAILED,
    ),
    (
        (
            *("bank code is invalid", "unknown bank code", "bank is invalid"),
            *("account number is invalid", "account number is required"),
            *("account number should be numeric", "cannot resolve account", "account closed"),
            "account has been deactivated",
        ),
        port.RefusalCode.INVALID_BENEFICIARY,
    ),
    (
        (
            *(INVALID_RECIPIENT, "invalid amount sent", "invalid amount passed"),
            "can't make the transfer to this recipient",
        ),
        port.RefusalCode.GATEWAY_PAYOUT_FAILED,
    ),
)
NOT_REFUNDED = (
    *(NO_BALANCE, "insufficient balance to fulfill this refund", "transaction not found"),
    *("refund amount cannot be more than", "cannot refund less than"),
)
REFUNDED_BEFORE = ("fully reversed", "fully refunded", "been refunded")


def decide_lookup(reply: Reply, read: Read[Value]) -> Answer[Value]:
    """Interprets the response to an account lookup or a new recipient, which move no money."""
    return replies.decide_transfer(reply, read, TRANSFER_REFUSALS)


def decide_transfer(reply: Reply, read: Read[Value]) -> Answer[Value]:
    return replies.decide_documented(reply, read, _transfer_rejection)


def _transfer_rejection(reply: Reply) -> port.RefusalCode | None:
    if _may_have_acted(reply):
        return None
    code = replies.code_by_words(reply, TRANSFER_REFUSALS)
    return code or (port.RefusalCode.GATEWAY_PAYOUT_FAILED if is_invalid(reply) else None)


def _may_have_acted(reply: Reply) -> bool:
    """Returns True if the error's type or code means that the transfer or refund may exist."""
    is_duplicate = DUPLICATE in str(reply.document.get("code"))
    return is_duplicate or reply.document.get("type") == PROCESSOR_ERROR


def is_invalid(reply: Reply) -> bool:
    return reply.document.get("type") == INVALID_REQUEST


def is_recipient_invalid(answer: Answer[port.Sent]) -> bool:
    return isinstance(answer, Refused) and INVALID_RECIPIENT in answer.guidance.lower()


def says_charge_is_unknown(reply: Reply) -> bool:
    """Returns True if Paystack does not know the charge.

    Paystack documents 404, but its error list has 400 "Transaction reference not found".
    """
    message = reply.message.lower()
    is_error = reply.status in (400, 404) and not reply.is_success
    names_it = "transaction" in message or "reference" in message
    return is_error and names_it and "not found" in message


def _says_transfer_is_unknown(reply: Reply) -> bool:
    return replies.is_not_found(reply) and "transfer" in reply.message.lower()


find_charge = replies.found_or(replies.NO_CHARGE, says_charge_is_unknown)
find_transfer = replies.found_or(replies.NO_TRANSFER, _says_transfer_is_unknown)


def decide_refund(reply: Reply, read: Read[Value]) -> Answer[Value]:
    """Interprets the response to a new refund.

    If Paystack rejects the refund because of an earlier refund, the result is Unknown. The earlier
    refund may be this refund.
    """
    return replies.decide_documented(reply, read, _refund_rejection)


def _refund_rejection(reply: Reply) -> port.RefusalCode | None:
    message = reply.message.lower()
    if _may_have_acted(reply) or any(words in message for words in REFUNDED_BEFORE):
        return None
    is_final = is_invalid(reply) or any(text in message for text in NOT_REFUNDED)
    return port.RefusalCode.PAYMENT_DECLINED if is_final else None


def page_count(meta: Any) -> int | None:
    """Returns the number of pages, or None, which means that an empty page ends the list."""
    count = meta.get("pageCount") if isinstance(meta, dict) else None
    return count if isinstance(count, int) else None


def utc_text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def checkout(data: Any, reference: str) -> port.HostedCheckout:
    reading.same_reference(data, "reference", reference)
    return port.HostedCheckout(reading.web_address(data, "authorization_url"))


def virtual_account(data: Any, order: port.ChargeOrder) -> port.VirtualAccount:
    reading.same_reference(data, "reference", order.reference)
    return port.VirtualAccount(
        bank_name=reading.text(reading.field(data, "bank"), "name"),
        account_number=reading.text(data, "account_number"),
        account_name=reading.text(data, "account_name"),
        amount=reading.optional_kobo(data, "amount", order.amount.currency) or order.amount,
        expires_at=reading.moment(data, "account_expires_at"),
    )


def charge_state(data: Any, reference: str) -> port.ChargeState:
    reading.same_reference(data, "reference", reference)
    status = reading.one_of(CHARGE_STATUSES, data, "status")
    currency = reading.currency(data, "currency")
    paid = None
    if status is port.ReportedChargeStatus.PAID:
        paid = reading.kobo(data, paid_field(data), currency)
    return port.ChargeState(
        status=status,
        paid=paid,
        fee=_fee(data, paid, currency),
        reason=reading.optional_text(data, "gateway_response"),
        provider_reference=reading.optional_id(data, "id"),
        card=None if paid is None else cards.of_charge(data),
    )


def paid_field(data: Any) -> str:
    """Returns the name of the field whose amount is lower. We may credit only that amount.

    `amount` includes the fee if the customer pays it. A partial payment is less than
    `requested_amount`.
    """
    charged = reading.kobo(data, "amount", "NGN")
    asked = reading.optional_kobo(data, "requested_amount", "NGN")
    return "amount" if asked is None or charged <= asked else "requested_amount"


def _fee(data: Any, paid: Money | None, currency: str) -> Money | None:
    """Returns the part of the fee that is deducted from the credited amount."""
    fee = _readable_fee(data, "fees", currency)
    if fee is None or paid is None:
        return fee
    from_customer = reading.kobo(data, "amount", currency).minor - paid.minor
    return Money(currency, max(fee.minor - from_customer, 0))


def _readable_fee(data: Any, name: str, currency: str) -> Money | None:
    """Parses a fee, or returns None: an invalid fee must not keep a transaction open."""
    try:
        return reading.optional_kobo(data, name, currency)
    except Malformed:
        return None


def refund_state(data: Any, charge_reference: str | None) -> port.RefundState:
    """Parses a refund. If the response names a charge, it must be the refund's charge."""
    if charge_reference is not None and _charge_of(data) not in ("", charge_reference):
        raise Malformed("the refund is of another charge")
    currency = reading.currency(data, "currency")
    needs_attention = reading.text(data, "status") == "needs-attention"
    return port.RefundState(
        status=reading.one_of(REFUND_STATUSES, data, "status"),
        amount=reading.kobo(data, "amount", currency),
        provider_reference=reading.id_number(data, "id"),
        needs_action=NEEDS_ATTENTION if needs_attention else "",
    )


def _charge_of(data: Any) -> str:
    """Returns the charge's reference. For a new refund, it is nested in `transaction`."""
    named = reading.optional_text(data, "transaction_reference")
    transaction = data.get("transaction") if isinstance(data, dict) else None
    return named or reading.optional_text(transaction, "reference")


def banks(data: Any) -> list[port.Bank]:
    """Parses a page of banks. Omits banks that do not accept transfers."""
    usable = [bank for bank in reading.items(data) if not _is_closed(bank)]
    return reading.banks(usable)


def _is_closed(bank: Any) -> bool:
    if not isinstance(bank, dict):
        raise Malformed("not a bank")
    is_off = any(bank.get(name) is False for name in ("active", "supports_transfer"))
    return is_off or bank.get("is_deleted") is True


def read_account(data: Any, account_number: str) -> port.ResolvedAccount:
    if reading.optional_text(data, "account_number") not in ("", account_number):
        raise Malformed("account_number is another one")
    return port.ResolvedAccount(reading.text(data, "account_name"))


def balance(data: Any, currency: str) -> Money:
    for each in reading.items(data):
        if reading.text(each, "currency") == currency:
            return reading.kobo(each, "balance", currency)
    raise Malformed(f"no balance in {currency}")


def read_transfer(data: Any, order: port.TransferOrder) -> port.Sent:
    _same_transfer(data, order.reference)
    if data.get("currency") not in (None, order.amount.currency):
        raise Malformed("currency is another one")
    if reading.optional_kobo(data, "amount", order.amount.currency) not in (None, order.amount):
        raise Malformed("amount is another one")
    return port.Sent(_transfer_id(data), None, needs_action=_otp(data))


def transfer_state(data: Any, reference: str) -> port.TransferState:
    _same_transfer(data, reference)
    currency = reading.currency(data, "currency")
    return port.TransferState(
        status=reading.one_of(TRANSFER_STATUSES, data, "status"),
        amount=reading.kobo(data, "amount", currency),
        fee=_readable_fee(data, "fee_charged", currency),
        message=reading.optional_text(data, "gateway_response"),
        provider_reference=_transfer_id(data),
        session_id=reading.optional_text(data.get("session"), "id") or None,
        needs_action=_otp(data),
    )


def _transfer_id(data: Any) -> str | None:
    """Returns Paystack's transfer id, because the balance ledger contains only that id."""
    return reading.optional_id(data, "id") or reading.optional_text(data, "transfer_code") or None


def _same_transfer(data: Any, reference: str) -> None:
    if reading.text(data, "reference").lower() != reference.lower():
        raise Malformed("reference belongs to another transaction")


def _otp(data: Any) -> str:
    return OTP if data.get("status") == "otp" else ""
