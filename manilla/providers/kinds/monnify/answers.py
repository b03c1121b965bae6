"""Parses Monnify's responses. Amounts are in naira, as numbers or as text."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, TypeVar

from manilla.kit.money import Money
from manilla.providers import port, reading
from manilla.providers.reading import Malformed
from manilla.providers.replies import Enveloped

Value = TypeVar("Value")

CURRENCY = "NGN"
AMOUNT_MIN = Money(CURRENCY, 20_00)
TOO_LITTLE = f"Monnify accepts amounts of at least {AMOUNT_MIN}."
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
NEEDED_ACTIONS = {
    "PENDING_AUTHORIZATION": OTP,
    "PENDING_BATCH_AUTHORIZATION": OTP,
    "OTP_EMAIL_DISPATCH_FAILED": OTP_NOT_SENT,
}

# Every status that maps to PAID means that money has arrived, but possibly a wrong amount.
CHARGE_STATUSES = {
    **dict.fromkeys(("PAID", "OVERPAID", "PARTIALLY_PAID"), port.ReportedChargeStatus.PAID),
    "PENDING": port.ReportedChargeStatus.PENDING,
    **dict.fromkeys(("FAILED", "CANCELLED"), port.ReportedChargeStatus.FAILED),
    "EXPIRED": port.ReportedChargeStatus.EXPIRED,
}
TRANSFER_STATUSES = {
    **dict.fromkeys(("SUCCESS", "COMPLETED"), port.TransferStatus.DELIVERED),
    **dict.fromkeys(
        ("PENDING", "AWAITING_PROCESSING", "IN_PROGRESS", *NEEDED_ACTIONS),
        port.TransferStatus.PENDING,
    ),
    **dict.fromkeys(("FAILED", "EXPIRED"), port.TransferStatus.FAILED),
    "REVERSED": port.TransferStatus.RETURNED,
}


def read_envelope(document: Mapping[str, Any]) -> Enveloped:
    """Parses `{"requestSuccessful", "responseMessage", "responseCode", "responseBody"}`.

    Some responses have no `requestSuccessful`, so only the code counts. The code is text or a
    number. A rejection needs a code, and `requestSuccessful` must match the code.
    """
    flag, code = document.get("requestSuccessful"), document.get("responseCode")
    message, body = document.get("responseMessage"), document.get("responseBody")
    is_code = isinstance(code, str | int) and not isinstance(code, bool) and code != ""
    by_code = str(code) == SUCCESS if is_code else None
    if flag is None:
        return Enveloped(by_code, message, body)
    if flag is True and code is None:
        return Enveloped(True, message, body)
    return Enveloped(by_code if flag is by_code else None, message, body)


def amount(data: Any, name: str, currency: str = CURRENCY) -> Money:
    return reading.unsigned_money(data, name, currency)


def optional_amount(data: Any, name: str, currency: str = CURRENCY) -> Money | None:
    return None if data.get(name) is None else amount(data, name, currency)


def is_too_little(amount: Money) -> bool:
    return amount.currency == AMOUNT_MIN.currency and amount < AMOUNT_MIN


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


def charge_state(data: Any, reference: str, card: port.ReusableCard | None) -> port.ChargeState:
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
        fee=None if paid is None else fee_of(data, paid),
        provider_reference=reading.optional_text(data, "transactionReference") or None,
        card=None if paid is None else card,
    )


def fee_of(data: Any, paid: Money) -> Money | None:
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
        reading.fee(data, "totalFee", CURRENCY),
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
        fee=reading.fee(data, "fee", currency),
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
    # In Monnify's examples, a refund in progress can have the status COMPLETED too. Only a paid
    # refund has the time of its completion.
    is_paid = status == "COMPLETED" and reading.optional_text(data, "completedOn") != ""
    return port.ReportedRefundStatus.PAID if is_paid else port.ReportedRefundStatus.PENDING
