"""Payment statistics by day."""

from collections.abc import Sequence
from datetime import date

from manilla.kit.db import Database
from manilla.ledger.daily import CountedTable, DailyFigures, count_daily
from manilla.ledger.scope import Scope, within

PAYMENTS = CountedTable("payment", "success", ("failed",))


async def daily(
    db: Database, scope: Scope, currency: str, days: Sequence[date] | None = None
) -> list[DailyFigures]:
    """Returns one entry per day, oldest first; the last 30 days if `days` is None."""
    return await count_daily(db, PAYMENTS, scope, currency, days)


async def has_any(db: Database, scope: Scope) -> bool:
    conditions = within(scope)
    found: bool = await db.value(
        f"SELECT EXISTS (SELECT FROM payment WHERE {conditions.sql})", *conditions.values
    )
    return found
