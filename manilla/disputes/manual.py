"""What an administrator does: record disputes, review answers, and send them manually.

Some providers have no API for disputes. An administrator records what the provider shows, and sends
the merchants' answers there.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Self

import msgspec

from manilla.audit import audit
from manilla.disputes import states, store
from manilla.disputes.dispute import AnswerState, Dispute, DisputeEvent, DisputeStatus
from manilla.disputes.service import ready_state
from manilla.disputes.target import find_target
from manilla.kit.database.connections import Connection, Database, transaction_of
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.kit.texts import is_line
from manilla.platform.settings import PlatformSettings
from manilla.providers.port import DisputeState
from manilla.providers.rails import Rails

NOTE_LENGTH_MAX = 200


class RecordRefused(Refusal):
    status, code = 422, "REFUSED"
    message = "The dispute cannot be recorded."


class DisputeChanged(Refusal):
    status, code = 409, "DISPUTE_CHANGED"
    message = "The dispute has changed in the meantime. Look it up again, and record it again."


class NothingToRelease(Refusal):
    status, code = 409, "DECIDED_MEANWHILE"
    message = "The answer does not wait for an administrator any more."


class BadDecisionNote(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = f"A note has 1 to {NOTE_LENGTH_MAX} printable characters."


class RecordEffect(msgspec.Struct, frozen=True, kw_only=True):
    """What a record changes: the dispute, and the money of all disputes of its payment.

    If a dispute releases money, the payment's other disputes can withhold or take it.
    """

    merchant_id: int
    environment: Environment
    payment_trx_id: str
    trx_id: str | None  # None if the record opens the dispute
    reported_at: datetime | None  # of the latest report before
    status_before: DisputeStatus | None
    status: DisputeStatus
    disputed_before: Money | None
    disputed: Money
    released: Money  # to the wallet
    taken: Money  # by the provider. Negative if the provider returns it.
    fee: Money
    commission: Money  # returned to the wallet

    @classmethod
    def of(cls, before: Sequence[Dispute], after: Sequence[Dispute], recorded: Dispute) -> Self:
        """Compares the payment's disputes before and after the record."""
        known = next((each for each in before if each.trx_id == recorded.trx_id), None)

        def change(minor: Callable[[Dispute], int]) -> Money:
            was, is_now = (sum(minor(row) for row in rows) for rows in (before, after))
            return Money(recorded.currency, is_now - was)

        taken = change(lambda row: row.taken_minor)
        withheld = change(lambda row: row.withheld_minor)
        return cls(
            merchant_id=recorded.merchant_id,
            environment=recorded.environment,
            payment_trx_id=recorded.payment_trx_id,
            trx_id=None if known is None else known.trx_id,
            reported_at=None if known is None else known.reported_at,
            status_before=None if known is None else known.status,
            status=recorded.status,
            disputed_before=None if known is None else known.amount,
            disputed=recorded.amount,
            released=Money(recorded.currency, max(0, -withheld.minor - taken.minor)),
            taken=taken,
            fee=change(lambda row: row.fee.minor),
            commission=change(lambda row: row.commission_minor),
        )

    @property
    def amount(self) -> Money:
        """What is released, taken or returned. Money that is only withheld does not count."""
        minor = max(self.released.minor + max(0, self.taken.minor), -self.taken.minor)
        minor += abs(self.fee.minor) + abs(self.commission.minor)
        return Money(self.disputed.currency, minor)

    def check(self, seen: Self) -> None:
        """Raises an error unless the record changes what the administrator has seen.

        A newer report of the provider also raises the error. An answer of the merchant does not.
        """
        if msgspec.structs.replace(self, status_before=seen.status_before) != seen:
            raise DisputeChanged


class _RollBackError(Exception):
    pass


async def preview(
    db: Database | Connection,
    settings: PlatformSettings,
    provider: str,
    state: DisputeState,
    note: str,
) -> RecordEffect:
    """Returns what `record` would change now. It records the dispute, and rolls back."""
    _check(note)
    effect = None
    try:
        async with transaction_of(db) as connection:
            _, effect = await _report(connection, settings, provider, state)
            raise _RollBackError
    except _RollBackError:
        assert effect is not None
        return effect


async def record(
    db: Database | Connection,
    settings: PlatformSettings,
    provider: str,
    state: DisputeState,
    note: str,
    *,
    seen: RecordEffect,
) -> Dispute:
    """Opens or changes a dispute as the provider shows it to the administrator.

    `seen` is the effect that `preview` returned. If the effect has changed, nothing is recorded.
    """
    _check(note)
    async with transaction_of(db) as connection:
        dispute, effect = await _report(connection, settings, provider, state)
        effect.check(seen)
        await audit.record(
            connection,
            "dispute.record",
            f"dispute:{dispute.trx_id}",
            merchant_id=dispute.merchant_id,
            payment=dispute.payment_trx_id,
            environment=dispute.environment,
            status=state.status,
            disputed=dispute.amount,
            amount=effect.amount if effect.amount.minor else None,
            note=note,
        )
    return dispute


async def _report(
    connection: Connection, settings: PlatformSettings, provider: str, state: DisputeState
) -> tuple[Dispute, RecordEffect]:
    target = await find_target(connection, provider, state)
    locked = await target.lock(connection)
    problem = target.problem(locked, state)
    if problem is not None:
        raise RecordRefused(problem)
    payment = target.merchant_id, target.payment_trx_id
    before = await store.disputes_of(connection, *payment)
    reported = await states.report(connection, settings, provider, state)
    if reported.dispute is None:
        raise RecordRefused(reported.problem)
    after = await store.disputes_of(connection, *payment)
    return reported.dispute, RecordEffect.of(before, after, reported.dispute)


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
