"""Bulk payout batches and their rows, and the SQL statements for them."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from manilla.kit.db import Connection, Database, columns
from manilla.kit.environment import Environment
from manilla.kit.fields import Fields
from manilla.kit.money import Money
from manilla.ledger.scope import Tenant


class BatchStatus(StrEnum):
    DRAFT = "draft"  # checked, but not confirmed by a user
    RUNNING = "running"
    DONE = "done"


class RowState(StrEnum):
    FAULTY = "faulty"  # invalid and never paid: the user must correct the file
    READY = "ready"
    PAID = "paid"  # the payout was created; the payout has its own status
    REFUSED = "refused"  # rejected; nothing was debited


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    merchant_id: int
    id: str
    environment: Environment
    status: BatchStatus
    method_id: int
    method_name: str
    currency: str
    file_name: str
    uploaded_by: str
    created_at: datetime
    confirmed_by: str | None = None
    confirmed_at: datetime | None = None
    ended_at: datetime | None = None
    # Number of rows in each state.
    faulty: int = 0
    ready: int = 0
    paid: int = 0
    refused: int = 0
    amount_minor: int = 0  # total amount of the valid rows
    fee_minor: int = 0

    @property
    def amount(self) -> Money:
        return Money(self.currency, self.amount_minor)

    @property
    def fee(self) -> Money:
        return Money(self.currency, self.fee_minor)

    @property
    def total(self) -> Money:
        return self.amount + self.fee

    @property
    def payable(self) -> int:
        """The number of rows that are to be paid or were processed."""
        return self.ready + self.paid + self.refused

    @property
    def decided(self) -> int:
        return self.paid + self.refused


class NewBatchRow(msgspec.Struct, frozen=True):
    number: int
    state: RowState
    amount_text: str
    amount_minor: int
    fee_minor: int
    bank_code: str
    account_number: str
    name: str
    ref_trx: str
    description: str
    remark: str | None


class BatchRow(NewBatchRow, frozen=True):
    trx_id: str | None = None
    payout_status: str | None = None


ROW_FIELDS = Fields(
    BatchRow, row="number", result="state", amount="amount_text", reference="ref_trx"
)


class BatchOutcomes(msgspec.Struct, frozen=True):
    """The statuses of the payouts that a batch has created so far."""

    pending: int
    delivered: int
    failed: int  # failed or canceled payouts, whose debit was refunded to the wallet

    @property
    def made(self) -> int:
        return self.pending + self.final

    @property
    def final(self) -> int:
        return self.delivered + self.failed


async def insert(connection: Connection, batch: Batch, rows: Sequence[NewBatchRow]) -> None:
    await connection.execute(
        """
        INSERT INTO payout_batch (merchant_id, id, environment, method_id, method_name, currency,
                                  file_name, uploaded_by)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)""",
        *(batch.merchant_id, batch.id, batch.environment, batch.method_id, batch.method_name),
        *(batch.currency, batch.file_name, batch.uploaded_by),
    )
    stored = columns(NewBatchRow)
    await connection.execute(
        f"""
        INSERT INTO payout_batch_row (merchant_id, batch_id, {stored})
        SELECT $1, $2, {stored} FROM jsonb_populate_recordset(NULL::payout_batch_row, $3)""",
        *(batch.merchant_id, batch.id, msgspec.json.encode(rows).decode()),
    )


_BATCH = f"""
    SELECT {columns(Batch)}
      FROM payout_batch b
     CROSS JOIN LATERAL (
           SELECT count(*) FILTER (WHERE state = 'faulty') AS faulty,
                  count(*) FILTER (WHERE state = 'ready') AS ready,
                  count(*) FILTER (WHERE state = 'paid') AS paid,
                  count(*) FILTER (WHERE state = 'refused') AS refused,
                  coalesce(sum(amount_minor) FILTER (WHERE state <> 'faulty'), 0)::bigint
                           AS amount_minor,
                  coalesce(sum(fee_minor) FILTER (WHERE state <> 'faulty'), 0)::bigint AS fee_minor
             FROM payout_batch_row
            WHERE merchant_id = b.merchant_id AND batch_id = b.id) AS r"""


async def batch(db: Database | Connection, merchant_id: int, batch_id: str) -> Batch | None:
    record = await db.record(
        _BATCH + " WHERE b.merchant_id = $1 AND b.id = $2", merchant_id, batch_id
    )
    return None if record is None else msgspec.convert(dict(record), Batch)


async def batches(db: Database, tenant: Tenant, limit: int) -> list[Batch]:
    """Returns the most recent batches first."""
    records = await db.records(
        _BATCH
        + """
         WHERE b.merchant_id = $1 AND b.environment = $2 ORDER BY b.created_at DESC LIMIT $3""",
        *(tenant.merchant_id, tenant.environment, limit),
    )
    return [msgspec.convert(dict(record), Batch) for record in records]


async def count_rejected(db: Database, tenant: Tenant, since: datetime) -> int:
    """Counts the batches since then that were confirmed and have rows that were not paid."""
    return await db.number(
        """
        SELECT count(*) FROM payout_batch b
         WHERE b.merchant_id = $1 AND b.environment = $2 AND b.created_at >= $3
           AND b.status <> 'draft'
           AND EXISTS (SELECT FROM payout_batch_row r
                        WHERE r.merchant_id = b.merchant_id AND r.batch_id = b.id
                          AND r.state = 'refused')""",
        *(tenant.merchant_id, tenant.environment, since),
    )


async def rows(
    db: Database,
    merchant_id: int,
    batch_id: str,
    *,
    state: RowState | None = None,
    after: int = 0,
    limit: int,
) -> list[BatchRow]:
    """Returns rows in file order, with the status of their payouts."""
    records = await db.records(
        f"""
        SELECT {columns(BatchRow)}
          FROM payout_batch_row r
          LEFT JOIN LATERAL (
               SELECT p.status AS payout_status FROM payout p
                WHERE p.merchant_id = r.merchant_id AND p.trx_id = r.trx_id) AS p ON true
         WHERE r.merchant_id = $1 AND r.batch_id = $2 AND r.number > $3
           AND ($4::text IS NULL OR r.state = $4)
         ORDER BY r.number LIMIT $5""",
        *(merchant_id, batch_id, after, state, limit),
    )
    return [msgspec.convert(dict(record), BatchRow) for record in records]


async def bank_codes(db: Database, of: Batch) -> list[str]:
    """Returns the bank codes of the rows that can be paid."""
    records = await db.records(
        """
        SELECT DISTINCT bank_code FROM payout_batch_row
         WHERE merchant_id = $1 AND batch_id = $2 AND state = $3""",
        *(of.merchant_id, of.id, RowState.READY),
    )
    return [record["bank_code"] for record in records]


async def outcomes(db: Database, merchant_id: int, batch_id: str) -> BatchOutcomes:
    record = await db.record(
        """
        SELECT count(*) FILTER (WHERE p.status = 'pending') AS pending,
               count(*) FILTER (WHERE p.status = 'completed') AS delivered,
               count(*) FILTER (WHERE p.status IN ('failed', 'canceled')) AS failed
          FROM payout_batch_row r
          JOIN payout p ON p.merchant_id = r.merchant_id AND p.trx_id = r.trx_id
         WHERE r.merchant_id = $1 AND r.batch_id = $2""",
        *(merchant_id, batch_id),
    )
    return msgspec.convert(dict(record or {}), BatchOutcomes)


async def used_references(db: Database, tenant: Tenant, references: Sequence[str]) -> set[str]:
    """Returns the references that existing payouts already use."""
    records = await db.records(
        """
        SELECT g.ref_trx FROM unnest($3::text[]) AS g (ref_trx)
         WHERE EXISTS (SELECT FROM payout p
                        WHERE p.merchant_id = $1 AND p.environment = $2
                          AND p.ref_trx = g.ref_trx)""",
        *(tenant.merchant_id, tenant.environment, list(references)),
    )
    return {record["ref_trx"] for record in records}


async def available(db: Database | Connection, of: Batch, *, lock: bool = False) -> Money:
    """Returns the wallet's balance minus what the rows of other running batches will cost."""
    scope = of.merchant_id, of.environment, of.currency
    # Take the lock in a separate statement, so that the next one sees the state after the wait.
    balance_minor = await db.value(
        """
        SELECT balance_minor FROM wallet
         WHERE merchant_id = $1 AND environment = $2 AND currency = $3"""
        + (" FOR UPDATE" if lock else ""),
        *scope,
    )
    promised_minor = await db.value(
        """
        SELECT coalesce(sum(r.amount_minor + r.fee_minor), 0)::bigint
          FROM payout_batch b
          JOIN payout_batch_row r ON r.merchant_id = b.merchant_id AND r.batch_id = b.id
         WHERE b.merchant_id = $1 AND b.environment = $2 AND b.currency = $3
           AND b.status = 'running' AND b.id <> $4 AND r.state = 'ready'""",
        *(*scope, of.id),
    )
    return Money(of.currency, max((balance_minor or 0) - promised_minor, 0))


_SUMS = """
    SELECT row_number() OVER earlier AS place, sum(amount_minor + fee_minor) OVER earlier AS cost
      FROM payout_batch_row
     WHERE merchant_id = $1 AND batch_id = $2 AND state = 'ready'
    WINDOW earlier AS (ORDER BY number)"""


async def affordable(db: Database, of: Batch, limit: Money) -> tuple[int, Money]:
    """Returns how many rows, from the first on, the limit covers, and their cost."""
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


async def start(connection: Connection, drafted: Batch, confirmed_by: str) -> bool:
    """Starts a confirmed batch. Returns False if it was started before."""
    return await connection.has_row(
        """
        UPDATE payout_batch SET status = 'running', confirmed_by = $3, confirmed_at = now()
         WHERE merchant_id = $1 AND id = $2 AND status = 'draft' RETURNING true""",
        *(drafted.merchant_id, drafted.id, confirmed_by),
    )


async def decide(
    db: Database,
    of: Batch,
    number: int,
    state: RowState,
    *,
    trx_id: str | None = None,
    remark: str | None = None,
) -> None:
    """Sets the final state of a row, if it has none yet."""
    await db.execute(
        """
        UPDATE payout_batch_row SET state = $4, trx_id = $5, remark = coalesce($6, remark)
         WHERE merchant_id = $1 AND batch_id = $2 AND number = $3 AND state = 'ready'""",
        *(of.merchant_id, of.id, number, state, trx_id, remark),
    )


async def refuse_after_first(connection: Connection, of: Batch, rows: int, remark: str) -> None:
    """Rejects all ready rows after the first `rows`."""
    await connection.execute(
        """
        UPDATE payout_batch_row SET state = 'refused', remark = $4
         WHERE merchant_id = $1 AND batch_id = $2 AND state = 'ready'
           AND number > (SELECT max(number) FROM (
                         SELECT number FROM payout_batch_row
                          WHERE merchant_id = $1 AND batch_id = $2 AND state = 'ready'
                          ORDER BY number LIMIT $3) AS first)""",
        *(of.merchant_id, of.id, rows, remark),
    )


async def refuse_from(db: Database, of: Batch, number: int, remark: str, later: str) -> None:
    """Rejects this row and all later ones in one statement, so that no later row can be paid."""
    await db.execute(
        """
        UPDATE payout_batch_row
           SET state = 'refused', remark = CASE WHEN number = $3 THEN $4 ELSE $5 END
         WHERE merchant_id = $1 AND batch_id = $2 AND state = 'ready' AND number >= $3""",
        *(of.merchant_id, of.id, number, remark, later),
    )


async def end(connection: Connection, ended: Batch) -> bool:
    """Ends the batch. Returns False if it has already ended."""
    return await connection.has_row(
        """
        UPDATE payout_batch SET status = 'done', ended_at = now()
         WHERE merchant_id = $1 AND id = $2 AND status = 'running'
        RETURNING id""",
        *(ended.merchant_id, ended.id),
    )
