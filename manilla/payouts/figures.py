"""Payout statistics: by day, by bank, and payouts that have been pending for too long."""

from datetime import UTC, datetime, timedelta

import msgspec

from manilla.kit.db import Database
from manilla.ledger import trx_ids
from manilla.ledger.daily import DAYS, CountedTable
from manilla.ledger.scope import Scope, within

PAYOUTS = CountedTable("payout", "completed", ("failed", "canceled"))
daily, has_any = PAYOUTS.daily, PAYOUTS.has_any


async def count_waiting(db: Database, scope: Scope, longer_than: timedelta) -> int:
    """Counts payouts of the last 30 days that have been pending for more than `longer_than`."""
    now = datetime.now(UTC)
    conditions = within(scope).add(
        "trx_id >= {} AND trx_id < {}",
        trx_ids.floor(now - timedelta(days=DAYS)),
        trx_ids.floor(now - longer_than),
    )
    return await db.number(
        f"SELECT count(*) FROM payout WHERE status = 'pending' AND {conditions.sql}",
        *conditions.values,
    )


async def count_manual(db: Database, scope: Scope) -> int:
    """Counts pending manual payouts."""
    conditions = within(scope)
    return await db.number(
        f"""
        SELECT count(*) FROM payout
         WHERE status = 'pending' AND provider IS NULL AND {conditions.sql}""",
        *conditions.values,
    )


class BankFigures(msgspec.Struct, frozen=True):
    """The payouts to one bank through one provider, by their current status."""

    bank_code: str  # the provider's own
    count: int
    completed: int
    failed: int
    median_seconds: float | None  # median time from creation to completion

    @property
    def success_rate(self) -> float | None:
        decided = self.completed + self.failed
        return self.completed / decided if decided else None


async def by_bank(db: Database, provider: str, since: datetime) -> list[BankFigures]:
    """Counts all production payouts created since then, by bank.

    The most frequent bank is first.
    """
    return await db.rows(
        BankFigures,
        """
        SELECT coalesce(rail_bank_code, beneficiary ->> 'bank_code') AS bank_code,
               count(*) AS count,
               count(*) FILTER (WHERE status = 'completed') AS completed,
               count(*) FILTER (WHERE status = 'failed') AS failed,
               percentile_cont(0.5) WITHIN GROUP (
                   ORDER BY extract(epoch FROM updated_at - created_at))
                   FILTER (WHERE status = 'completed') AS median_seconds
          FROM payout
         WHERE provider = $1 AND environment = 'production' AND created_at >= $2
           AND beneficiary ->> 'bank_code' IS NOT NULL
         GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 30""",
        *(provider, since),
    )
