"""Daily transaction counts. A transaction is counted on its day of creation in Lagos time."""

from collections.abc import Sequence
from datetime import date, timedelta

import msgspec

from manilla.kit.clock import last_days, start_of_day
from manilla.kit.database.rows import Reads
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.ledger.scope import Scope, collation_of, scope_conditions

DAYS = 30


class CountedTable(msgspec.Struct, frozen=True):
    """A table of transactions to count, with its statuses for success and failure."""

    table: str
    succeeded: str
    failed: tuple[str, ...]

    async def daily(
        self, db: Reads, scope: Scope, currency: str, days: Sequence[date] | None = None
    ) -> "list[DailyFigures]":
        """Returns one entry per day, oldest first, by default for the last 30 days."""
        return await _count_daily(
            db, self, scope, currency, last_days(DAYS) if days is None else days
        )

    async def has_any(self, db: Reads, scope: Scope) -> bool:
        conditions = scope_conditions(scope)
        found: bool = await db.value(
            f"SELECT EXISTS (SELECT FROM {self.table} WHERE {conditions.sql})", *conditions.values
        )
        return found


class DailyFigures(msgspec.Struct, frozen=True):
    """The number of transactions created on one day, by their current status."""

    day: date
    currency: str
    count: int
    succeeded: int
    failed: int
    volume_minor: int  # total amount of the day's successful transactions

    @property
    def volume(self) -> Money:
        return Money(self.currency, self.volume_minor)

    @property
    def success_rate(self) -> float | None:
        """The share of final transactions that succeeded, or None if none is final."""
        decided = self.succeeded + self.failed
        return self.succeeded / decided if decided else None


async def _count_daily(
    db: Reads, counted: CountedTable, scope: Scope, currency: str, days: Sequence[date]
) -> list[DailyFigures]:
    conditions, key = (
        scope_conditions(scope).add("currency = {}", currency),
        f"trx_id{collation_of(scope)}",
    )
    shown = conditions.value(currency)
    dates, lows, highs, succeeded, failed = (
        conditions.value(value)
        for value in (
            list(days),
            [trx_ids.floor(start_of_day(day)) for day in days],
            [trx_ids.floor(start_of_day(day + timedelta(days=1))) for day in days],
            counted.succeeded,
            list(counted.failed),
        )
    )
    return await db.rows(
        DailyFigures,
        f"""
        SELECT d.day, {shown}::text AS currency, made.*
          FROM unnest({dates}::date[], {lows}::text[], {highs}::text[]) AS d (day, low, high)
         CROSS JOIN LATERAL (
               SELECT count(*) AS count,
                      count(*) FILTER (WHERE status = {succeeded}) AS succeeded,
                      count(*) FILTER (WHERE status = ANY ({failed}::text[])) AS failed,
                      coalesce(sum(amount_minor) FILTER (WHERE status = {succeeded}), 0)::bigint
                      AS volume_minor
                 FROM {counted.table}
                WHERE {conditions.sql} AND {key} >= d.low AND {key} < d.high) AS made
         ORDER BY d.day""",
        *conditions.values,
    )
