"""The attempts of a payout whose rail was chosen automatically.

An attempt is dead once it is certain that its rail will not pay: the rail never received the
transfer, or rejected it when it was sent for the first time. A payout has at most one attempt that
is not dead; a unique index ensures it. All attempts have the payout's reference, and each rail has
at most one of them, so a late message from any rail can be matched.
"""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from manilla.kit import crash, jobs
from manilla.kit.db import Connection, Database, columns
from manilla.kit.jobs import Job
from manilla.ledger import timeline
from manilla.payouts.payout import Payout, PayoutStatus
from manilla.payouts.routing.choice import RouteDecision
from manilla.providers.port import EventKind, KnownAs, ResolvedAccount, TransferStatus
from manilla.transfers import reports


class Attempt(msgspec.Struct, frozen=True):
    merchant_id: int
    trx_id: str
    number: int
    provider: str
    sent_reference: str | None  # None: it was never sent, or it is the current attempt
    dead_because: str | None  # None: not dead
    dead_at: datetime | None
    created_at: datetime

    @property
    def known_as(self) -> KnownAs:
        return KnownAs(sent_reference=self.sent_reference)


class PayoutRoute(msgspec.Struct, frozen=True):
    """The rail that a payout is sent with, and what the rail knows the beneficiary as."""

    decision: RouteDecision
    provider: str
    bank_code: str
    account: ResolvedAccount


_COLUMNS = columns(Attempt)


async def attempts(db: Database | Connection, merchant_id: int, trx_id: str) -> list[Attempt]:
    return await db.rows(
        Attempt,
        f"""
        SELECT {_COLUMNS} FROM payout_attempt
         WHERE merchant_id = $1 AND trx_id = $2 ORDER BY number""",
        *(merchant_id, trx_id),
    )


async def dead_lately(db: Database, provider: str, age: timedelta, limit: int) -> list[Attempt]:
    """Returns the rail's dead attempts that were sent, the latest first."""
    return await db.rows(
        Attempt,
        f"""
        SELECT {_COLUMNS} FROM payout_attempt
         WHERE provider = $1 AND dead_at > now() - $2::interval AND sent_reference IS NOT NULL
         ORDER BY dead_at DESC LIMIT $3""",
        *(provider, age, limit),
    )


class Death(msgspec.Struct, frozen=True):
    """Why an attempt is dead, as its worker saw it."""

    because: str
    was_sent: bool  # sent once, and rejected or never received; else never sent


async def move(db: Database, seen: Payout, death: Death, route: PayoutRoute, holder: Job) -> bool:
    """Ends the payout's attempt and starts the next one, on another rail.

    Returns False, and changes nothing, unless the attempt is certainly dead: what could have
    changed since the caller saw its death is checked here, while the payout's row is locked.
    """
    async with db.transaction() as connection:
        if not await _is_dead(connection, seen, death, holder):
            return False
        await end(connection, seen, death.because)
        await _start(connection, seen, route)
        await timeline.add(
            *(connection, seen.merchant_id, seen.trx_id, "moved_to_another_rail"),
            before=seen.status,
            after=seen.status,
            detail=f"{seen.provider}: {death.because} {route.decision.text}",
        )
        crash.point("before_move_commit")
    crash.point("after_move_commit")
    return True


async def _is_dead(connection: Connection, seen: Payout, death: Death, holder: Job) -> bool:
    payout = await connection.record(
        """
        SELECT status, provider, began_at IS NOT NULL AS was_sent,
               last_sent_at IS NULL AS was_not_sent_again,
               outgoing_hold(merchant_id, environment, false) IS NULL AS is_free
          FROM payout WHERE merchant_id = $1 AND trx_id = $2 FOR UPDATE""",
        *(seen.merchant_id, seen.trx_id),
    )
    assert payout is not None
    return (
        payout["status"] == PayoutStatus.PENDING
        and payout["provider"] == seen.provider
        # An administrator's check after a restore may have found that it was sent.
        and payout["was_sent"] == death.was_sent
        # After a second send, a rejection may mean that the rail knows the reference.
        and payout["was_not_sent_again"]
        # After a restore, the database may not know that the transfer was sent.
        and payout["is_free"]
        # A worker that lost its job must not act: another one may have sent the transfer.
        and await jobs.is_held(connection, holder)
        and not await _is_reported(connection, seen)
    )


async def _is_reported(connection: Connection, payout: Payout) -> bool:
    """Whether a signed webhook from the rail says anything else than that the transfer failed."""
    said = await reports.claims_about(connection, EventKind.TRANSFER, payout)
    return any(claim.status != TransferStatus.FAILED for claim in said)


async def end(connection: Connection, payout: Payout, because: str) -> None:
    """Records that the payout's current attempt is dead."""
    await connection.execute(
        """
        UPDATE payout_attempt AS a
           SET dead_at = now(), dead_because = $3, sent_reference = p.sent_reference
          FROM payout p
         WHERE a.merchant_id = $1 AND a.trx_id = $2 AND a.dead_at IS NULL
           AND p.merchant_id = $1 AND p.trx_id = $2""",
        *(payout.merchant_id, payout.trx_id, because),
    )


async def _start(connection: Connection, payout: Payout, route: PayoutRoute) -> None:
    beneficiary: dict[str, Any] = dict(payout.beneficiary)
    beneficiary.pop("name_enquiry_reference", None)
    if route.account.name_enquiry_reference:
        beneficiary["name_enquiry_reference"] = route.account.name_enquiry_reference
    await connection.execute(
        """
        UPDATE payout SET provider = $3, rail_bank_code = $4, beneficiary = $5::jsonb,
               account_name = $6, began_at = NULL, last_sent_at = NULL, sent_reference = NULL,
               accepted_at = NULL, provider_reference = NULL, provider_fee_minor = NULL,
               session_id = NULL, updated_at = now()
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
