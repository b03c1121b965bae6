"""The statements of the payments' room."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from manilla.kit import ratelimit, strict_json
from manilla.kit.db import Connection, Database, KeptConnection
from manilla.kit.ratelimit import Ticket
from manilla.payments.payment import Payment


class NewPayment(msgspec.Struct, frozen=True):
    """A row to be, its job, and what its request is counted and answered by."""

    bucket: str
    rate_limit: int
    merchant_id: int
    trx_id: str
    environment: str
    ref_trx: str
    currency: str
    amount_minor: int
    commission_minor: int
    commission_bearer: str
    covers_minor: int  # what the wallet must hold for the commission
    ipn_url: str
    allow_payment_methods: list[str]
    is_legacy: bool
    expires_at: datetime
    job_kind: str
    due_at: datetime
    description: str | None = None
    customer_name: str | None = None
    customer_email: str | None = None
    success_redirect: str | None = None
    cancel_redirect: str | None = None
    scenario: str | None = None
    remarks: str | None = None
    endpoint: str | None = None
    key: str | None = None
    body_hash: str | None = None
    answer: str | None = None
    # Where it stands in its batch; how often it counts for the rate limit.
    item: int = 0
    cost: int = 1
    behind: int = 0


class Taken(msgspec.Struct, frozen=True):
    item: int
    outcome: str
    trx_id: str | None  # of the first payment under this reference
    status: str | None
    answer: str | None  # to the first request under this key
    used: int
    resets_in_seconds: int


# Each merchant's items go to their own call of the function, in merchant order: all statements take
# their locks in the same order.
TAKE = """
    SELECT taken.*
      FROM unnest($1::bigint[], $2::jsonb[]) AS m (merchant_id, items)
     CROSS JOIN LATERAL payment_initiate(m.merchant_id, m.items, $3) AS taken"""


async def take(db: KeptConnection, new: Sequence[NewPayment]) -> list[Taken]:
    """All of them in one statement; the result of each stands at its place."""
    by_merchant = _batched(new)
    rows = await db.rows(
        Taken,
        TAKE,
        list(by_merchant),
        [strict_json.encode(items).decode() for items in by_merchant.values()],
        ratelimit.WINDOW,
    )
    rows.sort(key=lambda row: row.item)
    assert len(rows) == len(new)
    return rows


def _batched(new: Sequence[NewPayment]) -> dict[int, list[NewPayment]]:
    """By merchant, in order; each item knows how many of its bucket are counted after it."""
    behind: dict[str, int] = {}
    by_merchant: dict[int, list[NewPayment]] = {m: [] for m in sorted({n.merchant_id for n in new})}
    for place in range(len(new) - 1, -1, -1):
        item = new[place]
        after = behind.get(item.bucket, 0)
        behind[item.bucket] = after + item.cost
        by_merchant[item.merchant_id].append(
            msgspec.structs.replace(item, item=place, behind=after)
        )
    return by_merchant


_PAYMENT = """
    SELECT merchant_id, trx_id, environment, ref_trx, status, error_code, currency, amount_minor,
           commission_minor, commission_bearer, commission_trx_id, description, customer_name,
           customer_email, ipn_url, success_redirect, cancel_redirect, allow_payment_methods,
           is_legacy, scenario, created_at, updated_at, expires_at, opened_at, credited_charge,
           refunded_minor
      FROM payment"""


async def payment(
    db: Database | Connection, merchant_id: int, trx_id: str, *, lock: bool = False
) -> Payment | None:
    record = await db.record(
        _PAYMENT + " WHERE merchant_id = $1 AND trx_id = $2" + (" FOR UPDATE" if lock else ""),
        merchant_id,
        trx_id,
    )
    return None if record is None else msgspec.convert(dict(record), Payment)


async def counted_payment(
    db: Database, merchant_id: int, environment: str, trx_id: str, ticket: Ticket
) -> Payment | None:
    """The payment, and the request for it counted, in one statement."""
    record = await db.record(
        f"""
        SELECT taken.used, taken.resets_in_seconds, found.*
          FROM rate_take(ARRAY[$4], ARRAY[1::bigint], $5) AS taken
          LEFT JOIN LATERAL ({_PAYMENT}
                WHERE merchant_id = $1 AND environment = $2 AND trx_id = $3) AS found
            ON true""",
        *(merchant_id, environment, trx_id, ticket.bucket, ratelimit.WINDOW),
    )
    ticket.spend(record["used"], record["resets_in_seconds"])
    return None if record["trx_id"] is None else msgspec.convert(dict(record), Payment)


async def change_payment(connection: Connection, after: Payment) -> None:
    """Writes what a transition may change. The row is locked by whoever calls."""
    await connection.execute(
        """
        UPDATE payment
           SET status = $3, error_code = $4, commission_trx_id = $5, credited_charge = $6,
               refunded_minor = $7, updated_at = now()
         WHERE merchant_id = $1 AND trx_id = $2""",
        *(after.merchant_id, after.trx_id, after.status, after.error_code),
        *(after.commission_trx_id, after.credited_charge, after.refunded_minor),
    )


async def set_opened(db: Database, found: Payment, job_kind: str, wait: timedelta) -> bool:
    """The first look at checkout. A job of this kind then waits at least so long."""
    opened = await db.value(
        """
        WITH opened AS (
            UPDATE payment SET opened_at = now()
             WHERE merchant_id = $1 AND trx_id = $2 AND opened_at IS NULL AND status = 'pending'
            RETURNING true AS done),
        moved AS (
            UPDATE job SET due_at = greatest(due_at, now() + $4::interval)
              FROM opened
             WHERE merchant_id = $1 AND kind = $3 AND subject = $2)
        SELECT done FROM opened""",
        *(found.merchant_id, found.trx_id, job_kind, wait),
    )
    return bool(opened)


async def job_due_at(db: Database, found: Payment, job_kind: str) -> datetime | None:
    due_at: datetime | None = await db.value(
        "SELECT due_at FROM job WHERE merchant_id = $1 AND kind = $2 AND subject = $3",
        *(found.merchant_id, job_kind, found.trx_id),
    )
    return due_at
