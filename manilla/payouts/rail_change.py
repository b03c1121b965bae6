"""The payout's current attempt: how it ends, and how a payout moves to the rail that has it."""

from enum import StrEnum

from manilla.job_kinds import JobKind
from manilla.kit import jobs
from manilla.kit.db import Connection, Database
from manilla.ledger import timeline
from manilla.payouts import store


class AttemptEnd(StrEnum):
    """How an attempt to send a payout with one rail ended, if the payout went to another rail."""

    REJECTED = "rejected"
    NOT_RECEIVED = "not_received"
    ELSEWHERE = "elsewhere"  # another rail has the transfer


async def adopt(
    db: Database, merchant_id: int, trx_id: str, provider: str, *, only_unsent: bool = False
) -> None:
    """Records that a provider other than the one in our database has the payout.

    `only_unsent`: nothing is changed if the provider in our database may also have it.
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
        f"""
        UPDATE payout AS p
           SET provider = $3, rail_bank_code = '', began_at = now(), last_sent_at = now(),
               sent_reference = a.sent_reference, {store.NOTHING_REPORTED}, updated_at = now()
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
