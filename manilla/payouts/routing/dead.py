"""Checks what rails report about transfers that they rejected or never received."""

from datetime import timedelta

from manilla.cases.cases import CaseKind
from manilla.kit.db import Database
from manilla.payouts import store
from manilla.payouts.payout import Payout
from manilla.payouts.routing import attempts
from manilla.payouts.routing.attempts import Attempt
from manilla.providers import claims
from manilla.providers.port import Done, EventKind, TransferStatus
from manilla.providers.rails import Rails
from manilla.transfers import reports

NOT_PAID = (TransferStatus.FAILED, TransferStatus.NOT_FOUND)


async def check_reported(db: Database, rails: Rails, payout: Payout) -> None:
    """Checks the dead attempts about which their rail has sent a webhook."""
    for attempt in await attempts.attempts(db, payout.merchant_id, payout.trx_id):
        if attempt.dead_at is not None and await _claims(db, attempt):
            await _check(db, rails, payout, attempt)


async def check_lately(
    db: Database, rails: Rails, provider: str, age: timedelta, limit: int
) -> list[str]:
    """Checks a rail's recent dead attempts. Returns the payouts about which it contradicts us."""
    contradicted = []
    for attempt in await attempts.dead_lately(db, provider, age, limit):
        payout = await store.payout(db, attempt.merchant_id, attempt.trx_id)
        assert payout is not None
        if not await _check(db, rails, payout, attempt):
            contradicted.append(attempt.trx_id)
    return contradicted


async def _check(db: Database, rails: Rails, payout: Payout, attempt: Attempt) -> bool:
    """Opens a case, and returns False, if the rail may have paid. Moves no money."""
    said = {claim.status for claim in await _claims(db, attempt) if claim.status}
    answer = await rails.state(
        EventKind.TRANSFER, attempt.provider, attempt.trx_id, attempt.known_as
    )
    if isinstance(answer, Done):
        said.add(answer.value.status)
    contradicting = sorted(said - set(NOT_PAID))
    for status in contradicting:
        detail = (
            f"{attempt.provider} did not accept this transfer, and now says {status}. The payout "
            f"was moved to {payout.provider}, so it may have been paid twice. Nothing was moved."
        )
        await reports.report(db, payout, CaseKind.CONTRADICTION, detail)
    return not contradicting


async def _claims(db: Database, attempt: Attempt) -> list[claims.Claimed]:
    key = attempt.merchant_id, attempt.trx_id, attempt.provider
    return await claims.claimed(db, EventKind.TRANSFER, *key)
