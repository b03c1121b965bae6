"""Payout statistics: by day, by bank, and payouts that have been pending for too long."""

from datetime import UTC, datetime, timedelta

import msgspec

from manilla.kit.database.rows import Reads
from manilla.kit.money import Money
from manilla.kit.price import debit_minor
from manilla.ledger import trx_ids
from manilla.ledger.daily import DAYS, CountedTable
from manilla.ledger.scope import Scope, Tenant, scope_conditions
from manilla.withheld.withheld import OPEN

PAYOUTS = CountedTable("payout", "completed", ("failed", "canceled"))
daily, has_any = PAYOUTS.daily, PAYOUTS.has_any


async def count_waiting(db: Reads, scope: Scope, longer_than: timedelta) -> int:
    """Counts payouts of the last 30 days that have been pending for more than `longer_than`."""
    now = datetime.now(UTC)
    conditions = scope_conditions(scope).add(
        "trx_id >= {} AND trx_id < {}",
        trx_ids.floor(now - timedelta(days=DAYS)),
        trx_ids.floor(now - longer_than),
    )
    return await db.number(
        f"SELECT count(*) FROM payout WHERE status = 'pending' AND {conditions.sql}",
        *conditions.values,
    )


async def count_manual(db: Reads, scope: Scope) -> int:
    conditions = scope_conditions(scope)
    return await db.number(
        f"""
        SELECT count(*) FROM payout
         WHERE status = 'pending' AND provider IS NULL AND {conditions.sql}""",
        *conditions.values,
    )


async def ordered_since(db: Reads, tenant: Tenant, currency: str, start: datetime) -> Money:
    """Returns the sum of the payouts since `start` that count toward the daily limit."""
    minor = await db.value(
        """
        SELECT coalesce(sum(amount_minor), 0)::bigint FROM payout
         WHERE merchant_id = $1 AND trx_id >= $4 AND environment = $2 AND currency = $3
           AND status IN ('pending', 'completed')""",
        *(tenant.merchant_id, tenant.environment, currency, trx_ids.floor(start)),
    )
    return Money(currency, minor)


class WalletFigures(msgspec.Struct, frozen=True):
    currency: str
    balance_minor: int
    open_minor: int  # amounts and fees of pending payouts, already debited from the wallet
    withheld_minor: int  # already debited from the wallet, or never credited to it
    short_minor: int  # what the merchant owes, and later credits pay


async def balances(db: Reads, tenant: Tenant) -> list[WalletFigures]:
    """Returns each wallet's balance, open payouts, withheld money and debt, from one snapshot."""
    return await db.rows(
        WalletFigures,
        f"""
        SELECT w.currency, w.balance_minor, open.minor AS open_minor,
               disputed.minor AS withheld_minor, w.short_minor
          FROM wallet w
         CROSS JOIN LATERAL (
               SELECT coalesce(sum({debit_minor("p")}), 0)::bigint AS minor
                 FROM payout p
                WHERE p.merchant_id = w.merchant_id AND p.environment = w.environment
                  AND p.currency = w.currency
                  AND (p.status || '') = 'pending'  -- the condition of the index `payout_open`
              ) AS open
         CROSS JOIN LATERAL (
               SELECT coalesce(sum(d.minor), 0)::bigint AS minor
                 FROM {OPEN} AS d
                WHERE d.merchant_id = w.merchant_id AND d.environment = w.environment
                  AND d.currency = w.currency
              ) AS disputed
         WHERE w.merchant_id = $1 AND w.environment = $2
         ORDER BY w.currency""",
        *(tenant.merchant_id, tenant.environment),
    )


class BankFigures(msgspec.Struct, frozen=True):
    """The number of payouts to one bank through one provider, by current status."""

    bank_code: str  # the provider's own bank code
    count: int
    completed: int
    failed: int
    median_seconds: float | None  # median time from creation to completion

    @property
    def success_rate(self) -> float | None:
        decided = self.completed + self.failed
        return self.completed / decided if decided else None


async def by_bank(db: Reads, provider: str, since: datetime) -> list[BankFigures]:
    """Counts the provider's production payouts since `since` by bank, most frequent bank first."""
    return await db.rows(
        BankFigures,
        """
        SELECT coalesce(nullif(rail_bank_code, ''), beneficiary ->> 'bank_code') AS bank_code,
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
