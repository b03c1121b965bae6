"""Parses Flutterwave's responses. The result of an undocumented response is Unknown."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_DOWN, ROUND_HALF_UP
from typing import Any, TypeVar

from manilla.kit.money import Money, MoneyError, exact_decimal
from manilla.providers import port, reading, replies
from manilla.providers.kinds.flutterwave import cards
from manilla.providers.port import Answer, Refused
from manilla.providers.reading import Malformed
from manilla.providers.replies import Read, Refusals, Reply

Value = TypeVar("Value")

CHARGE_STATUSES = {
    "pending": port.ReportedChargeStatus.PENDING,
    "successful": port.ReportedChargeStatus.PAID,
    "failed": port.ReportedChargeStatus.FAILED,
}
TRANSFER_STATUSES = {
    "NEW": port.TransferStatus.PENDING,
    "PENDING": port.TransferStatus.PENDING,
    "SUCCESSFUL": port.TransferStatus.DELIVERED,
    "FAILED": port.TransferStatus.FAILED,
    "REVERSED": port.TransferStatus.RETURNED,
}

# The texts after which Flutterwave has not created a transfer. Its errors have no codes.
TRANSFER_REFUSALS: Refusals = (
    (
        ("insufficient wallet balance", "insufficient funds", "insufficient balance"),
        port.RefusalCode.PROVIDER_INSUFFICIENT_BALANCE,
    ),
    (
        ("account could not be validated", "account resolve failed", "invalid bank code"),
        port.RefusalCode.INVALID_BENEFICIARY,
    ),
    (("enable ip whitelisting", "minimum transfer amount"), port.RefusalCode.PAYOUT_FAILED),
    (
        # A text such as "approval is required" can be about a transfer that exists.
        tuple(
            f"{name} is required"
            for name in ("account_bank", "account_number", "amount", "currency", "narration")
        ),
        port.RefusalCode.GATEWAY_PAYOUT_FAILED,
    ),
)
DISBURSED = "disburse"  # in a message about a transfer that exists

UNKNOWN_CHARGE = ("no transaction was found", "transaction not found")

LAGOS = timezone(timedelta(hours=1))
YES = (1, "1", True)

APPROVAL = (
    "This transfer is waiting for approval at Flutterwave. Approve or reject it in Flutterwave's "
    "dashboard, and turn on automatic approval of transfers."
)
SEVERAL = (
    "Flutterwave has more than one transfer with this reference, and may have paid more than "
    "once. Compare the transfers in Flutterwave's dashboard."
)


def says_charge_is_unknown(reply: Reply) -> bool:
    is_unknown = any(words in reply.message.lower() for words in UNKNOWN_CHARGE)
    return reply.status in (400, 404) and not reply.is_success and is_unknown


find_charge = replies.found_or(replies.NO_CHARGE, says_charge_is_unknown)


def decide_lookup(reply: Reply, read: Read[Value]) -> Answer[Value]:
    answer = replies.decide_transfer(reply, read)
    if isinstance(answer, Refused) and answer.code is port.RefusalCode.GATEWAY_PAYOUT_FAILED:
        return Refused(port.RefusalCode.INVALID_BENEFICIARY, answer.guidance)
    return answer


def decide_transfer(reply: Reply, read: Read[Value]) -> Answer[Value]:
    return replies.decide_documented(reply, read, _transfer_rejection)


def _transfer_rejection(reply: Reply) -> port.RefusalCode | None:
    has_transfer = isinstance(reply.data, dict) and reply.data.get("id") is not None
    if has_transfer or DISBURSED in reply.message.lower():
        return None
    return replies.code_by_words(reply, TRANSFER_REFUSALS)


def decide_refund(reply: Reply, read: Read[Value]) -> Answer[Value]:
    """Interprets the response to a new refund, whose rejections Flutterwave does not document."""
    return replies.decide_documented(reply, read, lambda _reply: None)


def checkout(data: Any) -> port.HostedCheckout:
    return port.HostedCheckout(reading.web_address(data, "link"))


def virtual_account(document: Any, order: port.ChargeOrder) -> port.VirtualAccount:
    """Parses a one-time account. The account name is the narration that we sent."""
    account = reading.field(reading.field(document, "meta"), "authorization")
    return port.VirtualAccount(
        bank_name=reading.text(account, "transfer_bank"),
        account_number=reading.text_or_number(account, "transfer_account"),
        account_name=order.merchant_name,
        amount=reading.money(account, "transfer_amount", order.amount.currency),
        expires_at=expiry(account.get("account_expiration")),
    )


def expiry(given: Any) -> datetime | None:
    """Parses a time in milliseconds, or a timestamp with or without a time zone.

    A timestamp without a time zone is treated as Lagos time, which is the earliest of the likely
    zones. Returns None for a time that is invalid or has passed, because the sandbox returns the
    request's time.
    """
    try:
        if isinstance(given, int):
            ends = datetime.fromtimestamp(given / 1000, UTC)
        else:
            ends = datetime.fromisoformat(given)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
    ends = ends if ends.tzinfo else ends.replace(tzinfo=LAGOS)
    return ends if ends > datetime.now(UTC) else None


def charge_state(data: Any, reference: str) -> port.ChargeState:
    reading.same_reference(data, "tx_ref", reference)
    status = reading.one_of(CHARGE_STATUSES, data, "status")
    currency = reading.currency(data, "currency")
    amount = reading.money(data, "amount", currency)
    charged = amount
    if data.get("charged_amount") is not None:
        charged = _rounded(data, "charged_amount", currency, ROUND_HALF_UP)
    return port.ChargeState(
        status=status,
        # The charged amount includes a fee that the customer pays.
        # If the charged amount is lower than requested, the customer has paid too little.
        paid=min(amount, charged) if status is port.ReportedChargeStatus.PAID else None,
        fee=_own_fee(data, charged.minor - amount.minor, currency),
        reason=reading.optional_text(data, "processor_response"),
        provider_reference=reading.id_number(data, "id"),
        card=cards.of_charge(data) if status is port.ReportedChargeStatus.PAID else None,
    )


def _own_fee(data: Any, borne_by_customer: int, currency: str) -> Money | None:
    """Returns the part of the fee that is deducted from our balance."""
    fee = reading.fee(data, "app_fee", currency)
    return fee and Money(currency, max(0, fee.minor - max(0, borne_by_customer)))


def _rounded(data: Any, name: str, currency: str, rounding: str) -> Money:
    """Parses a sum of amounts and fees, which can have three decimals, such as 26.875."""
    value = reading.amount(data, name)
    try:
        unit = Money(currency, 1).amount
        return Money.of(exact_decimal(value).quantize(unit, rounding), currency)
    except (MoneyError, ArithmeticError) as error:
        raise Malformed(f"{name} is not an amount in {currency}") from error


def read_account(data: Any, account_number: str) -> port.ResolvedAccount:
    reading.same_reference(data, "account_number", account_number)
    return reading.read_account(data)


def balance(data: Any, currency: str) -> Money:
    if isinstance(data, list):
        data = next((each for each in data if _is_in(each, currency)), None)
    reading.same_reference(data, "currency", currency)
    return _rounded(data, "available_balance", currency, ROUND_DOWN)


def _is_in(data: Any, currency: str) -> bool:
    return isinstance(data, dict) and data.get("currency") == currency


def read_transfer(data: Any, order: port.TransferOrder) -> port.Sent:
    reading.same_reference(data, "reference", order.reference)
    currency = order.amount.currency
    if data.get("currency") is not None:
        reading.same_reference(data, "currency", currency)
    if reading.optional_money(data, "amount", currency) not in (None, order.amount):
        raise Malformed("amount belongs to another transaction")
    return port.Sent(
        provider_reference=reading.id_number(data, "id"),
        fee=reading.fee(data, "fee", currency),
        needs_action=APPROVAL if _waits_for_approval(data) else "",
    )


def found_transfer(data: Any, reference: str) -> port.TransferState:
    """Finds our transfer in the list, which may also contain other transfers."""
    listed = [data] if isinstance(data, dict) else reading.items(data)
    found = [each for each in listed if reading.text(each, "reference") == reference]
    if listed and not found:
        raise Malformed("reference belongs to another transaction")
    if not found:
        return replies.NO_TRANSFER
    states = [_transfer_state(each) for each in found]
    if len(states) > 1:
        return port.TransferState(port.TransferStatus.PENDING, needs_action=SEVERAL)
    return states[0]


def _transfer_state(data: Any) -> port.TransferState:
    currency = reading.currency(data, "currency")
    status = reading.one_of(TRANSFER_STATUSES, data, "status")
    waits = status is port.TransferStatus.PENDING and _waits_for_approval(data)
    return port.TransferState(
        status=status,
        amount=reading.money(data, "amount", currency),
        fee=reading.fee(data, "fee", currency),
        message=reading.optional_text(data, "complete_message"),
        provider_reference=reading.id_number(data, "id"),
        needs_action=APPROVAL if waits else "",
    )


def _waits_for_approval(data: Any) -> bool:
    return data.get("requires_approval") in YES and data.get("is_approved") not in YES
