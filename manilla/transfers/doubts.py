"""Decides when it is certain that a transfer was not paid, so that its money may be returned.

Both functions are called in the transaction that moves the money, while the transfer is locked.
After a rejection, the worker's job is also locked, and new webhooks wait for that lock.
"""

from collections.abc import Sequence

from manilla.kit.database.connections import Connection
from manilla.providers.claims import CONFIRMATION_SECONDS, Claimed
from manilla.providers.port import ReportedRefundStatus, TransferStatus
from manilla.transfers.events import Source, TransferEvent, TransferResult

NOT_PAID = (TransferEvent.FAILED, TransferEvent.REJECTED)
# These sources are based on a status query to the provider.
QUERIES = (Source.STATUS_QUERY, Source.RECONCILIATION)
_SAYS_PAID = (TransferStatus.DELIVERED, ReportedRefundStatus.PAID)
_SAYS_FAILED = (TransferStatus.FAILED, ReportedRefundStatus.FAILED)

# Finds previous rails of payout `t` that reported the transfer after their attempt was marked dead.
# The minute covers webhooks that were being stored when the attempt was marked as dead.
LEFT_RAIL_HAS_IT = """
    SELECT a.provider FROM payout_attempt a
     WHERE a.merchant_id = t.merchant_id AND a.trx_id = t.trx_id AND a.dead_at IS NOT NULL
       AND (a.reported NOT IN ('failed', 'not_found')
            OR EXISTS (SELECT FROM webhook w
                        WHERE w.merchant_id = a.merchant_id AND w.reference = a.trx_id
                          AND w.provider = a.provider AND w.kind = 'transfer'
                          AND w.claimed_status IS DISTINCT FROM 'failed'
                          AND w.last_received_at > a.dead_at - interval '1 minute'))"""


def find(event: TransferResult, said: Sequence[Claimed]) -> list[Claimed]:
    """Returns the signed webhooks that make this event doubtful, so that it must not be applied.

    A status query is newer than the webhooks, so its result applies, except in the first seconds
    after a webhook that reports the opposite: the provider may have responded to the query before
    it sent the webhook. Without a status query, any webhook that does not report a failure shows
    that the provider may have the transfer despite its rejection. Then it must be queried.
    """
    if event.event not in NOT_PAID:
        return []
    if event.source in QUERIES:
        recent = [claim for claim in said if claim.age_seconds < CONFIRMATION_SECONDS]
        return [claim for claim in recent if claim.status in _SAYS_PAID]
    return [claim for claim in said if claim.status not in _SAYS_FAILED]


async def left_rail_that_has_it(
    connection: Connection, merchant_id: int, trx_id: str
) -> str | None:
    """Returns a previous rail of the payout that has reported the transfer, or None."""
    provider: str | None = await connection.value(
        f"""
        SELECT found.provider FROM payout t CROSS JOIN LATERAL ({LEFT_RAIL_HAS_IT}
               ORDER BY a.number LIMIT 1) AS found
         WHERE t.merchant_id = $1 AND t.trx_id = $2""",
        *(merchant_id, trx_id),
    )
    return provider
