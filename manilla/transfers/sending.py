"""Records each send of a transfer before its first byte is sent.

Only the worker that holds the transfer's job may send it.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from manilla.kit import jobs
from manilla.kit.db import Connection, Database
from manilla.kit.jobs import Job
from manilla.kit.plans import by_key
from manilla.ledger import timeline
from manilla.ledger.job_kinds import JobKind
from manilla.providers.port import EventKind
from manilla.transfers import conclusive
from manilla.transfers.transfer import Transfer

HOLD = timedelta(seconds=90)


class AttemptEnd(StrEnum):
    """How an attempt to send a payout with one rail ended, if the payout went to another rail."""

    REJECTED = "rejected"
    NOT_RECEIVED = "not_received"
    ELSEWHERE = "elsewhere"  # another rail has the transfer


class TransferTable(msgspec.Struct, frozen=True):
    """How a table records when its transfers were sent, as SQL about the row `t`."""

    kind: EventKind
    name: str
    job_kind: str
    sent_column: str
    mark: str
    unmark: str  # takes the mark back, if `is_first_send`
    is_first_send: str
    may_send: str = "true"
    on_behalf: str = "false"
    is_routed: str = "false"  # of the row `found`


PAYOUTS = TransferTable(
    EventKind.TRANSFER,
    "payout",
    JobKind.TRANSFER,
    "began_at",
    "sent_reference = coalesce(t.sent_reference, m.reference),"
    " began_at = coalesce(t.began_at, now()),"
    " last_sent_at = CASE WHEN t.began_at IS NOT NULL THEN now() END",
    unmark="began_at = NULL, sent_reference = NULL",
    is_first_send="t.last_sent_at IS NULL AND t.accepted_at IS NULL",
    may_send="(t.rail_bank_code IS NULL"
    f" OR (t.rail_bank_code <> '' AND NOT EXISTS ({conclusive.LEFT_RAIL_HAS_IT})))",
    is_routed="found.rail_bank_code IS NOT NULL",
)
REFUNDS = TransferTable(
    EventKind.REFUND,
    "refund",
    JobKind.REFUND,
    "sent_at",
    "sent_at = now(), first_sent_at = coalesce(t.first_sent_at, now())",
    unmark="sent_at = NULL, first_sent_at = NULL",
    is_first_send="t.sent_at = t.first_sent_at",
    may_send="NOT t.by_operator",
    on_behalf="t.on_behalf",
)


class Mark(msgspec.Struct, frozen=True):
    """A worker's request to send a transfer, with the time of the last send that it has read."""

    job: Job
    sent_at: datetime | None
    provider: str | None  # that the worker is about to call
    reference: str | None = None  # our reference in the form that the provider accepts


class _Marked(msgspec.Struct, frozen=True):
    trx_id: str
    fence: int


async def mark(db: Database, table: TransferTable, marks: Sequence[Mark]) -> list[bool]:
    """Marks transfers as sent. Returns False for each transfer that must not be sent.

    A stalled worker that has lost its job must not send, and no worker may send while the
    merchant's money is on hold. A worker that takes over the job of a marked transfer queries the
    provider before it sends.
    """
    async with by_key(db) as connection:
        rows = await connection.rows(
            _Marked,
            f"""
        UPDATE {table.name} AS t SET {table.mark}
          FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::timestamptz[],
                      $6::text[], $7::text[])
               AS m (merchant_id, trx_id, fence, sent_at, reference, provider)
         CROSS JOIN LATERAL (
               SELECT FROM job j
                WHERE j.merchant_id = m.merchant_id AND j.kind = $5
                  AND j.subject = m.trx_id AND j.lease = m.fence
                LIMIT 1) AS held
         WHERE t.merchant_id = m.merchant_id AND t.trx_id = m.trx_id AND t.status = 'pending'
           AND t.{table.sent_column} IS NOT DISTINCT FROM m.sent_at AND {table.may_send}
           AND t.provider = m.provider
           AND outgoing_hold(t.merchant_id, t.environment, {table.on_behalf}) IS NULL
        RETURNING t.trx_id, m.fence""",
            [each.job.merchant_id for each in marks],
            [each.job.subject for each in marks],
            [each.job.fence for each in marks],
            [each.sent_at for each in marks],
            table.job_kind,
            [each.reference for each in marks],
            [each.provider for each in marks],
        )
    marked = {(row.trx_id, row.fence) for row in rows}
    return [(each.job.subject, each.job.fence) in marked for each in marks]


async def unmark(db: Database, table: TransferTable, job: Job) -> None:
    """Takes back the mark of a first send of which certainly no byte has left this machine.

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
    """Marks a transfer as sent although we have no record of sending it: the provider may know it.

    From then on workers query its status, and send it only if the provider does not know it.
    """
    await db.execute(
        f"""
        UPDATE {table.name} SET {table.sent_column} = now()
         WHERE merchant_id = $1 AND trx_id = $2 AND status = 'pending'
           AND {table.sent_column} IS NULL""",
        *(merchant_id, trx_id),
    )


async def adopt(
    db: Database, merchant_id: int, trx_id: str, provider: str, *, only_unsent: bool = False
) -> None:
    """Records that another provider has the payout than our database says.

    `only_unsent`: nothing is changed if the provider in our database may have it too.
    """
    async with db.transaction() as connection:
        can_be_moved = await connection.has_row(
            """
            SELECT true FROM payout
             WHERE merchant_id = $1 AND trx_id = $2 AND status = 'pending' AND provider <> $3
               AND NOT ($4 AND began_at IS NOT NULL)
               FOR UPDATE""",
            *(merchant_id, trx_id, provider, only_unsent),
        )
        if can_be_moved:
            because = f"{provider} has the transfer, according to its answer to a status query."
            await give_to(connection, merchant_id, trx_id, provider, because)


async def give_to(
    connection: Connection, merchant_id: int, trx_id: str, provider: str, because: str
) -> None:
    """Moves an open payout, whose row is locked, to the provider that has it.

    From then on that provider is queried. It never gets the payout again: we no longer have the
    bank's code and the account's name at that provider.
    """
    await end_attempt(connection, merchant_id, trx_id, AttemptEnd.ELSEWHERE, because)
    await connection.execute(
        """
        INSERT INTO payout_attempt (merchant_id, trx_id, number, provider, decision)
        SELECT $1, $2, max(number) + 1, $3, '{}' FROM payout_attempt
         WHERE merchant_id = $1 AND trx_id = $2
            ON CONFLICT (merchant_id, trx_id, provider) DO UPDATE
           SET dead_at = NULL, ended_as = NULL, dead_because = NULL, reported = NULL""",
        *(merchant_id, trx_id, provider),
    )
    await connection.execute(
        """
        UPDATE payout AS p
           SET provider = $3, rail_bank_code = '', began_at = now(), last_sent_at = now(),
               sent_reference = a.sent_reference, accepted_at = NULL, provider_reference = NULL,
               provider_fee_minor = NULL, session_id = NULL, updated_at = now()
          FROM payout_attempt a
         WHERE p.merchant_id = $1 AND p.trx_id = $2
           AND a.merchant_id = $1 AND a.trx_id = $2 AND a.provider = $3""",
        *(merchant_id, trx_id, provider),
    )
    # A worker that asks the other provider at this moment must not end the job.
    await jobs.put(connection, merchant_id, JobKind.TRANSFER, trx_id)
    await timeline.add(
        *(connection, merchant_id, trx_id, "moved_to_another_rail"),
        before="pending",
        after="pending",
        detail=f"Moved to {provider}, which has it. {because}",
        facts={"ended_as": AttemptEnd.ELSEWHERE},
    )


async def end_attempt(
    connection: Connection, merchant_id: int, trx_id: str, ended_as: AttemptEnd, because: str
) -> None:
    """Records that the payout's current attempt is dead."""
    await connection.execute(
        """
        UPDATE payout_attempt AS a
           SET dead_at = now(), ended_as = $3, dead_because = $4, sent_reference = p.sent_reference,
               account_name = p.account_name
          FROM payout p
         WHERE a.merchant_id = $1 AND a.trx_id = $2 AND a.dead_at IS NULL
           AND p.merchant_id = $1 AND p.trx_id = $2""",
        *(merchant_id, trx_id, ended_as, because),
    )


async def leave_refund_to_administrator(
    db: Database, merchant_id: int, trx_id: str, detail: str
) -> None:
    """Leaves the refund to an administrator. From then on no worker sends it."""
    await db.execute(
        """
        UPDATE refund SET by_operator = true, detail = $3, updated_at = now()
         WHERE merchant_id = $1 AND trx_id = $2 AND status = 'pending'""",
        *(merchant_id, trx_id, detail),
    )


async def take_job(db: Database, table: TransferTable, transfer: Transfer) -> Job | None:
    """Takes the transfer's job so that no worker sends it.

    Returns None if a worker holds the job.
    """
    fence = await db.value(
        """
        WITH new AS MATERIALIZED (SELECT nextval('job_fence') AS fence)
        INSERT INTO job AS j (merchant_id, kind, subject, due_at, fence, lease, leased_until)
        SELECT $1, $2, $3, now(), fence, fence, now() + $4::interval FROM new
            ON CONFLICT (merchant_id, kind, subject) DO UPDATE
           SET fence = excluded.fence, lease = excluded.lease, leased_until = excluded.leased_until
         WHERE j.leased_until IS NULL OR j.leased_until <= now()
        RETURNING fence""",
        *(transfer.merchant_id, table.job_kind, transfer.trx_id, HOLD),
    )
    if fence is None:
        return None
    return Job(transfer.merchant_id, table.job_kind, transfer.trx_id, 0, 0, fence)


async def release_job(db: Database, job: Job) -> None:
    """Releases the job, if it still exists, so that workers can take it again."""
    await db.execute(
        """
        UPDATE job SET lease = NULL, leased_until = NULL
         WHERE merchant_id = $1 AND kind = $2 AND subject = $3 AND lease = $4""",
        *(job.merchant_id, job.kind, job.subject, job.fence),
    )
