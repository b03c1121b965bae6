"""What providers answer to status queries, and queries that a user starts.

The queries of users do not change data.
"""

from datetime import UTC, datetime

import msgspec

from manilla.kit.money import Money
from manilla.providers.port import (
    Answer,
    ChargeState,
    Done,
    RefundState,
    Refused,
    TransferState,
    Unknown,
    WebhookSubject,
)
from manilla.providers.rails import Rails

NO_ANSWER = "no_answer"


class StatusQuery(msgspec.Struct, frozen=True):
    provider: str
    kind: WebhookSubject
    reference: str


class StatusAnswer(msgspec.Struct, frozen=True):
    at: datetime
    status: str | None  # None if there was no usable response
    amount: Money | None = None
    detail: str = ""


def reported_status(
    answer: Answer[ChargeState] | Answer[TransferState] | Answer[RefundState],
) -> str:
    """Returns the reported status, or NO_ANSWER if there was no usable response."""
    return answer.value.status.value if isinstance(answer, Done) else NO_ANSWER


async def ask(rails: Rails, question: StatusQuery) -> StatusAnswer:
    answer = await rails.state(question.kind, question.provider, question.reference)
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
