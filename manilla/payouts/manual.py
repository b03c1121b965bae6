"""Decisions of administrators on manual payouts and on stuck automatic ones."""

from collections.abc import Iterable

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.kit import jobs
from manilla.kit.db import Database
from manilla.kit.errors import Refusal
from manilla.kit.texts import is_line
from manilla.ledger import trx_ids
from manilla.merchants import outgoing
from manilla.merchants.outgoing import OutgoingHold
from manilla.payouts import queries, states
from manilla.payouts.initiate import SEND
from manilla.payouts.payout import Payout, PayoutErrorCode, PayoutStatus
from manilla.payouts.states import ADMINISTRATOR, Event, News

TEXT_LENGTH_MAX = 200


class PayoutNotFound(Refusal):
    status, code = 404, "TRANSACTION_NOT_FOUND"
    message = "There is no such payout."


class NotToDecide(Refusal):
    message = "An administrator cannot decide this payout."


class OnHold(NotToDecide):
    code = "PAYOUT_ON_HOLD"
    message = "The payout is on hold: do not pay it."


async def find(db: Database, trx_id: str) -> Payout:
    merchant_id = trx_ids.merchant_of(trx_id)
    payout = None if merchant_id is None else await queries.payout(db, merchant_id, trx_id)
    if payout is None:
        raise PayoutNotFound(f"There is no payout {trx_id}.")
    return payout


async def complete(
    db: Database, trx_id: str, bank_reference: str | None, *, already_paid: bool = False
) -> Payout:
    """Records that the administrator has paid it.

    `already_paid`: the administrator paid before seeing the hold. This must be recorded even during
    a hold, or a later rejection would refund money that was already paid out.
    """
    if bank_reference is not None:
        check_text(bank_reference, "A bank reference")
    payout = await find(db, trx_id)
    hold = await hold_of(db, payout)
    if payout.is_manual and hold is not None and not already_paid:
        raise OnHold(
            f"{hold.text} Do not pay this payout: wait, or reject it. "
            "If you have paid it already, confirm that."
        )
    news = News(Event.DELIVERED, ADMINISTRATOR, bank_reference=bank_reference)
    return await _decide(db, payout, news, may_decide=payout.is_manual)


async def reject(db: Database, trx_id: str, reason: str) -> Payout:
    """Rejects the payout and refunds the wallet."""
    check_text(reason, "A reason")
    payout = await find(db, trx_id)
    is_held_in_sandbox = payout.is_sandbox and await hold_of(db, payout) is not None
    news = News(Event.REJECTED, ADMINISTRATOR, PayoutErrorCode.PAYOUT_FAILED, reason)
    return await _decide(db, payout, news, may_decide=payout.is_manual or is_held_in_sandbox)


async def hold_of(db: Database, payout: Payout) -> OutgoingHold | None:
    """Returns why an unsent payout is on hold; None if it is not on hold, or was sent."""
    if payout.status is not PayoutStatus.PENDING or payout.began_at is not None:
        return None
    return await outgoing.hold(db, payout.merchant_id, payout.environment)


async def holds_of(db: Database, payouts: Iterable[Payout]) -> dict[str, OutgoingHold]:
    """Does the same for several payouts; the keys are their transaction ids."""
    unsent = [
        each for each in payouts if each.status is PayoutStatus.PENDING and each.began_at is None
    ]
    holds = await outgoing.holds(db, {(each.merchant_id, each.environment) for each in unsent})
    found = {each.trx_id: holds.get((each.merchant_id, each.environment)) for each in unsent}
    return {trx_id: hold for trx_id, hold in found.items() if hold is not None}


async def requeue(db: Database, trx_id: str) -> Payout:
    """Makes the job of an open automatic payout due now, even if the job has failed."""
    payout = await find(db, trx_id)
    if payout.status is not PayoutStatus.PENDING:
        raise NotToDecide(f"The payout is {payout.status} already.")
    if payout.is_manual or payout.is_sandbox:
        raise NotToDecide("Only automatic payouts in production can be requeued.")
    async with db.transaction() as connection:
        await jobs.put(connection, payout.merchant_id, SEND, payout.trx_id)
        await audit.record(
            connection,
            "payout.requeue",
            f"payout:{payout.trx_id}",
            merchant_id=payout.merchant_id,
        )
    return payout


async def decision(db: Database, payout: Payout) -> str | None:
    """Returns a sentence that says who decided and how; None if no administrator has."""
    about = AuditFilter(
        action="payout", merchant_id=payout.merchant_id, subject=f"payout:{payout.trx_id}"
    )
    for line in await audit.listed(db, about):
        match line.action:
            case "payout.complete":
                reference = line.detail.get("bank_reference")
                under = f", bank reference {reference}" if reference else ""
                return f"{line.actor_name} has paid it{under}."
            case "payout.reject":
                return f"{line.actor_name} has rejected it: {line.detail.get('reason')}"
    return None


async def _decide(db: Database, payout: Payout, news: News, *, may_decide: bool) -> Payout:
    if not may_decide:
        raise NotToDecide("The provider decides the outcome of this payout.")
    if payout.status is not PayoutStatus.PENDING:
        raise NotToDecide(f"The payout is {payout.status} already.")
    if not await states.settle(db, payout.merchant_id, payout.trx_id, news):
        # Another administrator decided a moment earlier.
        raise NotToDecide(f"The payout is {(await find(db, payout.trx_id)).status} already.")
    return await find(db, payout.trx_id)


def check_text(text: str, what: str) -> None:
    if not is_line(text, TEXT_LENGTH_MAX):
        raise NotToDecide(f"{what} must have 1 to {TEXT_LENGTH_MAX} printable characters.")
