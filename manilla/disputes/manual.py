"""What an administrator does: record disputes, review answers, and send them manually.

Some providers have no API for disputes. An administrator records what the provider shows, and sends
the merchants' answers there.
"""

from datetime import UTC, datetime

import msgspec

from manilla.disputes import states, store
from manilla.disputes.dispute import AnswerState, Dispute, DisputeEvent
from manilla.disputes.service import ready_state
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.kit.texts import is_line
from manilla.platform.settings import PlatformSettings
from manilla.providers.port import DisputeState
from manilla.providers.rails import Rails

NOTE_LENGTH_MAX = 200


class RecordRefused(Refusal):
    status, code = 422, "REFUSED"
    message = "The dispute cannot be recorded."


class NothingToRelease(Refusal):
    status, code = 409, "DECIDED_MEANWHILE"
    message = "The answer does not wait for an administrator any more."


class BadDecisionNote(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = f"A note has 1 to {NOTE_LENGTH_MAX} printable characters."


async def record(
    db: Database, settings: PlatformSettings, provider: str, state: DisputeState, note: str
) -> Dispute:
    """Opens or changes a dispute as the provider shows it to the administrator."""
    _check(note)
    reported = await states.report(db, settings, provider, state, note=note)
    if reported.dispute is None:
        raise RecordRefused(reported.problem)
    return reported.dispute


async def release(
    db: Database, rails: Rails, settings: PlatformSettings, dispute: Dispute, note: str
) -> Dispute:
    """Approves a reviewed answer, or records that it was sent at the provider manually."""
    _check(note)
    async with states.changing(db, settings, dispute) as (change, current):
        if current.answer is AnswerState.REVIEW:
            answer = ready_state(rails, current)
        elif current.answer is AnswerState.MANUAL:
            answer = AnswerState.SENT
        else:
            raise NothingToRelease
        after = msgspec.structs.replace(current, answer=answer)
        if answer is AnswerState.SENT:
            # A report that was requested before does not know the answer.
            after = msgspec.structs.replace(after, reported_at=datetime.now(UTC))
        after = await change.write(current, after, DisputeEvent.UPDATED, f"answer {answer}")
        await states.record(change.connection, "dispute.release", after, answer=answer, note=note)
    return after


async def return_to_merchant(
    db: Database, settings: PlatformSettings, dispute: Dispute, note: str
) -> Dispute:
    """Returns an unsent answer to the merchant, who sees the note and can change the evidence."""
    _check(note)
    async with states.changing(db, settings, dispute) as (change, current):
        if current.answer not in (AnswerState.REVIEW, AnswerState.MANUAL):
            raise NothingToRelease
        after = await change.reject(current, note)
        await states.record(change.connection, "dispute.return", after, note=note)
    return after


async def find(db: Database, trx_id: str) -> Dispute:
    return await store.by_id(db, trx_id)


def _check(note: str) -> None:
    if not is_line(note, NOTE_LENGTH_MAX):
        raise BadDecisionNote
