"""Refunds held, as payouts are: asked about before anything is sent again."""

from datetime import datetime

import msgspec

from manilla.kit.db import Database
from manilla.payments import refund_queries
from manilla.payments.refund_queries import Refund
from manilla.payments.refund_tasks import CAN_BE_ASKED
from manilla.providers.port import Done, Provider, RefundStatus
from manilla.providers.rails import Rails

CANNOT_BE_ASKED = "Held before it was sent by our books, and its provider cannot be asked."


class FoundRefund(msgspec.Struct, frozen=True):
    refund: Refund
    said: str


async def look(db: Database, rails: Rails, since: datetime) -> list[FoundRefund]:
    """Unsent by our books and older than the hold: noted as sent where the provider knows it.

    Whether C has one already, nobody can ask: such a refund is a person's.
    """
    return [
        FoundRefund(refund, await _look_at(db, rails, refund))
        for refund in await refund_queries.unsent(db, since)
    ]


async def _look_at(db: Database, rails: Rails, refund: Refund) -> str:
    provider = Provider(refund.provider or "")
    adapter = rails.adapter(provider)
    if provider not in CAN_BE_ASKED:
        await refund_queries.leave_to_operator(db, refund, CANNOT_BE_ASKED)
        await refund_queries.note_sent(db, refund)
        return "left to an operator"
    answer = await adapter.refund_state(refund.trx_id) if adapter else None
    if not isinstance(answer, Done):
        # Asked about from now on, and sent only once the provider says that it knows nothing of it.
        await refund_queries.note_sent(db, refund)
        return "no usable answer"
    if answer.value.status is not RefundStatus.NOT_FOUND:
        await refund_queries.note_sent(db, refund)
    return answer.value.status
