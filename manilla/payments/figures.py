"""Payment statistics by day, and the number of rejected refunds."""

from collections.abc import Sequence
from datetime import date, datetime

from manilla.kit.db import Database
from manilla.ledger import trx_ids
from manilla.ledger.daily import Counted, Day, count_daily
from manilla.ledger.scope import Scope, within

PAYMENTS = Counted("payment", "success", ("failed",))


async def daily(
    db: Database, scope: Scope, currency: str, days: Sequence[date] | None = None
) -> list[Day]:
    """Returns one entry per day, oldest first; the last 30 days if `days` is None."""
    return await count_daily(db, PAYMENTS, scope, currency, days)


async def count_rejected_refunds(db: Database, scope: Scope, since: datetime) -> int:
    """Counts rejected refunds created since then: their customers did not get their money back."""
    conditions = within(scope).add("trx_id >= {}", trx_ids.floor(since))
    count: int = await db.value(
        f"SELECT count(*) FROM refund WHERE status = 'failed' AND {conditions.sql}",
        *conditions.values,
    )
    return count


async def has_any(db: Database, scope: Scope) -> bool:
    conditions = within(scope)
    found: bool = await db.value(
        f"SELECT EXISTS (SELECT FROM payment WHERE {conditions.sql})", *conditions.values
    )
    return found
