"""SQL queries for refunds."""

from datetime import datetime

import msgspec

from manilla.kit.db import Connection, Database, columns
from manilla.kit.jobs import Job
from manilla.ledger.scope import Scope, within
from manilla.refunds.refund import Refund, RefundStatus

REFUND_COLUMNS = columns(Refund)
_REFUND = f"SELECT {REFUND_COLUMNS} FROM refund"


async def refund(db: Database | Connection, merchant_id: int, trx_id: str) -> Refund | None:
    record = await db.record(
        _REFUND + " WHERE merchant_id = $1 AND trx_id = $2", merchant_id, trx_id
    )
    return None if record is None else msgspec.convert(dict(record), Refund)


async def waiting(db: Database, scope: Scope, limit: int) -> list[Refund]:
    """Returns pending refunds that an administrator must pay, oldest first."""
    conditions = within(scope).add("by_operator AND status = 'pending'")
    records = await db.records(
        f"{_REFUND} WHERE {conditions.sql} ORDER BY trx_id LIMIT {limit}", *conditions.values
    )
    return [msgspec.convert(dict(record), Refund) for record in records]


async def refunds_of(db: Database, merchant_id: int, payment_trx_id: str) -> list[Refund]:
    """Returns all refunds of a payment, oldest first."""
    records = await db.records(
        _REFUND + " WHERE merchant_id = $1 AND payment_trx_id = $2 ORDER BY trx_id",
        *(merchant_id, payment_trx_id),
    )
    return [msgspec.convert(dict(record), Refund) for record in records]


async def insert(connection: Connection, new: Refund) -> None:
    await connection.execute(
        """
        INSERT INTO refund (merchant_id, trx_id, payment_trx_id, environment, currency,
                            amount_minor, reason, provider, charge_reference, on_behalf,
                            commission_minor)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)""",
        *(new.merchant_id, new.trx_id, new.payment_trx_id, new.environment, new.currency),
        *(new.amount_minor, new.reason, new.provider, new.charge_reference),
        *(new.on_behalf, new.commission_minor),
    )


async def mark_sent(db: Database, sent: Refund, job: Job) -> bool:
    """Marks a refund as sent, before its first byte is sent.

    A worker that takes over the job then queries the provider before it sends. Returns False for a
    stalled worker that has lost its job, for a refund that was left to an administrator, and while
    the merchant's money is on hold.
    """
    return await db.has_row(
        """
        UPDATE refund AS r
           SET sent_at = now(), first_sent_at = coalesce(r.first_sent_at, now())
          FROM job j
         WHERE j.merchant_id = $1 AND j.kind = $2 AND j.subject = $3 AND j.lease = $4
           AND r.merchant_id = $1 AND r.trx_id = $3 AND r.status = 'pending'
           AND r.sent_at IS NOT DISTINCT FROM $5 AND NOT r.by_operator
           AND outgoing_hold(r.merchant_id, r.environment, r.on_behalf) IS NULL
        RETURNING true""",
        *(job.merchant_id, job.kind, job.subject, job.fence, sent.sent_at),
    )


async def lock_unsent(connection: Connection, wanted: Refund) -> bool:
    """Locks a refund that was not sent, so that no worker sends it before the transaction ends."""
    return await connection.has_row(
        """
        SELECT true FROM refund
         WHERE merchant_id = $1 AND trx_id = $2 AND status = 'pending' AND sent_at IS NULL
           FOR UPDATE""",
        *(wanted.merchant_id, wanted.trx_id),
    )


async def note_sent(db: Database, sent: Refund) -> None:
    """Marks a refund as sent because the provider knows it, although we have no record of a send.

    From then on workers query its status instead of sending it.
    """
    await db.execute(
        """
        UPDATE refund SET sent_at = now()
         WHERE merchant_id = $1 AND trx_id = $2 AND status = 'pending' AND sent_at IS NULL""",
        *(sent.merchant_id, sent.trx_id),
    )


async def leave_to_operator(db: Database, left: Refund, detail: str) -> None:
    await db.execute(
        """
        UPDATE refund SET by_operator = true, detail = $3, updated_at = now()
         WHERE merchant_id = $1 AND trx_id = $2 AND status = 'pending'""",
        *(left.merchant_id, left.trx_id, detail),
    )


async def decide(
    connection: Connection, decided: Refund, status: RefundStatus, detail: str
) -> None:
    await connection.execute(
        """
        UPDATE refund SET status = $3, detail = $4, updated_at = now()
         WHERE merchant_id = $1 AND trx_id = $2""",
        *(decided.merchant_id, decided.trx_id, status, detail),
    )


async def unsent(db: Database, since: datetime) -> list[Refund]:
    """Returns provider refunds created before `since` that are not marked as sent."""
    records = await db.records(
        f"""
        SELECT found.*
          FROM job j
         CROSS JOIN LATERAL ({_REFUND}
               WHERE refund.merchant_id = j.merchant_id AND refund.trx_id = j.subject) AS found
         WHERE j.kind = 'refund' AND found.status = 'pending' AND found.provider IS NOT NULL
           AND found.sent_at IS NULL AND found.created_at <= $1
         ORDER BY found.created_at""",
        since,
    )
    return [msgspec.convert(dict(record), Refund) for record in records]
