"""Records each send of a payout: before its first byte, and when the provider has accepted it.

Only the worker that holds the payout's job may send it.
"""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from manilla.kit.db import Database
from manilla.kit.jobs import Job
from manilla.kit.money import Money
from manilla.kit.plans import by_key
from manilla.payouts.initiate import SEND

HOLD = timedelta(seconds=90)


class Accepted(msgspec.Struct, frozen=True):
    merchant_id: int
    trx_id: str
    provider_reference: str | None
    fee: Money | None


_MAY_LEAVE = "outgoing_hold(p.merchant_id, p.environment, false) IS NULL"


class _Begun(msgspec.Struct, frozen=True):
    trx_id: str


async def begin(db: Database, begun: Sequence[Job]) -> list[bool]:
    """Marks payouts as being sent. Returns False for each payout that must not be sent.

    A stalled worker that has lost its job must not send, and no worker may send while the
    merchant's money is on hold.
    """
    async with by_key(db) as connection:
        rows = await connection.rows(
            _Begun,
            f"""
        UPDATE payout AS p SET began_at = now()
          FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS b (merchant_id, trx_id, fence)
         CROSS JOIN LATERAL (
               SELECT FROM job j
                WHERE j.merchant_id = b.merchant_id AND j.kind = 'transfer'
                  AND j.subject = b.trx_id AND j.lease = b.fence
                LIMIT 1) AS held
         WHERE p.merchant_id = b.merchant_id AND p.trx_id = b.trx_id AND p.status = 'pending'
           AND p.began_at IS NULL AND {_MAY_LEAVE}
        RETURNING p.trx_id""",
            [job.merchant_id for job in begun],
            [job.subject for job in begun],
            [job.fence for job in begun],
        )
    mine = {row.trx_id for row in rows}
    return [job.subject in mine for job in begun]


async def begin_again(db: Database, job: Job) -> bool:
    """Marks a payout as being sent again under its reference. Returns False as `begin` does."""
    return await db.has_row(
        f"""
        UPDATE payout AS p SET last_sent_at = now()
          FROM job j
         WHERE j.merchant_id = $1 AND j.kind = $2 AND j.subject = $3 AND j.lease = $4
           AND p.merchant_id = $1 AND p.trx_id = $3 AND p.status = 'pending'
           AND {_MAY_LEAVE}
        RETURNING true""",
        *(job.merchant_id, job.kind, job.subject, job.fence),
    )


async def note_sent(db: Database, merchant_id: int, trx_id: str) -> None:
    """Marks a payout as sent because the provider knows it, although we have no record of a send.

    From then on workers query its status instead of sending it.
    """
    await db.execute(
        """
        UPDATE payout SET began_at = now()
         WHERE merchant_id = $1 AND trx_id = $2 AND status = 'pending' AND began_at IS NULL""",
        *(merchant_id, trx_id),
    )


async def hold(db: Database, merchant_id: int, trx_id: str) -> Job | None:
    """Takes the payout's job so that no worker sends it. Returns None if a worker holds the job."""
    fence = await db.value(
        """
        WITH new AS MATERIALIZED (SELECT nextval('job_fence') AS fence)
        INSERT INTO job AS j (merchant_id, kind, subject, due_at, fence, lease, leased_until)
        SELECT $1, $2, $3, now(), fence, fence, now() + $4::interval FROM new
            ON CONFLICT (merchant_id, kind, subject) DO UPDATE
           SET fence = excluded.fence, lease = excluded.lease, leased_until = excluded.leased_until
         WHERE j.leased_until IS NULL OR j.leased_until <= now()
        RETURNING fence""",
        *(merchant_id, SEND, trx_id, HOLD),
    )
    return None if fence is None else Job(merchant_id, SEND, trx_id, 0, 0, fence)


async def release(db: Database, job: Job) -> None:
    """Releases the job, if it still exists, so that workers can take it again."""
    await db.execute(
        """
        UPDATE job SET lease = NULL, leased_until = NULL
         WHERE merchant_id = $1 AND kind = $2 AND subject = $3 AND lease = $4""",
        *(job.merchant_id, job.kind, job.subject, job.fence),
    )


async def accept(db: Database, accepted: Sequence[Accepted]) -> list[None]:
    async with by_key(db) as connection:
        await connection.execute(
            """
        UPDATE payout AS p
           SET accepted_at = coalesce(p.accepted_at, now()),
               provider_reference = coalesce(a.provider_reference, p.provider_reference),
               provider_fee_minor = coalesce(a.fee_minor, p.provider_fee_minor)
          FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[])
               AS a (merchant_id, trx_id, provider_reference, fee_minor)
         WHERE p.merchant_id = a.merchant_id AND p.trx_id = a.trx_id AND p.status = 'pending'""",
            [each.merchant_id for each in accepted],
            [each.trx_id for each in accepted],
            [each.provider_reference for each in accepted],
            [each.fee.minor if each.fee else None for each in accepted],
        )
    return [None] * len(accepted)
