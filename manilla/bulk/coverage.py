"""Calculates how much of a payout file the wallet covers."""

import msgspec

from manilla.bulk.store import Batch
from manilla.kit.database.connections import Connection, Database
from manilla.kit.money import Money
from manilla.kit.price import debit_minor
from manilla.ledger.scope import Tenant


class BatchCoverage(msgspec.Struct, frozen=True):
    """The rows of a payout file that the wallet covers, in file order."""

    available: Money  # the wallet's balance minus the unpaid rows of other confirmed files
    total: Money
    affordable_rows: int
    affordable_cost: Money

    @property
    def is_whole(self) -> bool:
        return self.total <= self.available

    @property
    def missing(self) -> Money:
        return self.total - self.available


async def coverage(db: Database, batch: Batch) -> BatchCoverage:
    """Returns the rows that the wallet covers now. Paying repeats this check under a lock."""
    available_now = await available(db, batch)
    rows, cost = await affordable(db, batch, available_now)
    total = await cost_of_first(db, batch, batch.ready)
    return BatchCoverage(available_now, total, rows, cost)


async def available(db: Database | Connection, of: Batch, *, lock: bool = False) -> Money:
    """Returns the wallet's balance minus the cost of unpaid rows in other running batches."""
    tenant = Tenant(of.merchant_id, of.environment)
    return await not_promised(db, tenant, of.currency, except_batch=of.id, lock=lock)


async def not_promised(
    db: Database | Connection,
    tenant: Tenant,
    currency: str,
    *,
    except_batch: str = "",
    lock: bool = False,
) -> Money:
    """Returns the wallet's balance minus the cost of unpaid rows in running batches."""
    scope = tenant.merchant_id, tenant.environment, currency
    # Lock in a separate SQL statement, so that the next one sees all committed rows.
    balance_minor = await db.value(
        """
        SELECT balance_minor FROM wallet
         WHERE merchant_id = $1 AND environment = $2 AND currency = $3"""
        + (" FOR UPDATE" if lock else ""),
        *scope,
    )
    promised_minor = await db.value(
        f"""
        SELECT coalesce(sum({debit_minor("r")}), 0)::bigint
          FROM payout_batch b
          JOIN payout_batch_row r ON r.merchant_id = b.merchant_id AND r.batch_id = b.id
         WHERE b.merchant_id = $1 AND b.environment = $2 AND b.currency = $3
           AND b.status = 'running' AND b.id <> $4 AND r.state = 'ready'""",
        *(*scope, except_batch),
    )
    return Money(currency, max((balance_minor or 0) - promised_minor, 0))


_SUMS = f"""
    SELECT row_number() OVER earlier AS place,
           sum({debit_minor("payout_batch_row")}) OVER earlier AS cost
      FROM payout_batch_row
     WHERE merchant_id = $1 AND batch_id = $2 AND state = 'ready'
    WINDOW earlier AS (ORDER BY number)"""


async def affordable(db: Database, of: Batch, limit: Money) -> tuple[int, Money]:
    """Returns how many of the first rows the limit covers, and their cost."""
    record = await db.record(
        f"""
        SELECT count(*) AS rows, coalesce(max(cost), 0)::bigint AS cost FROM ({_SUMS}) AS s
         WHERE cost <= $3""",
        *(of.merchant_id, of.id, limit.minor),
    )
    assert record is not None
    return record["rows"], Money(of.currency, record["cost"])


async def cost_of_first(db: Database | Connection, of: Batch, rows: int) -> Money:
    """Returns the cost of the first `rows` ready rows, including fees."""
    cost = await db.value(
        f"SELECT coalesce(max(cost), 0)::bigint FROM ({_SUMS}) AS s WHERE place <= $3",
        *(of.merchant_id, of.id, rows),
    )
    return Money(of.currency, cost)
