"""The attempts to send a payout whose rail is chosen automatically.

An attempt is dead once it is certain that its rail will not pay: the rail never received the
transfer, or rejected it when it was sent for the first time. A payout has at most one attempt that
is not dead, which a unique index ensures. All attempts use the payout's reference, and each rail
has at most one attempt, so a late message from any rail can be matched to its attempt.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from manilla.job_kinds import JobKind
from manilla.kit import crash, jobs
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import columns
from manilla.kit.jobs import Job
from manilla.ledger import timeline
from manilla.payouts import store
from manilla.payouts.payout import Payout, PayoutStatus
from manilla.posting_kinds import PostingFlag, kinds_with, stored_kind
from manilla.providers.port import (
    KnownAs,
    TransferState,
    TransferStatus,
    WebhookSubject,
)
from manilla.routing.router import PayoutRoute
from manilla.transfers import doubts, reports


class AttemptEnd(StrEnum):
    """The result of an attempt on a rail, after which the payout moved to another rail."""

    REJECTED = "rejected"
    NOT_RECEIVED = "not_received"
    ELSEWHERE = "elsewhere"  # another rail has the transfer


class Attempt(msgspec.Struct, frozen=True):
    merchant_id: int
    trx_id: str
    number: int
    provider: str
    sent_reference: str | None  # None for the current attempt, or if the transfer was never sent
    account_name: str | None  # the name that this rail resolved; None for the current attempt
    # None if the attempt is not dead, or if it was ended by an older version of Manilla.
    ended_as: AttemptEnd | None
    dead_because: str | None
    dead_at: datetime | None
    created_at: datetime
    # The rail's report after the attempt's end, if it contradicts our status; otherwise None.
    reported: str | None
    provider_fee_minor: int | None

    @property
    def known_as(self) -> KnownAs:
        return KnownAs(sent_reference=self.sent_reference)


_COLUMNS = columns(Attempt)


async def attempts(db: Database | Connection, merchant_id: int, trx_id: str) -> list[Attempt]:
    return await db.rows(
        Attempt,
        f"""
        SELECT {_COLUMNS} FROM payout_attempt
         WHERE merchant_id = $1 AND trx_id = $2 ORDER BY number""",
        *(merchant_id, trx_id),
    )


async def left_lately(db: Database, provider: str, age: timedelta, limit: int) -> list[Attempt]:
    """Returns recent transfers that were sent to the rail but will not be paid by it, latest first.

    Omits transfers for which an administrator has already decided who bears the loss.
    """
    kinds = [stored_kind(kind, provider) for kind in kinds_with(PostingFlag.LOSS)]
    return await db.rows(
        Attempt,
        f"""
        SELECT {_COLUMNS} FROM payout_attempt
         WHERE provider = $1 AND dead_at > now() - $2::interval AND sent_reference IS NOT NULL
           AND NOT lives_elsewhere(merchant_id)
           AND NOT EXISTS (SELECT FROM posting g
                            WHERE g.merchant_id = payout_attempt.merchant_id
                              AND g.trx_id = payout_attempt.trx_id
                              AND g.kind = ANY ($4::text[]))
         ORDER BY dead_at DESC LIMIT $3""",
        *(provider, age, limit, kinds),
    )


async def save_report(db: Database, attempt: Attempt, state: TransferState) -> None:
    """Saves what a rail reports about a transfer after the payout has moved to another rail."""
    await db.execute(
        """
        UPDATE payout_attempt
           SET reported = $4, provider_fee_minor = coalesce($5, provider_fee_minor)
         WHERE merchant_id = $1 AND trx_id = $2 AND provider = $3 AND dead_at IS NOT NULL""",
        *(attempt.merchant_id, attempt.trx_id, attempt.provider, state.status),
        state.fee.minor if state.fee else None,
    )


class AttemptFailure(msgspec.Struct, frozen=True):
    """Why an attempt will not be paid by its rail, as observed by a worker."""

    ended_as: AttemptEnd
    because: str
    was_sent: bool  # False if the transfer was never sent


async def move(
    db: Database, seen: Payout, failure: AttemptFailure, route: PayoutRoute, holder: Job
) -> bool:
    """Ends the payout's current attempt and starts an attempt on another rail.

    Checks the conditions again while the payout's row is locked, because they may have changed
    since the caller checked them. Returns False, and changes nothing, if one of them is not met.
    """
    async with db.transaction() as connection:
        if not await _is_dead(connection, seen, failure, holder):
            return False
        key = seen.merchant_id, seen.trx_id
        await end_attempt(connection, *key, failure.ended_as, failure.because)
        await _start(connection, seen, route)
        await timeline.add(
            *(connection, seen.merchant_id, seen.trx_id, "moved_to_another_rail"),
            before=seen.status,
            after=seen.status,
            detail=f"{seen.provider}: {failure.because} {route.decision.text}",
            facts={"ended_as": failure.ended_as},
        )
        crash.point("before_move_commit")
    crash.point("after_move_commit")
    return True


class _PayoutNow(msgspec.Struct, frozen=True):
    status: PayoutStatus
    provider: str | None
    was_sent: bool
    was_sent_again: bool
    is_on_hold: bool


class AttemptEvidence(msgspec.Struct, frozen=True):
    """Shows whether the rail of an attempt will never pay. All facts are read under locks."""

    seen: Payout
    failure: AttemptFailure
    now: _PayoutNow
    is_job_held: bool
    reported: frozenset[str | None]  # the statuses in signed webhooks from the rail
    has_it: str | None  # a previous rail that turned out to have the transfer, or None


# An attempt is dead (its rail will not pay) only if all of these conditions are met.
CONDITIONS: dict[str, Callable[[AttemptEvidence], bool]] = {
    "the payout is open": lambda known: known.now.status == PayoutStatus.PENDING,
    "it is on the same rail": lambda known: known.now.provider == known.seen.provider,
    # A check after a restore may have found that the transfer was sent.
    "it was sent as the worker says": lambda known: known.now.was_sent == known.failure.was_sent,
    # If a transfer was sent twice, the rejection may only mean that the reference already exists.
    "it was not sent again": lambda known: not known.now.was_sent_again,
    # After a restore, the database may not know that the transfer was sent.
    "it is not on hold": lambda known: not known.now.is_on_hold,
    # A worker that lost its job must not act: another worker may have sent the transfer.
    "the worker holds the job": lambda known: known.is_job_held,
    "no webhook contradicts it": lambda known: known.reported <= {TransferStatus.FAILED},
    "no rail that was left has it": lambda known: known.has_it is None,
}


async def _is_dead(
    connection: Connection, seen: Payout, failure: AttemptFailure, holder: Job
) -> bool:
    known = await _evidence(connection, seen, failure, holder)
    return all(is_met(known) for is_met in CONDITIONS.values())


async def _evidence(
    connection: Connection, seen: Payout, failure: AttemptFailure, holder: Job
) -> AttemptEvidence:
    now = await connection.row(
        _PayoutNow,
        """
        SELECT status, provider, began_at IS NOT NULL AS was_sent,
               last_sent_at IS NOT NULL AS was_sent_again,
               outgoing_hold(merchant_id, environment, false) IS NOT NULL AS is_on_hold
          FROM payout WHERE merchant_id = $1 AND trx_id = $2 FOR UPDATE""",
        *(seen.merchant_id, seen.trx_id),
    )
    assert now is not None
    # `is_held` locks the job. Webhooks wait for this lock, so the query below sees all of them.
    is_job_held = await jobs.is_held(connection, holder)
    said = await reports.claims_about(connection, WebhookSubject.TRANSFER, seen)
    reported = frozenset(claim.status for claim in said)
    has_it = await doubts.left_rail_that_has_it(connection, seen.merchant_id, seen.trx_id)
    return AttemptEvidence(seen, failure, now, is_job_held, reported, has_it)


async def _start(connection: Connection, payout: Payout, route: PayoutRoute) -> None:
    beneficiary: dict[str, Any] = dict(payout.beneficiary)
    beneficiary.pop("name_enquiry_reference", None)
    if route.account.name_enquiry_reference:
        beneficiary["name_enquiry_reference"] = route.account.name_enquiry_reference
    await connection.execute(
        f"""
        UPDATE payout SET provider = $3, rail_bank_code = $4, beneficiary = $5::jsonb,
               account_name = $6, began_at = NULL, last_sent_at = NULL, sent_reference = NULL,
               {store.NOTHING_REPORTED}, updated_at = now()
         WHERE merchant_id = $1 AND trx_id = $2""",
        *(payout.merchant_id, payout.trx_id, route.provider, route.bank_code),
        *(msgspec.json.encode(beneficiary).decode(), route.account.account_name),
    )
    await connection.execute(
        """
        INSERT INTO payout_attempt (merchant_id, trx_id, number, provider, decision)
        SELECT $1, $2, max(number) + 1, $3, $4::jsonb FROM payout_attempt
         WHERE merchant_id = $1 AND trx_id = $2""",
        *(payout.merchant_id, payout.trx_id, route.provider),
        msgspec.json.encode(route.decision).decode(),
    )


async def adopt(
    db: Database, merchant_id: int, trx_id: str, provider: str, *, only_unsent: bool = False
) -> None:
    """Records that `provider`, and not the provider in our database, has the payout.

    `only_unsent`: changes nothing if the payout was already sent to the provider in our database.
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
    """Moves an open payout, whose row is locked, to the provider that has the transfer.

    From then on, that provider is queried. The payout is never sent to it again, because we no
    longer have that provider's bank code and account name.
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
    # A worker that is still querying the previous provider must not end the job.
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
    """Records that the rail of the payout's current attempt will not pay."""
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
