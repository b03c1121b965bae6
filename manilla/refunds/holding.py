"""Refunds while all payouts are on hold: the provider is queried before anything is sent again."""

from datetime import datetime

import msgspec

from manilla.kit.db import Database
from manilla.providers.port import Done, RefundStatus
from manilla.providers.rails import Rails
from manilla.refunds import queries
from manilla.refunds.refund import Refund
from manilla.refunds.tasks import CAN_BE_ASKED

CANNOT_BE_ASKED = (
    "It was on hold and may have been sent; its provider has no status query for refunds."
)


class FoundRefund(msgspec.Struct, frozen=True):
    refund: Refund
    said: str


async def look(db: Database, rails: Rails, since: datetime) -> list[FoundRefund]:
    """Queries refunds from before the hold that are not marked as sent.

    Those that the provider knows are marked as sent. Providers without a status query for refunds
    cannot be asked, so their refunds are left to an administrator.
    """
    return [
        FoundRefund(refund, await _look_at(db, rails, refund))
        for refund in await queries.unsent(db, since)
    ]


async def _look_at(db: Database, rails: Rails, refund: Refund) -> str:
    provider = refund.provider or ""
    adapter = rails.adapter(provider)
    if provider not in CAN_BE_ASKED:
        await queries.leave_to_operator(db, refund, CANNOT_BE_ASKED)
        await queries.note_sent(db, refund)
        return "left to an administrator"
    answer = await adapter.refund_state(refund.trx_id) if adapter else None
    if not isinstance(answer, Done):
        # From now on its status is queried, and it is sent only if the provider says that it does
        # not know it.
        await queries.note_sent(db, refund)
        return "no usable answer"
    if answer.value.status is not RefundStatus.NOT_FOUND:
        await queries.note_sent(db, refund)
    return answer.value.status
