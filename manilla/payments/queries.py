"""SQL queries for payments."""

from datetime import datetime, timedelta

import msgspec

from manilla.kit import ratelimit
from manilla.kit.db import Connection, Database, columns
from manilla.kit.ratelimit import RateTicket
from manilla.ledger import trx_ids
from manilla.payments.payment import Payment

PAYMENT_COLUMNS = columns(Payment)
_PAYMENT = f"SELECT {PAYMENT_COLUMNS} FROM payment"


async def payment(
    db: Database | Connection, merchant_id: int, trx_id: str, *, lock: bool = False
) -> Payment | None:
    record = await db.record(
        _PAYMENT + " WHERE merchant_id = $1 AND trx_id = $2" + (" FOR UPDATE" if lock else ""),
        merchant_id,
        trx_id,
    )
    return None if record is None else msgspec.convert(dict(record), Payment)


async def payment_about(db: Database, reference: str) -> Payment | None:
    """Returns the payment with this id, or the payment of a charge, refund or commission."""
    trx_id = reference.partition("-")[0]
    merchant_id = trx_ids.merchant_of(trx_id)
    if merchant_id is None:
        return None
    found: str | None = await db.value(
        """
        SELECT coalesce(
            (SELECT trx_id FROM payment WHERE merchant_id = $1 AND trx_id = $2),
            (SELECT payment_trx_id FROM refund WHERE merchant_id = $1 AND trx_id = $2),
            (SELECT trx_id FROM payment WHERE merchant_id = $1 AND commission_trx_id = $2))""",
        *(merchant_id, trx_id),
    )
    return None if found is None else await payment(db, merchant_id, found)


async def counted_payment(
    db: Database, merchant_id: int, environment: str, trx_id: str, ticket: RateTicket
) -> Payment | None:
    """Reads the payment and counts the request towards the rate limit, in one statement."""
    record = await db.record(
        f"""
        SELECT taken.used, taken.resets_in_seconds, found.*
          FROM rate_take(ARRAY[$4], ARRAY[1::bigint], $5) AS taken
          -- This order forces a plan on the primary key, which does not read all of
          -- the merchant's payments.
          LEFT JOIN LATERAL ({_PAYMENT}
                WHERE merchant_id = $1 AND trx_id BETWEEN $3 AND $3
                ORDER BY trx_id LIMIT 1) AS found
            ON found.environment = $2""",
        *(merchant_id, environment, trx_id, ticket.bucket, ratelimit.WINDOW),
    )
    ticket.spend(record["used"], record["resets_in_seconds"])
    return None if record["trx_id"] is None else msgspec.convert(dict(record), Payment)


async def change_payment(connection: Connection, after: Payment) -> None:
    """Writes the columns that a transition can change. The caller must have locked the row."""
    await connection.execute(
        """
        UPDATE payment
           SET status = $3, error_code = $4, commission_trx_id = $5, credited_charge = $6,
               refunded_minor = $7, updated_at = now()
         WHERE merchant_id = $1 AND trx_id = $2""",
        *(after.merchant_id, after.trx_id, after.status, after.error_code),
        *(after.commission_trx_id, after.credited_charge, after.refunded_minor),
    )


async def set_opened(db: Database, found: Payment, job_kind: str, wait: timedelta) -> None:
    """Records the first view of checkout, and delays the job of this kind by at least `wait`."""
    await db.execute(
        """
        WITH opened AS (
            UPDATE payment SET opened_at = now()
             WHERE merchant_id = $1 AND trx_id = $2 AND opened_at IS NULL AND status = 'pending'
            RETURNING true)
        UPDATE job SET due_at = greatest(due_at, now() + $4::interval)
          FROM opened
         WHERE merchant_id = $1 AND kind = $3 AND subject = $2""",
        *(found.merchant_id, found.trx_id, job_kind, wait),
    )


async def job_due_at(db: Database, found: Payment, job_kind: str) -> datetime | None:
    due_at: datetime | None = await db.value(
        "SELECT due_at FROM job WHERE merchant_id = $1 AND kind = $2 AND subject = $3",
        *(found.merchant_id, job_kind, found.trx_id),
    )
    return due_at
