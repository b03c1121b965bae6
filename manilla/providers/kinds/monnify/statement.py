"""Reads Monnify's list of transfers as the statement of the wallet that pays for them."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from manilla.kit.money import Money
from manilla.providers import reading
from manilla.providers.kinds.monnify import answers
from manilla.providers.port import LineKind, StatementLine, StatementPage, TransferStatus
from manilla.providers.reading import Malformed

PATH = "/api/v2/disbursements/search-transactions"
TRANSFERS_PER_PAGE = 100
RETURNED = "returned: "


def query(account: str, since: datetime, until: datetime, start: str | None) -> dict[str, str]:
    return {
        "sourceAccountNumber": account,
        "startDate": _timestamp(since),
        "endDate": _timestamp(until),
        "pageNo": start or "0",
        "pageSize": str(TRANSFERS_PER_PAGE),
    }


def _timestamp(moment: datetime) -> str:
    """Returns a Unix timestamp in milliseconds, the unit that Monnify uses elsewhere."""
    return str(int(moment.timestamp() * 1000))


def page(data: Any, start: str | None) -> StatementPage:
    listed = reading.items(reading.field(data, "content"))
    lines = [line for each in listed for line in _lines(each)]
    is_last = not listed or data.get("last") is True
    return StatementPage(lines, None if is_last else str(int(start or 0) + 1))


def _lines(data: Any) -> Iterator[StatementLine]:
    """Yields a transfer's balance changes: its amount, its fee, and their return after a reversal.

    A transfer that is pending or has failed has no balance changes.
    """
    answers.check_currency(data)
    status = reading.one_of(answers.TRANSFER_STATUSES, data, "status")
    if status not in (TransferStatus.DELIVERED, TransferStatus.RETURNED):
        return
    amount, fee = answers.amount(data, "amount"), reading.fee(data, "fee", answers.CURRENCY)
    yield _line(data, "", -amount.minor, LineKind.TRANSFER)
    if fee is not None and fee.minor > 0:
        yield _line(data, "/fee", -fee.minor, LineKind.FEE)
    if status is TransferStatus.RETURNED:
        yield _line(data, "/return", amount.minor, LineKind.TRANSFER, RETURNED)
        if fee is not None and fee.minor > 0:
            yield _line(data, "/fee-return", fee.minor, LineKind.FEE, RETURNED)


def _line(data: Any, part: str, minor: int, kind: LineKind, prefix: str = "") -> StatementLine:
    own = reading.text(data, "transactionReference")
    if minor == 0:
        raise Malformed("amount is zero")
    return StatementLine(
        line_id=own + part,
        booked_at=answers.moment(data, "createdOn"),
        amount=Money(answers.CURRENCY, minor),
        kind=kind,
        reference=reading.text(data, "reference"),
        provider_reference=own,
        description=prefix + reading.optional_text(data, "narration"),
    )
