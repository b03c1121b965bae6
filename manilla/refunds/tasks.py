"""Jobs that send refunds to the provider and query their status until it is final."""

from datetime import UTC, datetime, timedelta

from manilla.cases.cases import CaseKind
from manilla.job_kinds import JobKind
from manilla.kit.database.connections import Database
from manilla.kit.jobs import Job, Work
from manilla.ledger.transactions import Scenario
from manilla.merchants import outgoing
from manilla.providers.claims import ClaimReader
from manilla.providers.port import (
    RefundOrder,
    RefundState,
    RefusalCode,
    Refused,
    Unknown,
    WebhookSubject,
)
from manilla.providers.rails import Rails, Schedule
from manilla.refunds import decisions, returns, states, store
from manilla.refunds.refund import SEND, Refund
from manilla.transfers import reports, sending
from manilla.transfers.events import (
    ProviderAnswer,
    ProviderState,
    Source,
    TransferEvent,
    TransferResult,
    event_of,
    rejection,
)
from manilla.transfers.machine import (
    AlreadyEnded,
    FinalStatus,
    NoStatusQuery,
    ProviderAccepted,
    Step,
    TransferMachine,
    TransferTask,
    Wait,
    WillNotPay,
)
from manilla.transfers.sending import REFUNDS

# After the last step, a case is opened for a refund that is still open.
# The case asks an administrator to decide on the refund. Status queries continue.
SCHEDULE = Schedule(((timedelta(hours=1), 20), (timedelta(days=3), 900)))
CONCURRENCY = 32

# How long we query the provider about a refund that an administrator paid from our bank.
WATCHED = timedelta(days=7)
WATCH_SECONDS = 3600.0


class RefundTasks:
    def __init__(self, db: Database, rails: Rails, claims: ClaimReader) -> None:
        self._db = db
        self.machine = TransferMachine(db, rails, claims, REFUNDS, SCHEDULE, CONCURRENCY)

    def job_handlers(self) -> dict[str, Work]:
        return {
            SEND: Work(self.advance, concurrency=CONCURRENCY),
            JobKind.RETURN: Work(self.start_return, concurrency=8),
        }

    async def start_return(self, job: Job) -> float | None:
        return await returns.start(self._db, job)

    async def advance(self, job: Job) -> float | None:
        """Performs the refund's next step: sends the refund, or queries its status."""
        refund = await store.refund(self._db, job.merchant_id, job.subject)
        if refund is None:
            await reports.report_unknown(self._db, WebhookSubject.REFUND, job)
            return None
        if refund.provider is None:
            return await self._complete_in_sandbox(refund)
        known = await store.known_as(self._db, refund)
        task = TransferTask(job, refund, await _order(self._db, refund), known)
        return await self._apply(refund, await self.machine.advance(task), job)

    async def _apply(self, refund: Refund, step: Step, job: Job) -> float | None:
        """Applies the step that the machine has returned. The machine ends no refund itself."""
        match step:
            case FinalStatus(state):
                return await self._apply_status(refund, state, job)
            case WillNotPay(answer):
                return await self._after_rejection(refund, answer, job)
            case ProviderAccepted(state):
                assert isinstance(state, RefundState)
                if state.provider_reference is not None:
                    await store.save_provider_reference(self._db, refund, state.provider_reference)
                await reports.report_needed_action(self._db, refund, state)
                return SCHEDULE.first_seconds
            case AlreadyEnded():
                await states.report_contradicting_webhook(self._db, refund)
                return _watch_seconds(refund)
            case NoStatusQuery(detail):
                await states.report_contradicting_webhook(self._db, refund)
                await self._leave_to_administrator(refund, detail)
            case Wait(seconds, overdue):
                if overdue is not None:
                    await self._report_overdue(refund, overdue)
                return seconds
        return None

    async def _apply_status(self, refund: Refund, state: ProviderState, job: Job) -> float | None:
        """Ends the refund with the final status that its provider reports, or waits."""
        wait = await self.machine.report_other_amounts(refund, state, job)
        if wait is not None:
            return await self._apply(refund, wait, job)
        is_changed = await states.apply_result(self._db, refund, event_of(state))
        # An open refund's failure may be doubtful, or the refund has ended in the meantime.
        return SCHEDULE.first_seconds if refund.is_open and not is_changed else None

    async def _after_rejection(
        self, refund: Refund, answer: Refused | Unknown, job: Job
    ) -> float | None:
        match answer:
            case Refused(RefusalCode.NOT_SUPPORTED, guidance):
                # The provider has no API for refunds, so nothing was sent.
                await self._leave_to_administrator(refund, guidance)
                await sending.unmark(self._db, REFUNDS, job)
            case Refused():
                await states.apply_result(self._db, refund, rejection(answer), holder=job)
            case Unknown():
                await sending.unmark(self._db, REFUNDS, job)
                return SCHEDULE.first_seconds
        return 0  # query the provider now if a signed webhook contradicts the rejection

    async def _complete_in_sandbox(self, refund: Refund) -> float | None:
        if await decisions.hold_of(self._db, refund) is not None:
            return outgoing.WAIT_SECONDS
        event = TransferResult(TransferEvent.DELIVERED, Source.SANDBOX)
        if refund.scenario is Scenario.FAILED:
            guidance = "The sandbox was instructed to fail this refund."
            event = TransferResult(TransferEvent.FAILED, Source.SANDBOX, guidance=guidance)
        await states.apply_result(self._db, refund, event)
        return None

    async def _report_overdue(self, refund: Refund, answer: ProviderAnswer) -> None:
        kind, reason = CaseKind.STILL_OPEN, "the provider still reports it as open"
        if isinstance(answer, Unknown):
            kind = CaseKind.NO_ANSWER
            reason = f"the provider has given no usable answer: {answer.reason}"
        detail = f"After three days {reason}."
        await self._leave_to_administrator(refund, detail)
        await reports.report(self._db, refund, kind, detail)

    async def _leave_to_administrator(self, refund: Refund, detail: str) -> None:
        if not refund.by_operator:
            key = refund.merchant_id, refund.trx_id
            await store.leave_to_administrator(self._db, *key, detail)


async def _order(db: Database, refund: Refund) -> RefundOrder:
    charge_reference = await store.charge_at_provider(db, refund)
    assert charge_reference is not None
    return RefundOrder(
        reference=refund.trx_id,
        charge_reference=charge_reference,
        amount=refund.amount,
        reason=refund.reason,
    )


def _watch_seconds(refund: Refund) -> float | None:
    """Returns when to query a refund that our bank has paid. The provider may still pay it too."""
    decided_at = refund.updated_at or datetime.now(UTC)
    is_watched = refund.by_operator and datetime.now(UTC) - decided_at < WATCHED
    return WATCH_SECONDS if is_watched else None
