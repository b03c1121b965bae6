"""Parses Kora's responses. Amounts are in naira, as numbers or as text."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from manilla.kit.money import Money
from manilla.providers import port, reading, replies
from manilla.providers.port import Answer, RefusalCode, Unknown
from manilla.providers.reading import Malformed
from manilla.providers.replies import Enveloped, Read, Reply

Value = TypeVar("Value")

NAIRA = "NGN"
DETAILS_MAX = 5
NIP_SESSION_ID = re.compile(r"[0-9]{30}")

CHARGE_STATUSES = {
    "pending": port.ReportedChargeStatus.PENDING,
    "processing": port.ReportedChargeStatus.PENDING,
    "success": port.ReportedChargeStatus.PAID,
    "failed": port.ReportedChargeStatus.FAILED,
    "expired": port.ReportedChargeStatus.EXPIRED,
    "cancelled": port.ReportedChargeStatus.EXPIRED,
}
TRANSFER_STATUSES = {
    "pending": port.TransferStatus.PENDING,
    "processing": port.TransferStatus.PENDING,
    "success": port.TransferStatus.DELIVERED,
    "failed": port.TransferStatus.FAILED,
    "reversed": port.TransferStatus.RETURNED,
}
REFUND_STATUSES = {
    "pending": port.ReportedRefundStatus.PENDING,
    "processing": port.ReportedRefundStatus.PENDING,
    "success": port.ReportedRefundStatus.PAID,
    "failed": port.ReportedRefundStatus.FAILED,
}

# According to Kora, these messages mean that no payout exists. The HTTP status is not documented.
NOT_CREATED = {
    "unable to resolve bank account": RefusalCode.INVALID_BENEFICIARY,
    "invalid account": RefusalCode.INVALID_BENEFICIARY,
    "invalid bank provided": RefusalCode.INVALID_BENEFICIARY,
    "insufficient funds in disbursement wallet": RefusalCode.PROVIDER_INSUFFICIENT_BALANCE,
}
PAYOUT_REJECTING = replies.REFUSING | {409}
# According to Kora, messages that start with these words mean that no refund exists.
NOT_REFUNDED = (
    "transaction has not yet been settled",
    "transaction not found",
    "refund can only be requested on a successful transaction",
    "refund not supported for this currency",
    "refund amount cannot be",
    "amount can't be more than",
    "the maximum refundable amount for this transaction is",
    "insufficient funds in disbursement wallet",
)
INVALID_FIELDS = "bad_request"  # the error in a response that names invalid fields


def read_envelope(document: Mapping[str, Any]) -> Enveloped:
    """Parses the envelope, and adds the fields that Kora rejected to the error message."""
    read = replies.read_flag(document)
    details = "; ".join(list(_details(read.data))[:DETAILS_MAX])
    if read.is_success is not False or not isinstance(read.message, str) or not details:
        return read
    return Enveloped(read.is_success, f"{read.message} ({details})", read.data)


def _details(data: Any) -> Iterator[str]:
    """Yields the field errors in `{"customer": {"message": "customer is required"}}`."""
    for name, problem in data.items() if isinstance(data, dict) else ():
        text = problem.get("message") if isinstance(problem, dict) else problem
        yield f"{name}: {text}" if isinstance(text, str) else name


def decide_payment(reply: Reply, read: Read[Value]) -> Answer[Value]:
    return _may_exist(reply) or replies.decide_payment(reply, read)


def decide_refund(reply: Reply, read: Read[Value]) -> Answer[Value]:
    return _may_exist(reply) or replies.decide_documented(reply, read, _refund_rejection)


def _refund_rejection(reply: Reply) -> RefusalCode | None:
    is_final = reply.message.lower().startswith(NOT_REFUNDED) or _has_invalid_fields(reply)
    return RefusalCode.PAYMENT_DECLINED if is_final else None


def decide_transfer(reply: Reply, read: Read[Value]) -> Answer[Value]:
    return _may_exist(reply) or replies.decide_documented(
        reply, read, _transfer_rejection, PAYOUT_REJECTING
    )


def _transfer_rejection(reply: Reply) -> RefusalCode | None:
    if reply.status in replies.REFUSING and _has_invalid_fields(reply):
        return RefusalCode.GATEWAY_PAYOUT_FAILED
    return NOT_CREATED.get(reply.message.lower().rstrip("."))


def _has_invalid_fields(reply: Reply) -> bool:
    """Returns True if Kora names the fields that it rejected.

    Without names, the error may only mean that the HTTP status is 400.
    """
    return reply.document.get("error") == INVALID_FIELDS and any(_details(reply.data))


def decide_lookup(reply: Reply, read: Read[Value]) -> Answer[Value]:
    """Interprets the response to an account lookup. It moves no money, so a 404 is a rejection."""
    if reply.status == 404 and not reply.is_success:
        return replies.refused_transfer(reply)
    return replies.decide_transfer(reply, read)


def _may_exist(reply: Reply) -> Unknown | None:
    """Returns Unknown if Kora may know our reference although Kora rejected the request."""
    if reply.is_success:
        return None
    is_named = isinstance(reply.data, dict) and "reference" in reply.data
    if is_named or replies.is_about_reference(reply):
        return Unknown(f"Kora may know the reference: HTTP {reply.status}: {reply.message}")
    return None


def says_missing(*subjects: str) -> Callable[[Reply], bool]:
    """Returns a function that returns True if Kora reports an unknown reference.

    The HTTP status of this response is not documented, so both 400 and 404 are accepted.
    """
    known_words = {f"{subject} not found" for subject in subjects}

    def is_missing(reply: Reply) -> bool:
        said = reply.message.lower().rstrip(".")
        return reply.status in (400, 404) and not reply.is_success and said in known_words

    return is_missing


find_charge = replies.found_or(replies.NO_CHARGE, says_missing("charge", "transaction"))
find_refund = replies.found_or(replies.NO_REFUND, says_missing("refund", "transaction"))
find_transfer = replies.found_or(replies.NO_TRANSFER, says_missing("transaction"))


def checkout(data: Any, order: port.ChargeOrder) -> port.HostedCheckout:
    _about_charge(data, order.reference)
    return port.HostedCheckout(reading.web_address(data, "checkout_url"))


def virtual_account(data: Any, order: port.ChargeOrder) -> port.VirtualAccount:
    _about_charge(data, order.reference)
    _in_naira(data)
    if reading.one_of(CHARGE_STATUSES, data, "status") is not port.ReportedChargeStatus.PENDING:
        raise Malformed("status is not that of a new charge")
    account = reading.field(data, "bank_account")
    return port.VirtualAccount(
        bank_name=reading.text(account, "bank_name"),
        account_number=reading.text(account, "account_number"),
        account_name=reading.text(account, "account_name"),
        amount=reading.money(data, "amount_expected", order.amount.currency),
        expires_at=reading.moment(account, "expiry_date_in_utc"),
    )


def charge_state(data: Any, reference: str) -> port.ChargeState:
    _about_charge(data, reference)
    # Return the reported currency. If it differs from ours, the payment is reviewed immediately.
    currency = reading.currency(data, "currency")
    status = reading.one_of(CHARGE_STATUSES, data, "status")
    return port.ChargeState(
        status=status,
        paid=_paid(data, currency) if status is port.ReportedChargeStatus.PAID else None,
        fee=reading.fee(data, "fee", currency),
        reason=reading.optional_text(data, "message"),
        provider_reference=_kora_reference(data, reference),
    )


def _paid(data: Any, currency: str) -> Money:
    """Returns the amount that Kora received and kept. Kora may return an excess to the customer.

    If the response has no such amount, the charge was paid in full, unless Kora reports otherwise.
    """
    names = ("amount_paid", "amount_accepted")
    given = [paid for name in names if (paid := reading.optional_money(data, name, currency))]
    if not given and data.get("transaction_status") not in (None, "success"):
        raise Malformed("the amount paid is missing")
    paid = min(given) if given else reading.money(data, "amount", currency)
    if paid.minor <= 0:
        raise Malformed("the charge is paid, but the amount is not")
    return paid


def _kora_reference(data: Any, reference: str) -> str | None:
    names = ("payment_reference", "reference", "transaction_reference")
    given = (reading.optional_text(data, name) for name in names)
    return next((text for text in given if text and text != reference), None)


def read_account(data: Any, account_number: str) -> port.ResolvedAccount:
    account_name = reading.text(data, "account_name")
    if data.get("account_number") not in (None, account_number):
        raise Malformed("account_number belongs to another account")
    return port.ResolvedAccount(account_name)


def read_transfer(data: Any, order: port.TransferOrder) -> port.Sent:
    reading.same_reference(data, "reference", order.reference)
    reading.one_of(TRANSFER_STATUSES, data, "status")
    _in_naira(data)
    _same_amount(reading.money(data, "amount", NAIRA), order.amount)
    trace_id = reading.optional_text(data, "trace_id")
    return port.Sent(trace_id or None, reading.fee(data, "fee", NAIRA), _session_id(trace_id))


def transfer_state(data: Any, reference: str) -> port.TransferState:
    reading.same_reference(data, "reference", reference)
    currency = reading.currency(data, "currency")
    trace_id = reading.optional_text(data, "trace_id")
    return port.TransferState(
        status=reading.one_of(TRANSFER_STATUSES, data, "status"),
        amount=reading.money(data, "amount", currency),
        fee=reading.fee(data, "fee", currency),
        message=reading.optional_text(data, "message"),
        provider_reference=trace_id or None,
        session_id=_session_id(trace_id),
    )


def _session_id(trace_id: str) -> str | None:
    """Returns the trace id if it has 30 digits like an NIP session id, otherwise None."""
    return trace_id if NIP_SESSION_ID.fullmatch(trace_id) else None


def new_refund(data: Any, order: port.RefundOrder) -> port.RefundState:
    """Parses the response to a new refund, which has our reference in `refund_reference`."""
    status = reading.one_of(REFUND_STATUSES, data, "status")
    name = "reference" if data.get("refund_reference") is None else "refund_reference"
    reading.same_reference(data, name, order.reference)
    amount = _refund_amount(data, "amount_returned")
    if amount is not None:
        _same_amount(amount, order.amount)
    return port.RefundState(status, amount)


def refund_state(data: Any, reference: str) -> port.RefundState:
    reading.same_reference(data, "reference", reference)
    return port.RefundState(
        reading.one_of(REFUND_STATUSES, data, "status"), _refund_amount(data, "amount")
    )


def _refund_amount(data: Any, name: str) -> Money | None:
    currency = NAIRA if data.get("currency") is None else reading.currency(data, "currency")
    return reading.optional_money(data, name, currency)


def _about_charge(data: Any, reference: str) -> None:
    """Rejects a response about a different charge.

    Sources disagree on which of the two fields has our reference, and which has Kora's.
    """
    if not isinstance(data, dict):
        raise Malformed("data is not an object")
    if reference not in (data.get("reference"), data.get("payment_reference")):
        raise Malformed("reference belongs to another transaction")


def _in_naira(data: Any) -> None:
    if reading.currency(data, "currency") != NAIRA:
        raise Malformed("currency is not naira")


def _same_amount(said: Money, expected: Money) -> None:
    if said != expected:
        raise Malformed(f"the amount is {said}, not {expected}")
