"""A provider account's daily report: its totals, its sign-off, and unmatched items."""

from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import msgspec

from manilla.kit.database.rows import RowSource
from manilla.kit.fields import Columns, Fields
from manilla.reconciliation import days, signing
from manilla.reconciliation.days import ReconciledDay
from manilla.reconciliation.signing import FigureChange, SignOff
from manilla.reconciliation.unmatched import Unmatched


class DayReport(msgspec.Struct, frozen=True):
    day: ReconciledDay
    signed: SignOff | None  # the last sign-off

    @property
    def changes(self) -> list[FigureChange]:
        """The figures that have changed since the day was signed off."""
        return [] if self.signed is None else signing.changes(self.signed, self.day)

    @property
    def sign_off(self) -> str:
        if self.signed is None:
            return "not signed"
        return "changed after sign-off" if self.changes else "signed"

    @property
    def signed_by(self) -> str | None:
        return None if self.signed is None else self.signed.signed_by

    @property
    def signed_at(self) -> datetime | None:
        return None if self.signed is None else self.signed.signed_at

    @property
    def note(self) -> str | None:
        return None if self.signed is None else self.signed.note


COLUMNS = (
    Fields(ReconciledDay, day=lambda row: row.day.isoformat())
    .inside(DayReport, "day", day=lambda row: row.day.day.isoformat())
    .select(
        "provider currency day lines movements statement ledger difference of_checks"
        " ledger_balance provider_balance provider_balance_from provider_balance_at"
        " balance_difference open_lines open_movements result sign_off signed_by signed_at note"
    )
)
UNMATCHED_COLUMNS = Fields(Unmatched).select(
    "provider currency booked_at kind reference finding ledger statement difference line_ids"
    " description"
)


async def reports(
    db: RowSource,
    provider: str | None = None,
    day: date | None = None,
    limit: int = days.DAYS_MAX,
) -> list[DayReport]:
    """Returns the reports of days with an imported provider statement, newest first."""
    found = await days.days(db, provider, day, limit)
    signed = await signing.latest(db, found)
    return [DayReport(row, signed.get((row.provider, row.currency, row.day))) for row in found]


async def find(db: RowSource, provider: str, currency: str, day: date) -> DayReport | None:
    found = await days.find(db, provider, currency, day)
    if found is None:
        return None
    signed = await signing.latest(db, [found])
    return DayReport(found, next(iter(signed.values()), None))


# A file about one day: one row with the figures and the sign-off, and one row per unmatched item.
FileRow = dict[str, Any]
FILE_COLUMNS: Columns[FileRow] = {
    name: lambda row, name=name: row.get(name)  # type: ignore[misc]
    for name in ("row", *COLUMNS, *(name for name in UNMATCHED_COLUMNS if name not in COLUMNS))
}


def file_rows(report: DayReport, unmatched: list[Unmatched]) -> Iterator[FileRow]:
    yield {"row": "day", **{name: value(report) for name, value in COLUMNS.items()}}
    for each in unmatched:
        found = {name: value(each) for name, value in UNMATCHED_COLUMNS.items()}
        yield {"row": "unmatched", **found}
