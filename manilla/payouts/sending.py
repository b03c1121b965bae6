"""What is saved around a send: before its first byte, and when the provider has taken it on."""

from collections.abc import Sequence

import msgspec

from manilla.kit.db import Database
from manilla.kit.jobs import Job
from manilla.kit.money import Money


class Accepted(msgspec.Struct, frozen=True):
    merchant_id: int
    trx_id: str
    provider_reference: str | None
    fee: Money | None


class _Begun(msgspec.Struct, frozen=True):
    trx_id: str


async def begin(db: Database, begun: Sequence[Job]) -> list[bool]:
    """False for a job that is not its holder's any more: who was frozen must not send."""
    rows = await db.rows(
        _Begun,
        """
        UPDATE payout AS p SET began_at = now()
          FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS b (merchant_id, trx_id, fence)
          JOIN job j ON j.merchant_id = b.merchant_id AND j.kind = 'transfer'
               AND j.subject = b.trx_id AND j.lease = b.fence
         WHERE p.merchant_id = b.merchant_id AND p.trx_id = b.trx_id AND p.status = 'pending'
           AND p.began_at IS NULL
        RETURNING p.trx_id""",
        [job.merchant_id for job in begun],
        [job.subject for job in begun],
        [job.fence for job in begun],
    )
    mine = {row.trx_id for row in rows}
    return [job.subject in mine for job in begun]


async def accept(db: Database, accepted: Sequence[Accepted]) -> list[None]:
    await db.execute(
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
