"""Code that Monnify's calls share: the account, errors, references, times and pages."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from manilla.kit.clock import LAGOS
from manilla_simulator.provider import Provider
from manilla_simulator.settings import MonnifyAccount
from manilla_simulator.state import Charge
from manilla_simulator.wire import Ask, Denial, Denials

PAGE_MOST = 100
T = TypeVar("T")

WALLET_NOT_FOUND = Denial(404, "Could not find wallet with the account number", "99")
NAME_MISMATCH = Denial(400, "Destination account name does not match the account", "99")
UNKNOWN_CONTRACT = Denial(404, "Could not find specified contract", "99")
DENIALS = Denials(
    insufficient=Denial(400, "Insufficient balance", "99"),
    unresolvable=Denial(400, "Could not validate account number", "99"),
    unknown_bank=Denial(400, "Invalid bank code", "99"),
    duplicate=Denial(400, "Duplicate transaction reference", "99"),
    not_found=Denial(404, "Could not find transaction with the reference", "99"),
    duplicate_charge=Denial(422, "Duplicate payment reference", "99"),
    duplicate_refund=Denial(422, "Duplicate refund reference", "99"),
    charge_not_found=Denial(404, "There's no transaction matching the supplied reference", "99"),
    refund_not_found=Denial(404, "Refund with the reference does not exist", "99"),
    refund_not_paid=Denial(422, "Transaction is not in a refundable state", "99"),
    refund_too_much=Denial(422, "Refund amount is more than the transaction amount", "99"),
    others=(
        WALLET_NOT_FOUND,
        NAME_MISMATCH,
        UNKNOWN_CONTRACT,
        Denial(403, "You are not allowed to perform this operation", "99"),
        Denial(403, "IP address is not allowed", "99"),
        Denial(500, "An error occurred while processing your request", "99"),
    ),
)


def account_of(provider: Provider) -> MonnifyAccount:
    assert isinstance(provider.account, MonnifyAccount)
    return provider.account


def is_test(provider: Provider) -> bool:
    return account_of(provider).api_key.startswith("MK_TEST_")


def own_reference(charge: Charge) -> str:
    """Returns Monnify's own reference: `MNFY|01|20260102030405|1000001`.

    In a URL, the pipe characters must be percent-encoded.
    """
    made_at = charge.created_at.astimezone(LAGOS)
    return f"MNFY|{charge.number % 100:02d}|{made_at:%Y%m%d%H%M%S}|{charge.number:06d}"


def by_own_reference(provider: Provider, reference: str) -> Charge | None:
    number = reference.rpartition("|")[2]
    charge = provider.charges.by_number.get(int(number)) if number.isdecimal() else None
    return charge if charge is not None and own_reference(charge) == reference else None


def zoned_time(moment: datetime) -> str:
    """Formats a time as `2026-01-02T03:04:05.678+00:00`.

    Other Monnify formats have no time zone.
    """
    return moment.isoformat(timespec="milliseconds")


def local_time(moment: datetime | None) -> str | None:
    """Formats a time as `2026-01-02 03:04:05.678`, in Lagos time."""
    if moment is None:
        return None
    return moment.astimezone(LAGOS).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def clock_time(moment: datetime | None) -> str | None:
    """Formats a time as `02/01/2026 3:04:05 PM`, in Lagos time. The hour has no leading zero."""
    if moment is None:
        return None
    local = moment.astimezone(LAGOS)
    return f"{local:%d/%m/%Y} {local.hour % 12 or 12}:{local:%M:%S %p}"


def page_of(
    ask: Ask, items: Sequence[T], number_name: str, size_name: str, overlap: int = 0
) -> dict[str, Any]:
    """Returns one page of a list. Page numbers start at 0.

    The caller replaces the items in `content`. Each page repeats `overlap` items of the previous
    page.
    """
    number, size = ask.number(number_name, 0), min(ask.number(size_name, 10) or 10, PAGE_MOST)
    skipped = number * max(size - overlap, 1)
    content = items[skipped : skipped + size]
    pages = number + 1 + -(-max(len(items) - skipped - size, 0) // size) if items else 0
    return {
        "content": content,
        "pageable": None,
        "last": number >= pages - 1,
        "totalElements": len(items),
        "totalPages": pages,
        "sort": None,
        "first": number == 0,
        "numberOfElements": len(content),
        "size": size,
        "number": number,
        "empty": not content,
    }
