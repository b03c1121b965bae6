"""Queries rails again about transfers that they reported as rejected or not received."""

from datetime import timedelta

from manilla.cases.cases import CaseKind
from manilla.kit.database.connections import Database
from manilla.merchants import outgoing
from manilla.payouts import attempts, store
from manilla.payouts.attempts import Attempt
from manilla.payouts.payout import Payout
from manilla.providers import claims
from manilla.providers.port import Done, TransferState, TransferStatus, WebhookSubject
from manilla.providers.rails import Rails
from manilla.transfers import reports

NOT_PAID = (TransferStatus.FAILED, TransferStatus.NOT_FOUND)


async def requery_reported(db: Database, rails: Rails, payout: Payout) -> bool:
    """Queries the payout's earlier rails that have sent a webhook or contradicted our status.

    Returns True if one of these rails may pay the payout, so that no other rail may send it.
    """
    if not payout.is_routed:
        return False
    reported = await _reported(db, payout)
    contradicted = [await _requery(db, rails, payout, each) for each in reported]
    return any(contradicted)


async def doubt(db: Database, rails: Rails, payout: Payout) -> str | None:
    """Returns why a rail other than the payout's current rail may have the transfer, or None."""
    if payout.is_routed and await outgoing.hold_start(db) is not None:
        return "Another provider may have the payout: release the hold first."
    answers = [await _state(rails, each) for each in await _reported(db, payout)]
    if not all(answer is not None and answer.status in NOT_PAID for answer in answers):
        return "A provider that rejected the payout may have paid it after all."
    return None


async def requery_lately(
    db: Database, rails: Rails, provider: str, age: timedelta, limit: int
) -> list[str]:
    """Queries a rail's unpaid transfers. Returns the payouts whose status the rail contradicts."""
    contradicted = []
    for attempt in await attempts.left_lately(db, provider, age, limit):
        payout = await store.payout(db, attempt.merchant_id, attempt.trx_id)
        assert payout is not None
        if await _requery(db, rails, payout, attempt):
            contradicted.append(attempt.trx_id)
    return contradicted


async def _requery(db: Database, rails: Rails, payout: Payout, attempt: Attempt) -> bool:
    """Opens a case and returns True if an earlier rail may have paid the transfer after all.

    Moves no money. Moves an unsent payout back to the rail that has the transfer.
    """
    said = {claim.status for claim in await _claims(db, attempt) if claim.status}
    state = await _state(rails, attempt)
    answer = None if state is None else state.status
    if state is not None and (answer not in NOT_PAID or attempt.reported is not None):
        await attempts.save_report(db, attempt, state)
    contradicting = sorted((said | {answer}) - {*NOT_PAID, None}, key=str)
    for status in contradicting:
        detail = (
            f"{attempt.provider} did not accept this transfer, and now says {status}. The payout "
            f"was moved to {payout.provider} and is {payout.status} there. Nothing was moved."
        )
        rail = attempt.provider
        await reports.report(db, payout, CaseKind.CONTRADICTION, detail, provider=rail)
    if answer is not None and answer not in NOT_PAID:
        key = attempt.merchant_id, attempt.trx_id
        await attempts.adopt(db, *key, attempt.provider, only_unsent=True)
    return bool(contradicting)


async def _state(rails: Rails, attempt: Attempt) -> TransferState | None:
    """Queries the transfer's status. Returns None if the rail's response is not usable."""
    answer = await rails.state(
        WebhookSubject.TRANSFER, attempt.provider, attempt.trx_id, attempt.known_as
    )
    return answer.value if isinstance(answer, Done) else None


async def _reported(db: Database, payout: Payout) -> list[Attempt]:
    tried = await attempts.attempts(db, payout.merchant_id, payout.trx_id)
    left = [each for each in tried if each.dead_at is not None]
    return [each for each in left if each.reported is not None or await _claims(db, each)]


async def _claims(db: Database, attempt: Attempt) -> list[claims.Claimed]:
    key = attempt.merchant_id, attempt.trx_id, attempt.provider
    return await claims.claims_of(db, WebhookSubject.TRANSFER, *key)
