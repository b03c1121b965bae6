"""The days whose statement was imported, with their totals in our ledger and on the statement."""

from datetime import date, datetime

import msgspec

from manilla.kit.db import Database, columns
from manilla.kit.money import Money

DAYS_MAX = 400


class ReconciledDay(msgspec.Struct, frozen=True):
    """One account, currency and day, as of the last comparison."""

    provider: str
    currency: str
    day: date
    kinds: list[str]
    imported_at: datetime
    lines: int
    lines_minor: int
    open_lines: int
    movements: int
    movements_minor: int
    open_movements: int
    ledger_minor: int | None
    balance_minor: int | None

    def _money(self, minor: int | None) -> Money | None:
        return None if minor is None else Money(self.currency, minor)

    @property
    def ledger(self) -> Money:
        """What our ledger moved on this day."""
        return Money(self.currency, self.movements_minor)

    @property
    def statement(self) -> Money:
        return Money(self.currency, self.lines_minor)

    @property
    def difference(self) -> Money:
        return self.statement - self.ledger

    @property
    def ledger_balance(self) -> Money | None:
        return self._money(self.ledger_minor)

    @property
    def provider_balance(self) -> Money | None:
        return self._money(self.balance_minor)

    @property
    def unmatched(self) -> int:
        return self.open_lines + self.open_movements

    @property
    def result(self) -> str:
        return "matched" if self.unmatched == 0 else f"{self.unmatched} unmatched"


DAY = f"SELECT {columns(ReconciledDay)} FROM statement_day"


async def days(
    db: Database, provider: str | None = None, day: date | None = None, limit: int = DAYS_MAX
) -> list[ReconciledDay]:
    """Returns the days, newest first."""
    return await db.rows(
        ReconciledDay,
        DAY
        + """
         WHERE ($1::text IS NULL OR provider = $1) AND ($2::date IS NULL OR day = $2)
         ORDER BY day DESC, provider, currency LIMIT $3""",
        *(provider, day, limit),
    )


async def find(db: Database, provider: str, currency: str, day: date) -> ReconciledDay | None:
    return await db.row(
        ReconciledDay,
        DAY + " WHERE provider = $1 AND currency::text = $2 AND day = $3",
        *(provider, currency, day),
    )
