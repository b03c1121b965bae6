"""Parses Monnify's responses. Amounts are in naira, as numbers or as text."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, TypeVar

from manilla.kit.money import Money
from manilla.providers import port, reading, replies
from manilla.providers.port import Answer, Refused
from manilla.providers.reading import Malformed
from manilla.providers.replies import Enveloped, Read, Reply

Value = TypeVar("Value")

CURRENCY = "NGN"
SUCCESS = "0"  # the response code of a successful call
LAGOS = timezone(timedelta(hours=1))  # the time zone of timestamps that do not contain one

OTP = (
    "Monnify is waiting for a one-time password, which it has sent by email. Authorize the "
    "transfer in Monnify's dashboard, and ask Monnify to turn off two-factor "
    "authentication for transfers."
)
OTP_NOT_SENT = (
    "Monnify is waiting for a one-time password, but could not send it by email. Request it again "
    "and authorize the transfer in Monnify's dashboard, and ask Monnify to turn off two-factor "
    "authentication for transfers."
)
NEEDED_ACTIONS = {"PENDING_AUTHORIZATION": OTP, "OTP_EMAIL_DISPATCH_FAILED": OTP_NOT_SENT}

# Every status that maps to PAID means that money has arrived, but possibly a wrong amount.
CHARGE_STATUSES = {
    **dict.fromkeys(("PAID", "OVERPAID", "PARTIALLY_PAID"), port.ReportedChargeStatus.PAID),
    "PENDING": port.ReportedChargeStatus.PENDING,
    **dict.fromkeys(("FAILED", "CANCELLED"), port.ReportedChargeStatus.FAILED),
    "EXPIRED": port.ReportedChargeStatus.EXPIRED,
}
TRANSFER_STATUSES = {
    "SUCCESS": port.TransferStatus.DELIVERED,
    **dict.fromkeys(("PENDING", "IN_PROGRESS", *NEEDED_ACTIONS), port.TransferStatus.PENDING),
    **dict.fromkeys(("FAILED", "EXPIRED"), port.TransferStatus.FAILED),
    "REVERSED": port.TransferStatus.RETURNED,
}

# The messages for an unknown reference are not documented.
# Messages with these texts are treated as reports that the reference does not exist.
MISSING = ("not found", "could not find", "cannot find", "does not exist", "no transaction match")
SUBJECTS = ("reference", "transaction", "transfer", "disbursement", "refund")


def read_envelope(document: Mapping[str, Any]) -> Enveloped:
    """Parses `{"requestSuccessful", "responseMessage", "responseCode", "responseBody"}`.

    Some responses have no `requestSuccessful`, so only the code counts. A rejection needs a code,
    and `requestSuccessful` must match the code.
    """
    flag, code = document.get("requestSuccessful"), document.get("responseCode")
    message, body = document.get("responseMessage"), document.get("responseBody")
    by_code = code == SUCCESS if isinstance(code, str) and code else None
    if flag is None:
        return Enveloped(by_code, message, body)
    if flag is True and code is None:
        return Enveloped(True, message, body)
    return Enveloped(by_code if flag is by_code else None, message, body)


def _is_missing(reply: Reply, statuses: tuple[int, ...] = (404,)) -> bool:
    """Returns True if Monnify itself reports that it does not know the reference."""
    message = reply.message.lower()
    return (
        reply.status in statuses
        and not reply.is_success
        and any(words in message for words in MISSING)
        and any(word in message for word in SUBJECTS)
    )


find_charge = replies.found_or(replies.NO_CHARGE, lambda reply: _is_missing(reply, (400, 404)))
find_refund = replies.found_or(replies.NO_REFUND, _is_missing)
find_transfer = replies.found_or(replies.NO_TRANSFER, _is_missing)


def decide_lookup(reply: Reply, read: Read[Value]) -> Answer[Value]:
    """Interprets the response to an account lookup. It moves no money, so a 404 is a rejection."""
    if reply.is_success or reply.status not in (*replies.REFUSING, 404):
        return replies.require_success(reply, read)
    is_forbidden = reply.status == 403
    code = port.RefusalCode.PAYOUT_FAILED if is_forbidden else port.RefusalCode.INVALID_BENEFICIARY
    return Refused(code, reply.message or "No reason was given.")


def amount(data: Any, name: str, currency: str = CURRENCY) -> Money:
    return reading.unsigned_money(data, name, currency)


def optional_amount(data: Any, name: str, currency: str = CURRENCY) -> Money | None:
    return None if data.get(name) is None else amount(data, name, currency)


def seconds(data: Any, name: str) -> int:
    value = reading.field(data, name)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise Malformed(f"{name} is not a number of seconds")
    return value


def moment(data: Any, name: str) -> datetime:
    """Parses a timestamp in one of Monnify's formats. The default time zone is Lagos."""
    given = reading.text(data, name)
    try:
        if "/" in given:
            return datetime.strptime(f"{given} +0100", "%d/%m/%Y %I:%M:%S %p %z")
        parsed = datetime.fromisoformat(given)
    except ValueError:
        raise Malformed(f"{name} is not a time") from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=LAGOS)


def check_currency(data: Any) -> None:
    if data.get("currency") not in (None, CURRENCY):
        raise Malformed("currency is not naira")


def check_if_given(data: Any, name: str, expected: str) -> None:
    """Rejects a response that names a different transaction."""
    if reading.optional_id(data, name) not in (None, expected):
        raise Malformed(f"{name} belongs to another transaction")


def transaction_reference(data: Any, reference: str) -> str:
    reading.same_reference(data, "paymentReference", reference)
    return reading.text(data, "transactionReference")


def checkout(data: Any, reference: str) -> port.HostedCheckout:
    reading.same_reference(data, "paymentReference", reference)
    return port.HostedCheckout(reading.web_address(data, "checkoutUrl"))


def virtual_account(data: Any, reference: str, transaction: str) -> port.VirtualAccount:
    if not isinstance(data, dict):
        raise Malformed("not an object")
    check_if_given(data, "paymentReference", reference)
    check_if_given(data, "transactionReference", transaction)
    return port.VirtualAccount(
        bank_name=reading.text(data, "bankName"),
        account_number=reading.text(data, "accountNumber"),
        account_name=reading.text(data, "accountName"),
        amount=amount(data, "totalPayable"),
        expires_at=_expiry(data),
    )


def _expiry(data: Any) -> datetime | None:
    """Returns the earlier of the two expiry times in the response."""
    ends = []
    if data.get("accountDurationSeconds") is not None:
        valid = timedelta(seconds=seconds(data, "accountDurationSeconds"))
        ends.append(datetime.now(UTC) + valid)
    if data.get("expiresOn") is not None:
        ends.append(moment(data, "expiresOn"))
    return min(ends, default=None)


def charge_state(data: Any, reference: str) -> port.ChargeState:
    reading.same_reference(data, "paymentReference", reference)
    status = reading.one_of(CHARGE_STATUSES, data, "paymentStatus")
    # Return the reported currency. If it differs from ours, the payment is reviewed immediately.
    currency = reading.currency(data, "currency")
    paid = (
        amount(data, "amountPaid", currency) if status is port.ReportedChargeStatus.PAID else None
    )
    if paid is not None and paid.minor == 0:
        raise Malformed("paid, but amountPaid is zero")
    return port.ChargeState(
        status=status,
        paid=paid,
        fee=None if paid is None else _kept(data, paid),
        provider_reference=reading.optional_text(data, "transactionReference") or None,
    )


def _kept(data: Any, paid: Money) -> Money | None:
    """Returns the fee that Monnify deducts from the settlement."""
    settled = optional_amount(data, "settlementAmount", paid.currency)
    return None if settled is None or settled > paid else paid - settled


def read_account(data: Any, account_number: str) -> port.ResolvedAccount:
    reading.same_reference(data, "accountNumber", account_number)
    return port.ResolvedAccount(reading.text(data, "accountName"))


def read_transfer(data: Any, order: port.TransferOrder) -> port.Sent:
    reading.same_reference(data, "reference", order.reference)
    check_currency(data)
    if optional_amount(data, "amount") not in (None, order.amount):
        raise Malformed("amount is another one")
    return port.Sent(
        reading.optional_text(data, "transactionReference") or None,
        optional_amount(data, "totalFee"),
        session_id=reading.optional_text(data, "sessionId") or None,
        needs_action=NEEDED_ACTIONS.get(reading.optional_text(data, "status"), ""),
    )


def transfer_state(data: Any, reference: str) -> port.TransferState:
    reading.same_reference(data, "reference", reference)
    status = reading.one_of(TRANSFER_STATUSES, data, "status")
    is_named = data.get("currency") is not None
    currency = reading.currency(data, "currency") if is_named else CURRENCY
    return port.TransferState(
        status=status,
        amount=amount(data, "amount", currency),
        fee=optional_amount(data, "fee", currency),
        message=reading.optional_text(data, "transactionDescription"),
        provider_reference=reading.optional_text(data, "transactionReference") or None,
        session_id=reading.optional_text(data, "sessionId") or None,
        needs_action=NEEDED_ACTIONS.get(data["status"], ""),
    )


def accepted_refund(data: Any, reference: str) -> port.RefundState:
    """Parses the response to a new refund, which is pending even if Monnify reports COMPLETED."""
    reading.same_reference(data, "refundReference", reference)
    reading.text(data, "refundStatus")
    return port.RefundState(port.ReportedRefundStatus.PENDING, amount(data, "refundAmount"))


def refund_state(data: Any, reference: str) -> port.RefundState:
    reading.same_reference(data, "refundReference", reference)
    return port.RefundState(_refund_status(data), amount(data, "refundAmount"))


def _refund_status(data: Any) -> port.ReportedRefundStatus:
    """Returns the refund's status. Every status except the two final statuses counts as pending."""
    status = reading.text(data, "refundStatus")
    if status == "FAILED":
        return port.ReportedRefundStatus.FAILED
    # In Monnify's example, the status is COMPLETED, although the comment says "in progress".
    is_in_progress = "progress" in reading.optional_text(data, "comment").lower()
    if status == "COMPLETED" and not is_in_progress:
        return port.ReportedRefundStatus.PAID
    return port.ReportedRefundStatus.PENDING
