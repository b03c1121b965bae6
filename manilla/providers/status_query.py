"""Status queries that a user requests. They change nothing."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from manilla.kit.money import Money
from manilla.providers.port import (
    Adapter,
    Answer,
    ChargeState,
    Done,
    EventKind,
    RefundState,
    Refused,
    TransferState,
    Unknown,
)
from manilla.providers.rails import Rails


class StatusQuery(msgspec.Struct, frozen=True):
    provider: str
    kind: EventKind
    reference: str


class StatusAnswer(msgspec.Struct, frozen=True):
    at: datetime
    status: str | None  # None if there was no usable answer
    amount: Money | None = None
    detail: str = ""


async def ask(rails: Rails, question: StatusQuery) -> StatusAnswer:
    adapter = rails.adapter(question.provider)
    if adapter is None:
        return StatusAnswer(datetime.now(UTC), None, detail="The provider is not configured.")
    answer = await _state(adapter, question)
    match answer:
        case Done(TransferState() as state):
            return StatusAnswer(datetime.now(UTC), state.status, state.amount, state.message)
        case Done(ChargeState() as state):
            return StatusAnswer(datetime.now(UTC), state.status, state.paid, state.reason)
        case Done(RefundState() as state):
            return StatusAnswer(datetime.now(UTC), state.status)
        case Refused(_, reason) | Unknown(reason):
            return StatusAnswer(datetime.now(UTC), None, detail=reason)
    raise AssertionError(answer)


async def _state(adapter: Adapter, question: StatusQuery) -> Answer[Any]:
    match question.kind:
        case EventKind.TRANSFER:
            return await adapter.transfer_state(question.reference)
        case EventKind.CHARGE:
            return await adapter.charge_state(question.reference)
        case EventKind.REFUND:
            return await adapter.refund_state(question.reference)
