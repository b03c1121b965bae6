"""Marks a transfer as sent before the first byte of the request leaves this machine.

Only the worker that holds the transfer's job may send the transfer.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from manilla.job_kinds import JobKind
from manilla.kit.database.connections import Database
from manilla.kit.jobs import Job
from manilla.providers.port import WebhookSubject
from manilla.transfers import doubts
from manilla.transfers.events import Transfer


class TransferTable(msgspec.Struct, frozen=True):
    """SQL expressions that record in a table when its transfers were sent.

    `t` is the row's alias.
    """

    kind: WebhookSubject
    name: str
    job_kind: str
    sent_column: str
    mark: str
    unmark: str  # SQL that clears what `mark` has set, if nothing was sent
    is_first_send: str
    # Whether the transfer is what was accepted. `m.destination` is that of the loaded transfer.
    is_unchanged: str
    may_send: str = "true"
    on_behalf: str = "false"
    is_routed: str = "false"  # an SQL expression that uses the row `found`


PAYOUTS = TransferTable(
    WebhookSubject.TRANSFER,
    "payout",
    JobKind.TRANSFER,
    "began_at",
    "sent_reference = coalesce(t.sent_reference, m.reference),"
    " began_at = coalesce(t.began_at, now()),"
    " last_sent_at = CASE WHEN t.began_at IS NOT NULL THEN now() END",
    unmark="began_at = NULL, sent_reference = NULL",
    is_first_send="t.last_sent_at IS NULL AND t.accepted_at IS NULL",
    is_unchanged="""(
               SELECT d.is_unchanged
                 FROM destination_of_payout(t.merchant_id, t.trx_id, m.destination) AS d)""",
    may_send="(t.rail_bank_code IS NULL"
    f" OR (t.rail_bank_code <> '' AND NOT EXISTS ({doubts.LEFT_RAIL_HAS_IT})))",
    is_routed="found.rail_bank_code IS NOT NULL",
)
REFUNDS = TransferTable(
    WebhookSubject.REFUND,
    "refund",
    JobKind.REFUND,
    "sent_at",
    "sent_at = now(), first_sent_at = coalesce(t.first_sent_at, now())",
    unmark="sent_at = NULL, first_sent_at = NULL",
    is_first_send="t.sent_at = t.first_sent_at",
    is_unchanged="""(
               SELECT d.is_unchanged
                 FROM destination_of_refund(t.merchant_id, t.trx_id, t.payment_trx_id, t.provider,
                                            t.charge_reference, t.amount_minor) AS d)""",
    may_send="NOT t.by_operator",
    on_behalf="t.on_behalf",
)


class Mark(msgspec.Struct, frozen=True):
    """A worker's request to mark a transfer as sent, with the previous mark (`sent_at`)."""

    job: Job
    sent_at: datetime | None
    provider: str | None  # the provider that the worker is about to call
    reference: str | None = None  # our reference in the provider's format
    destination: str | None = None  # a payout's destination, as in the order for the provider


async def mark(db: Database, table: TransferTable, marks: Sequence[Mark]) -> list[bool]:
    """Marks transfers as sent. Returns False for each transfer that must not be sent.

    A stalled worker that has lost its job must not send, and no worker may send while the
    merchant's money is on hold. A worker that claims the job of a marked transfer later queries
    the provider before it sends. A transfer that was changed after it was accepted is not sent.
    """
    records = await db.records_by_key(
        f"""
        UPDATE {table.name} AS t SET {table.mark}
          FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::timestamptz[],
                      $6::text[], $7::text[], $8::text[])
               AS m (merchant_id, trx_id, fence, sent_at, reference, provider, destination)
         CROSS JOIN LATERAL (
               SELECT FROM job j
                WHERE j.merchant_id = m.merchant_id AND j.kind = $5
                  AND j.subject = m.trx_id AND j.lease = m.fence
                LIMIT 1) AS held
         WHERE t.merchant_id = ANY (ARRAY[m.merchant_id]) AND t.trx_id = m.trx_id
           AND t.status = 'pending'
           AND t.{table.sent_column} IS NOT DISTINCT FROM m.sent_at AND {table.may_send}
           AND t.provider = m.provider AND {table.is_unchanged}
           AND (SELECT reason
                  FROM hold_of_outgoing(t.merchant_id, t.environment, {table.on_behalf})) IS NULL
        RETURNING t.merchant_id, t.trx_id, m.fence""",
        [each.job.merchant_id for each in marks],
        [each.job.subject for each in marks],
        [each.job.fence for each in marks],
        [each.sent_at for each in marks],
        table.job_kind,
        [each.reference for each in marks],
        [each.provider for each in marks],
        [each.destination for each in marks],
    )
    marked = {tuple(record) for record in records}
    jobs = [each.job for each in marks]
    return [(job.merchant_id, job.subject, job.fence) in marked for job in jobs]


async def is_unchanged(db: Database, table: TransferTable, transfer: Transfer) -> bool:
    """Returns False if the transfer was changed after it was accepted, so it must not be sent."""
    found = await db.records_by_key(
        f"""
        SELECT FROM {table.name} AS t, (SELECT $3::text AS destination) AS m
         WHERE t.merchant_id = $1 AND t.trx_id = $2 AND {table.is_unchanged}""",
        *(transfer.merchant_id, transfer.trx_id, transfer.destination),
    )
    return bool(found)


async def unmark(db: Database, table: TransferTable, job: Job) -> None:
    """Reverts the mark if it is certain that no byte of the first request has left this machine.

    The transfer is then unsent again. A worker that has lost its job changes nothing.
    """
    await db.execute(
        f"""
        UPDATE {table.name} AS t SET {table.unmark}
          FROM job j
         WHERE t.merchant_id = $1 AND t.trx_id = $3 AND t.status = 'pending'
           AND {table.is_first_send}
           AND j.merchant_id = $1 AND j.kind = $2 AND j.subject = $3 AND j.lease = $4""",
        *(job.merchant_id, job.kind, job.subject, job.fence),
    )


async def note_sent(db: Database, table: TransferTable, merchant_id: int, trx_id: str) -> None:
    """Marks a transfer as sent although no request was recorded: the provider may have it.

    From then on workers query its status, and send it only if the provider has no record of it.
    """
    await db.execute(
        f"""
        UPDATE {table.name} SET {table.sent_column} = now()
         WHERE merchant_id = $1 AND trx_id = $2 AND status = 'pending'
           AND {table.sent_column} IS NULL""",
        *(merchant_id, trx_id),
    )
