"""What a person decides about payouts: those processed by hand, and those that got stuck."""

from manilla.audit import audit
from manilla.audit.audit import Filters
from manilla.kit import ids, jobs
from manilla.kit.db import Database
from manilla.kit.errors import Refusal
from manilla.kit.texts import is_line
from manilla.payouts import queries, states
from manilla.payouts.initiate import SEND
from manilla.payouts.payout import Code, Payout, Status
from manilla.payouts.states import ADMINISTRATOR, Event, News

TEXT_LENGTH_MAX = 200


class PayoutNotFound(Refusal):
    status, code = 404, "TRANSACTION_NOT_FOUND"
    message = "There is no such payout."


class NotToDecide(Refusal):
    message = "This payout is not an administrator's to decide."


async def find(db: Database, trx_id: str) -> Payout:
    merchant_id = ids.merchant_of(trx_id)
    payout = None if merchant_id is None else await queries.payout(db, merchant_id, trx_id)
    if payout is None:
        raise PayoutNotFound(f"There is no payout {trx_id}.")
    return payout


async def complete(db: Database, trx_id: str, bank_reference: str | None) -> Payout:
    """The administrator has paid it."""
    if bank_reference is not None:
        check_text(bank_reference, "A bank reference")
    news = News(Event.DELIVERED, ADMINISTRATOR, bank_reference=bank_reference)
    return await _decide(db, trx_id, news)


async def reject(db: Database, trx_id: str, reason: str) -> Payout:
    """It will not be paid; the wallet gets its money back."""
    check_text(reason, "A reason")
    news = News(Event.REJECTED, ADMINISTRATOR, Code.PAYOUT_FAILED, reason)
    return await _decide(db, trx_id, news)


async def requeue(db: Database, trx_id: str) -> Payout:
    """Works on an open automatic payout at once, also where its job was parked."""
    payout = await find(db, trx_id)
    if payout.status is not Status.PENDING:
        raise NotToDecide(f"The payout is {payout.status} already.")
    if payout.is_manual or payout.is_sandbox:
        raise NotToDecide("Only an automatic payout in production is sent by a job.")
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
    """Who has decided it, and how, in words; None where no person has."""
    about = Filters(
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


async def _decide(db: Database, trx_id: str, news: News) -> Payout:
    payout = await find(db, trx_id)
    if not payout.is_manual:
        raise NotToDecide("The payout went to a provider: its word decides, not ours.")
    if payout.status is not Status.PENDING:
        raise NotToDecide(f"The payout is {payout.status} already.")
    if not await states.settle(db, payout.merchant_id, trx_id, news):
        # Somebody else was faster by a moment.
        raise NotToDecide(f"The payout is {(await find(db, trx_id)).status} already.")
    return await find(db, trx_id)


def check_text(text: str, what: str) -> None:
    if not is_line(text, TEXT_LENGTH_MAX):
        raise NotToDecide(f"{what} has 1 to {TEXT_LENGTH_MAX} printable characters.")
