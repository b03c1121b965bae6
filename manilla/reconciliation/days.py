"""Days with an imported provider statement: the totals in our ledger and on the statement."""

from datetime import date, datetime

import msgspec

from manilla.kit.database.rows import RowSource, columns
from manilla.kit.money import Money

DAYS_MAX = 400


class DayFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of one provider account, currency and day, which an accountant signs off."""

    currency: str
    lines: int
    lines_minor: int
    open_lines: int
    movements: int
    movements_minor: int
    open_movements: int
    ledger_minor: int | None  # the balance in our ledger at the end of the day
    balance_minor: int | None  # the balance on the provider statement after the day's last line
    reported_minor: int | None  # the balance that the provider reported at `reported_at`
    reported_ledger_minor: int | None  # our balance at `reported_at`
    reported_at: datetime | None

    def _money(self, minor: int | None) -> Money | None:
        return None if minor is None else Money(self.currency, minor)

    @property
    def ledger(self) -> Money:
        """The sum of the movements in our ledger on this day."""
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
    def statement_balance(self) -> Money | None:
        return self._money(self.balance_minor)

    @property
    def reported_balance(self) -> Money | None:
        return self._money(self.reported_minor)

    @property
    def ledger_when_reported(self) -> Money | None:
        return self._money(self.reported_ledger_minor)

    @property
    def provider_balance(self) -> Money | None:
        """The balance on the provider statement, or else the balance that the provider reported."""
        return self.statement_balance or self.reported_balance

    @property
    def provider_balance_at(self) -> datetime | None:
        """When the provider reported the balance, or None if it is the statement's balance."""
        return self.reported_at if self.balance_minor is None else None

    @property
    def provider_balance_from(self) -> str:
        if self.balance_minor is not None:
            return "the statement, after the day's last line"
        return "not known" if self.reported_at is None else "the provider"

    @property
    def balance_difference(self) -> Money | None:
        """The provider's balance minus our ledger's balance at the same time."""
        if self.balance_minor is not None and self.ledger_minor is not None:
            return self._money(self.balance_minor - self.ledger_minor)
        if self.reported_minor is not None and self.reported_ledger_minor is not None:
            return self._money(self.reported_minor - self.reported_ledger_minor)
        return None

    @property
    def unmatched(self) -> int:
        return self.open_lines + self.open_movements

    @property
    def result(self) -> str:
        return "matched" if self.unmatched == 0 else f"{self.unmatched} unmatched"


class ReconciledDay(DayFigures, frozen=True, kw_only=True):
    """The totals of one provider account, currency and day at the last comparison."""

    provider: str
    day: date
    kinds: list[str]
    imported_at: datetime
    checks: int  # number of statement lines caused by tests of the provider account
    checks_minor: int

    @property
    def of_checks(self) -> Money:
        """The sum of the statement lines from account tests. These lines are not in our ledger."""
        return Money(self.currency, self.checks_minor)


DAY = f"""
    SELECT {columns(ReconciledDay)}
      FROM statement_day
      LEFT JOIN (SELECT provider, currency, day, balance_minor AS reported_minor,
                        ledger_minor AS reported_ledger_minor, reported_at
                   FROM reported_balance) AS reported USING (provider, currency, day)"""


async def days(
    db: RowSource,
    provider: str | None = None,
    day: date | None = None,
    limit: int = DAYS_MAX,
) -> list[ReconciledDay]:
    return await db.rows(
        ReconciledDay,
        DAY
        + """
         WHERE ($1::text IS NULL OR provider = $1) AND ($2::date IS NULL OR day = $2)
         ORDER BY day DESC, provider, currency LIMIT $3""",
        *(provider, day, limit),
    )


async def find(db: RowSource, provider: str, currency: str, day: date) -> ReconciledDay | None:
    return await db.row(
        ReconciledDay,
        DAY + " WHERE provider = $1 AND currency::text = $2 AND day = $3",
        *(provider, currency, day),
    )
