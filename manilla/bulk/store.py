"""Bulk payout batches and their rows, with the SQL statements that read and write them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import msgspec

from manilla.audit.decided import DecidedRows
from manilla.kit import deadline
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import Reads, RowSource, columns
from manilla.kit.environment import Environment
from manilla.kit.fields import Fields
from manilla.kit.money import Money
from manilla.kit.price import Price
from manilla.ledger.scope import Tenant
from manilla.prices.price import Purpose

INSERTED_AT_ONCE = 1_000
WAITING_MAX = 100


PAYOUT_FILES = DecidedRows(
    "payout_batch",
    "batch",
    r"""concat_ws(E'\n', t.environment, t.currency, t.method_id, (
        SELECT string_agg(concat_ws(E'\t', r.number, r.amount_minor, r.bank_code,
                                    r.account_number, r.ref_trx), E'\n' ORDER BY r.number)
          FROM payout_batch_row r
         WHERE r.merchant_id = t.merchant_id AND r.batch_id = t.id))""",
    "coalesce(t.asked_at, t.confirmed_at)",
)


class BatchKind(StrEnum):
    FILE = "file"
    SINGLE = "single"  # one payout from the dashboard that needed a second person's approval


class BatchStatus(StrEnum):
    DRAFT = "draft"  # the rows are checked, but no user has confirmed the batch
    ASKED = "asked"  # a user has confirmed the batch; a second person must approve it
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"  # a user rejected the batch, or nobody approved it in time


class RowState(StrEnum):
    FAULTY = "faulty"  # the row is invalid and is not paid until the user corrects it
    READY = "ready"
    PAID = "paid"  # the row's payout was created, and has a separate status
    REFUSED = "refused"  # the row was rejected, and the wallet was not debited


class NameCheck(StrEnum):
    """The comparison of the name in the file with the account name at the bank."""

    NONE = "none"  # the method cannot resolve names, or the row has an error
    WAITING = "waiting"
    AGREES = "agrees"
    DIFFERS = "differs"


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
    kind: BatchKind = BatchKind.FILE
    revision: int = 0
    ipn_url: str = ""
    asked_by_id: int | None = None
    asked_by: str | None = None
    expires_at: datetime | None = None
    ended_by: str | None = None
    stopped_at: datetime | None = None
    # Number of rows in each state.
    faulty: int = 0
    ready: int = 0
    paid: int = 0
    refused: int = 0
    # Number of ready rows whose account name is not checked yet, or differs from the bank's.
    unchecked: int = 0
    differing: int = 0
    amount_minor: int = 0  # total amount of the valid rows
    fee_minor: int = 0
    tax_minor: int = 0

    @property
    def amount(self) -> Money:
        return Money(self.currency, self.amount_minor)

    @property
    def fee(self) -> Money:
        return Money(self.currency, self.fee_minor)

    @property
    def total(self) -> Money:
        return Price(self.amount, self.fee, self.tax_minor).debit

    @property
    def tax(self) -> Money:
        return Money(self.currency, self.tax_minor)

    @property
    def rows(self) -> int:
        """The number of rows in the file, also of rows with errors, which are not paid."""
        return self.payable + self.faulty

    @property
    def payable(self) -> int:
        """The number of valid rows: ready, paid or rejected."""
        return self.ready + self.paid + self.refused

    @property
    def decided(self) -> int:
        return self.paid + self.refused

    @property
    def path(self) -> str:
        """The path of the batch's page."""
        return f"/dashboard/{self.environment}/payouts/bulk/{self.id}"

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at <= datetime.now(UTC)

    @property
    def ordered_by(self) -> str | None:
        """The users who requested and approved the batch's payouts."""
        if self.asked_by is None:
            return self.confirmed_by
        return f"{self.asked_by}, approved by {self.confirmed_by}"


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
    faults: dict[str, str] = {}
    resolved_name: str | None = None
    name_check: NameCheck = NameCheck.NONE
    tax_minor: int = 0
    purpose: Purpose | None = None


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
    unsent: int  # pending automatic payouts that have not been sent to a provider yet

    @property
    def made(self) -> int:
        return self.pending + self.final

    @property
    def final(self) -> int:
        return self.delivered + self.failed


async def insert(connection: Connection, batch: Batch, rows: Sequence[NewBatchRow]) -> bool:
    """Adds a draft with its rows. Returns False if a batch with this id exists."""
    is_new = await connection.has_row(
        """
        INSERT INTO payout_batch (merchant_id, id, environment, method_id, method_name, currency,
                                  file_name, uploaded_by, kind, ipn_url)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
            ON CONFLICT DO NOTHING
        RETURNING true""",
        *(batch.merchant_id, batch.id, batch.environment, batch.method_id, batch.method_name),
        *(batch.currency, batch.file_name, batch.uploaded_by, batch.kind, batch.ipn_url),
    )
    if not is_new:
        return False
    stored = columns(NewBatchRow)
    for first in range(0, len(rows), INSERTED_AT_ONCE):
        part = rows[first : first + INSERTED_AT_ONCE]
        await connection.execute(
            f"""
            INSERT INTO payout_batch_row (merchant_id, batch_id, {stored})
            SELECT $1, $2, {stored} FROM jsonb_populate_recordset(NULL::payout_batch_row, $3)""",
            *(batch.merchant_id, batch.id, msgspec.json.encode(part).decode()),
        )
        deadline.renew()
    return True


_BATCH = f"""
    SELECT {columns(Batch)}
      FROM payout_batch b
     CROSS JOIN LATERAL (
           SELECT count(*) FILTER (WHERE state = 'faulty') AS faulty,
                  count(*) FILTER (WHERE state = 'ready') AS ready,
                  count(*) FILTER (WHERE state = 'paid') AS paid,
                  count(*) FILTER (WHERE state = 'refused') AS refused,
                  count(*) FILTER (WHERE state = 'ready' AND name_check = 'waiting') AS unchecked,
                  count(*) FILTER (WHERE state = 'ready' AND name_check = 'differs') AS differing,
                  coalesce(sum(amount_minor) FILTER (WHERE state <> 'faulty'), 0)::bigint
                           AS amount_minor,
                  coalesce(sum(fee_minor) FILTER (WHERE state <> 'faulty'), 0)::bigint AS fee_minor,
                  coalesce(sum(tax_minor) FILTER (WHERE state <> 'faulty'), 0)::bigint AS tax_minor
             FROM payout_batch_row
            WHERE merchant_id = b.merchant_id AND batch_id = b.id) AS r"""


async def batch(db: Database | Connection, merchant_id: int, batch_id: str) -> Batch | None:
    record = await db.record(
        _BATCH + " WHERE b.merchant_id = $1 AND b.id = $2", merchant_id, batch_id
    )
    return None if record is None else msgspec.convert(dict(record), Batch)


async def batches(db: Reads, merchant_id: int, batch_ids: Sequence[str]) -> list[Batch]:
    """Returns the batches with these ids, in the order of `batch_ids`."""
    records = await db.records(
        _BATCH + " WHERE b.merchant_id = $1 AND b.id = ANY($2::text[])",
        *(merchant_id, list(batch_ids)),
    )
    found = [msgspec.convert(dict(record), Batch) for record in records]
    return sorted(found, key=lambda batch: batch_ids.index(batch.id))


async def count_rejected(db: Reads, tenant: Tenant, since: datetime) -> int:
    """Counts confirmed batches that were created since `since` and have rejected rows."""
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


async def count_waiting(db: Database, tenant: Tenant) -> int:
    """Counts the batches that need a second person's approval."""
    return await db.number(
        """
        SELECT count(*) FROM payout_batch
         WHERE merchant_id = $1 AND environment = $2 AND status = 'asked' AND expires_at > now()""",
        *(tenant.merchant_id, tenant.environment),
    )


async def waiting(db: Database, tenant: Tenant) -> list[Batch]:
    """Returns the batches that need a second person's approval, oldest first."""
    records = await db.records(
        _BATCH
        + """
         WHERE b.merchant_id = $1 AND b.environment = $2 AND b.status = 'asked'
           AND b.expires_at > now()
         ORDER BY b.asked_at LIMIT $3""",
        *(tenant.merchant_id, tenant.environment, WAITING_MAX),
    )
    return [msgspec.convert(dict(record), Batch) for record in records]


async def rows(
    db: RowSource,
    merchant_id: int,
    batch_id: str,
    *,
    state: RowState | None = None,
    name_check: NameCheck | None = None,
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
           AND ($6::text IS NULL OR r.name_check = $6 AND r.state = 'ready')
         ORDER BY r.number LIMIT $5""",
        *(merchant_id, batch_id, after, state, limit, name_check),
    )
    return [_read_row(record) for record in records]


async def row(db: Database | Connection, of: Batch, number: int) -> BatchRow | None:
    record = await db.record(
        f"""
        SELECT {columns(NewBatchRow)}, trx_id FROM payout_batch_row
         WHERE merchant_id = $1 AND batch_id = $2 AND number = $3""",
        *(of.merchant_id, of.id, number),
    )
    return None if record is None else _read_row(record)


def _read_row(record: Any) -> BatchRow:
    fields = dict(record)
    fields["faults"] = msgspec.json.decode(fields["faults"])
    return msgspec.convert(fields, BatchRow)


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
               count(*) FILTER (WHERE p.status IN ('failed', 'canceled')) AS failed,
               count(*) FILTER (WHERE p.status = 'pending' AND p.began_at IS NULL
                                  AND p.provider IS NOT NULL) AS unsent
          FROM payout_batch_row r
          JOIN payout p ON p.merchant_id = r.merchant_id AND p.trx_id = r.trx_id
         WHERE r.merchant_id = $1 AND r.batch_id = $2""",
        *(merchant_id, batch_id),
    )
    return msgspec.convert(dict(record or {}), BatchOutcomes)


async def used_references(
    db: Database | Connection, tenant: Tenant, references: Sequence[str]
) -> set[str]:
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


async def has_other_row(
    connection: Connection, of: Batch, numbers: Sequence[int], reference: str
) -> bool:
    """Whether a payable row of the batch, other than these rows, has this reference."""
    return await connection.has_row(
        """
        SELECT true FROM payout_batch_row
         WHERE merchant_id = $1 AND batch_id = $2 AND number <> ALL($3) AND ref_trx = $4
           AND state <> 'faulty' LIMIT 1""",
        *(of.merchant_id, of.id, numbers, reference),
    )


async def replace_rows(connection: Connection, of: Batch, new: Sequence[NewBatchRow]) -> None:
    names = [name for name in NewBatchRow.__struct_fields__ if name != "number"]
    changes = ", ".join(f"{name} = n.{name}" for name in names)
    await connection.execute(
        f"""
        UPDATE payout_batch_row AS r SET {changes}
          FROM jsonb_populate_recordset(NULL::payout_batch_row, $3) AS n
         WHERE r.merchant_id = $1 AND r.batch_id = $2 AND r.number = n.number""",
        *(of.merchant_id, of.id, msgspec.json.encode(new).decode()),
    )


async def delete_rows(connection: Connection, of: Batch, numbers: Sequence[int]) -> None:
    await connection.execute(
        """
        DELETE FROM payout_batch_row
         WHERE merchant_id = $1 AND batch_id = $2 AND number = ANY($3)""",
        *(of.merchant_id, of.id, numbers),
    )


async def raise_revision(connection: Connection, of: Batch) -> None:
    """Increases the batch's revision, so that users are warned that its rows have changed."""
    await connection.execute(
        """
        UPDATE payout_batch SET revision = revision + 1 WHERE merchant_id = $1 AND id = $2""",
        *(of.merchant_id, of.id),
    )


async def save_names(db: Database, of: Batch, found: Sequence[NewBatchRow]) -> None:
    """Saves the results of name checks, except for rows that users changed in the meantime."""
    await db.execute(
        """
        UPDATE payout_batch_row AS r
           SET state = n.state, faults = n.faults, remark = n.remark, name_check = n.name_check,
               resolved_name = n.resolved_name
          FROM jsonb_populate_recordset(NULL::payout_batch_row, $3) AS n, payout_batch b
         WHERE b.merchant_id = $1 AND b.id = $2 AND b.status = 'draft'
           AND r.merchant_id = $1 AND r.batch_id = $2 AND r.number = n.number
           AND r.state = 'ready' AND r.name_check = 'waiting'
           AND (r.bank_code, r.account_number, r.name) = (n.bank_code, n.account_number, n.name)""",
        *(of.merchant_id, of.id, msgspec.json.encode(found).decode()),
    )


async def unsent(db: Database | Connection, of: Batch, limit: int) -> list[str]:
    """Returns the ids of the batch's automatic payouts that have not been sent to a provider."""
    records = await db.records(
        """
        SELECT p.trx_id
          FROM payout_batch_row r
          JOIN payout p ON p.merchant_id = r.merchant_id AND p.trx_id = r.trx_id
         WHERE r.merchant_id = $1 AND r.batch_id = $2 AND r.state = 'paid'
           AND p.status = 'pending' AND p.began_at IS NULL AND p.provider IS NOT NULL
           AND NOT EXISTS (SELECT FROM payout_attempt a
                            WHERE a.merchant_id = p.merchant_id AND a.trx_id = p.trx_id
                              AND a.dead_at IS NOT NULL)
         ORDER BY r.number DESC LIMIT $3""",
        *(of.merchant_id, of.id, limit),
    )
    return [record["trx_id"] for record in records]


async def take_back(connection: Connection, of: Batch, trx_id: str, remark: str) -> None:
    """Marks a row as rejected after its payout was canceled."""
    await connection.execute(
        """
        UPDATE payout_batch_row SET state = 'refused', remark = $4
         WHERE merchant_id = $1 AND batch_id = $2 AND trx_id = $3 AND state = 'paid'""",
        *(of.merchant_id, of.id, trx_id, remark),
    )
