"""Code that Monnify's calls share: the account, errors, references, times and pages."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from manilla.kit.clock import LAGOS
from manilla.kit.money import Money
from manilla_simulator.provider import Provider
from manilla_simulator.settings import MonnifyAccount
from manilla_simulator.state import CURRENCY, Charge
from manilla_simulator.wire import Ask, Denial, Denials, Fields, invalid

PAGE_MOST = 100
AMOUNT_MIN = Money(CURRENCY, 20_00)
T = TypeVar("T")

OTHER_ERROR = "D01"  # the message describes the error
WALLET_NOT_FOUND = Denial(404, "Could not find wallet with the account number", "99")
NAME_MISMATCH = Denial(400, "Beneficiary account name mismatch", OTHER_ERROR)
UNKNOWN_CONTRACT = Denial(404, "Could not find specified contract", "99")
# The name lookup reports every invalid account with HTTP 200.
INVALID_ACCOUNT = Denial(200, "Could not validate account number", "99")
CARD_NOT_REFUNDABLE = Denial(422, "Refund not permitted for specified transaction.", "R2")
TEXT_TOO_LONG = Denial(
    422, "Supplied value has exceeded the maximum allowed number of characters.", "R8"
)
# The errors with the code D01 after which Monnify has not paid and will not pay.
FAILED = (
    *("Invalid destination account number", "Dormant beneficiary account", "Invalid amount"),
    *("Post No Credit restriction on beneficiary account", "Rejected by destination institution"),
    *("Suspected fraud", "Beneficiary account limit exceeded"),
    *("Sender not permitted to credit beneficiary", "Account number could not be validated"),
    "Supplied account number does not belong to merchant",
)
# The errors with the code D01 after which Monnify's documentation says to query the status.
OPEN = (
    *("Transaction timed out while waiting for destination bank", "Delayed processing from NIP"),
    *("Beneficiary bank not available", "Invalid session ID", "Transaction processing in progress"),
    *("Invalid response code from beneficiary institution", "Transaction Failed"),
    *("System malfunction by destination institution", "System Malfunction"),
    "Unable to complete the transaction at this time",
    "Transaction could not be processed at this time. Please try again",
    "Processor Malfunction - Transaction transmission failed",
)
DENIALS = Denials(
    insufficient=Denial(400, "Insufficient wallet balance", "D04"),
    unresolvable=Denial(400, "Invalid account details supplied", "D03"),
    unknown_bank=Denial(400, "Unknown destination bank code", OTHER_ERROR),
    duplicate=Denial(400, "Supplied reference already exists!", "D05"),
    not_found=Denial(400, "Transaction does not exist", "D02"),
    duplicate_charge=Denial(422, "Duplicate payment reference", "99"),
    duplicate_refund=Denial(422, "Supplied refund reference already exists", "R9"),
    charge_not_found=Denial(404, "There's no transaction matching the supplied reference", "99"),
    refund_not_found=Denial(
        400, "No refund was initiated with the supplied refund reference.", "R7"
    ),
    refund_not_paid=Denial(422, "Refund not permitted for an unpaid transaction.", "R2"),
    refund_insufficient=Denial(422, "Merchant does not have sufficient funds", "R5"),
    refund_too_much=Denial(422, "Specified refund amount is above transaction amount.", "R3"),
    others=(
        WALLET_NOT_FOUND,
        NAME_MISMATCH,
        UNKNOWN_CONTRACT,
        INVALID_ACCOUNT,
        CARD_NOT_REFUNDABLE,
        TEXT_TOO_LONG,
        *(Denial(400, message, OTHER_ERROR) for message in (*FAILED, *OPEN)),
        Denial(422, "Transaction with specified reference does not exist", "R1"),
        Denial(422, "Specified refund amount is below minimum refund amount.", "R4"),
        Denial(422, "Customer account details are invalid.", "R6"),
        Denial(422, "Merchant account balance could not be retrieved.", "R10"),
        Denial(422, "Name inquiry network error.", "R11"),
        Denial(422, "The total amount of all refunds has exceeded the transaction amount.", "R12"),
        Denial(422, "System error. Contact support.", "M01"),
        Denial(403, "Unauthorized request", "D06"),
        Denial(400, "Duplicate request", "D07"),
        Denial(403, "You are not allowed to perform this operation", "99"),
        Denial(400, "An unexpected error occurred", "99"),
        Denial(500, "An error occurred while processing your request", "99"),
    ),
)


def account_of(provider: Provider) -> MonnifyAccount:
    assert isinstance(provider.account, MonnifyAccount)
    return provider.account


def is_test(provider: Provider) -> bool:
    return account_of(provider).api_key.startswith("MK_TEST_")


def amount_of(fields: Fields, name: str) -> Money:
    """Parses an amount from a number or a string, and rejects an amount below the minimum."""
    amount = fields.amount_of_any_type(name)
    if amount < AMOUNT_MIN:
        raise invalid(f"{name} must be at least {AMOUNT_MIN.amount}", name)
    return amount


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
