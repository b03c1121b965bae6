"""Code that Kora's calls share: the account, errors, references and lists."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from manilla_simulator.provider import Provider
from manilla_simulator.settings import KoraAccount, KoraReference
from manilla_simulator.state import Charge
from manilla_simulator.wire import Answer, Ask, Denial, Denials, Fields, invalid

PAGE_DEFAULT, PAGE_MOST = 10, 100
METADATA_MOST, METADATA_NAME_MOST = 5, 20

T = TypeVar("T")

INSUFFICIENT = Denial(400, "Insufficient funds in disbursement wallet")
INVALID_ACCOUNT = Denial(400, "Invalid account.")
UNSETTLED = Denial(400, "Transaction has not yet been settled")
DENIALS = Denials(
    insufficient=INSUFFICIENT,
    unresolvable=Denial(400, "Unable to resolve bank account."),
    unknown_bank=Denial(400, "Invalid bank provided."),
    duplicate=Denial(409, "Duplicate Transaction Reference. Please use a unique reference"),
    not_found=Denial(404, "Transaction not found", "not_found"),
    duplicate_charge=Denial(409, "Duplicate payment reference"),
    duplicate_refund=Denial(409, "Refund already exists with reference"),
    charge_not_found=Denial(404, "Charge not found", "not_found"),
    refund_not_found=Denial(404, "Refund not found", "not_found"),
    dispute_not_found=Denial(404, "Chargeback not found", "not_found"),
    dispute_closed=Denial(400, "Chargeback has already been processed"),
    refund_not_paid=Denial(400, "Refund can only be requested on a successful transaction"),
    refund_too_much=Denial(400, "A full reversal has already been processed for this transaction"),
    others=(
        INVALID_ACCOUNT,
        UNSETTLED,
        Denial(401, "Invalid authorization key", "unauthorized"),
        Denial(403, "Payouts are not enabled for this merchant", "forbidden"),
        Denial(500, "Internal Server Error", "internal_server_error"),
    ),
)


def account_of(provider: Provider) -> KoraAccount:
    assert isinstance(provider.account, KoraAccount)
    return provider.account


def is_test(provider: Provider) -> bool:
    return account_of(provider).secret_key.startswith("sk_test_")


def references(provider: Provider, charge: Charge) -> dict[str, str]:
    """Returns Kora's two reference fields. A setting determines which one has our reference."""
    named = {"reference": charge.reference, "payment_reference": charge.reference}
    match account_of(provider).our_reference:
        case KoraReference.REFERENCE:
            named["payment_reference"] = own_reference(charge)
        case KoraReference.PAYMENT_REFERENCE:
            named["reference"] = own_reference(charge)
    return named


def own_reference(charge: Charge) -> str:
    return f"KPY-PAY-{charge.number}"


def find_charge(provider: Provider, reference: str) -> Charge | None:
    """Finds a charge by our reference or by Kora's reference."""
    number = reference.removeprefix("KPY-PAY-")
    by_number = provider.charges.by_number.get(int(number)) if number.isdecimal() else None
    return provider.charges.get(reference) or by_number


def check_metadata(fields: Fields) -> None:
    if "metadata" not in fields:
        return
    names = fields.group("metadata").names()
    if not 1 <= len(names) <= METADATA_MOST:
        raise invalid(f"metadata must have 1 to {METADATA_MOST} keys", "metadata")
    for name in names:
        allowed = name.replace("-", "").isalnum() and name.isascii()
        if not allowed or len(name) > METADATA_NAME_MOST:
            raise invalid(f"metadata.{name} is not allowed", f"metadata.{name}")


def plain_time(moment: datetime | None) -> str | None:
    """Formats a time as `2026-01-02 03:04:05`, without a time zone."""
    return None if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def listing(
    ask: Ask,
    items: Sequence[T],
    number: Callable[[T], int],
    at: Callable[[T], datetime],
    show: Callable[[T], dict[str, Any]],
    message: str,
    overlap: int = 0,
) -> Answer:
    """Returns a page of a list, newest first. The next page can start at any item's pointer.

    Each page repeats the last `overlap` items of the previous page.
    """
    start, end = _time(ask, "date_from"), _time(ask, "date_to")
    after, before = _pointer(ask, "starting_after"), _pointer(ask, "ending_before")
    within = [
        item
        for item in items
        if (start is None or start <= at(item))
        and (end is None or at(item) <= end)
        and (before is None or number(item) > before)
    ]
    passed = 0 if after is None else sum(number(item) >= after for item in within)
    size = min(ask.number("limit", PAGE_DEFAULT), PAGE_MOST)
    matching = within[max(passed - min(overlap, size - 1), 0) :]
    listed = [{"pointer": f"cus_{number(item)}", **show(item)} for item in matching[:size]]
    return Answer(listed, message, more={"has_more": len(matching) > size})


def _pointer(ask: Ask, name: str) -> int | None:
    text = ask.query.get(name, "").removeprefix("cus_")
    if text and not text.isdecimal():
        raise invalid(f"{name} is not a valid pointer", name)
    return int(text) if text else None


def _time(ask: Ask, name: str) -> datetime | None:
    """Parses a time such as `2026-01-02-03-04-05`, or a date."""
    text = ask.query.get(name, "")
    if not text:
        return None
    for pattern in ("%Y-%m-%d-%H-%M-%S", "%Y-%m-%d"):
        try:
            return datetime.strptime(text, pattern).replace(tzinfo=UTC)
        except ValueError:
            continue
    raise invalid(f"{name} must have the format YYYY-MM-DD-HH-MM-SS", name)
