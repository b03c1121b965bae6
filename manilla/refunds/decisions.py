"""Administrators' decisions on refunds that were left to them, or that are on hold."""

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.kit.db import Database
from manilla.kit.errors import Refusal
from manilla.kit.texts import is_line
from manilla.ledger import trx_ids
from manilla.merchants import outgoing
from manilla.merchants.outgoing import OutgoingHold
from manilla.refunds import states, store
from manilla.refunds.books import RefundRefused
from manilla.refunds.refund import REASON_LENGTH_MAX, Refund, RefundStatus
from manilla.transfers.events import SettlementEvent, Source, TransferEvent

# Excludes the hold on all payouts after a restore, because the database may then be older than a
# send.
REJECTED_WHILE = frozenset(OutgoingHold) - {OutgoingHold.PAYOUTS_HELD}


class RefundNotFound(Refusal):
    status, code = 404, "TRANSACTION_NOT_FOUND"
    message = "There is no such refund."


async def find(db: Database, trx_id: str) -> Refund:
    merchant_id = trx_ids.merchant_of(trx_id)
    refund = None if merchant_id is None else await store.refund(db, merchant_id, trx_id)
    if refund is None:
        raise RefundNotFound(f"There is no refund {trx_id}.")
    return refund


async def decide(db: Database, trx_id: str, *, is_paid: bool, detail: str) -> Refund:
    """Records an administrator's decision: the refund was paid from our bank, or is rejected."""
    if not is_line(detail, REASON_LENGTH_MAX):
        raise RefundRefused(f"A note must have 1 to {REASON_LENGTH_MAX} printable characters.")
    refund = await find(db, trx_id)
    can_be_rejected = not is_paid and await hold_of(db, refund) in REJECTED_WHILE
    if not (refund.by_operator or can_be_rejected):
        raise RefundRefused(f"The refund is {refund.status}. The provider decides its outcome.")
    event = SettlementEvent(
        TransferEvent.DELIVERED if is_paid else TransferEvent.REJECTED,
        Source.ADMINISTRATOR,
        guidance=detail,
    )
    only_unsent = not refund.by_operator
    is_decided = await states.settle(db, refund, event, only_unsent=only_unsent)
    current = await find(db, trx_id)
    if not is_decided:
        state = "sent" if current.status is RefundStatus.PENDING else current.status
        raise RefundRefused(f"The refund is {state} already.")
    return current


async def decision(db: Database, refund: Refund) -> str | None:
    """Returns a sentence that says who decided and how; None if no administrator decided."""
    about = AuditFilter(
        action="refund", merchant_id=refund.merchant_id, subject=f"refund:{refund.trx_id}"
    )
    words = {"refund.confirm": "has paid it", "refund.reject": "has rejected it"}
    for line in await audit.listed(db, about):
        if line.action in words:
            return f"{line.actor_name} {words[line.action]}: {line.detail.get('reason')}"
    return None


async def hold_of(db: Database, refund: Refund) -> OutgoingHold | None:
    """Returns why an unsent refund is on hold; None if it is not on hold, or was sent."""
    is_open = refund.status is RefundStatus.PENDING and not refund.by_operator
    if not is_open or refund.sent_at is not None:
        return None
    return await outgoing.hold(
        db, refund.merchant_id, refund.environment, on_behalf=refund.on_behalf
    )
