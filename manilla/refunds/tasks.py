"""Jobs that send refunds to the provider and query their status until it is final."""

from datetime import UTC, datetime, timedelta

from manilla.cases.cases import CaseKind
from manilla.job_kinds import JobKind
from manilla.kit.db import Database
from manilla.kit.jobs import Job, Work
from manilla.ledger.transactions import Scenario
from manilla.merchants import outgoing
from manilla.providers.port import (
    Adapter,
    KnownAs,
    RefundOrder,
    RefundState,
    RefusalCode,
    Refused,
    Unknown,
)
from manilla.providers.rails import Rails
from manilla.providers.schedule import Schedule
from manilla.refunds import decisions, returns, states, store
from manilla.refunds.refund import SEND, Refund
from manilla.transfers import reports, sending
from manilla.transfers.events import (
    ProviderAnswer,
    ProviderState,
    SettlementEvent,
    Source,
    TransferEvent,
)
from manilla.transfers.machine import Send, TransferMachine
from manilla.transfers.sending import REFUNDS

# A case is opened for a refund that stays open longer, and an administrator must decide it. Its
# status is still queried.
SCHEDULE = Schedule(((timedelta(hours=1), 20), (timedelta(days=3), 900)))


# How long a refund that was paid from our bank is still queried at its provider.
WATCHED = timedelta(days=7)
WATCH_SECONDS = 3600.0


class RefundTasks:
    def __init__(self, db: Database, rails: Rails) -> None:
        self._db = db
        self.machine = TransferMachine(db, rails, self, REFUNDS, SCHEDULE)

    def works(self) -> dict[str, Work]:
        return {
            SEND: Work(self.advance, concurrency=8),
            JobKind.RETURN: Work(self.start_return, concurrency=8),
        }

    async def start_return(self, job: Job) -> float | None:
        return await returns.start(self._db, job)

    async def advance(self, job: Job) -> float | None:
        refund = await self.find(job)
        if refund is not None and refund.provider is None:
            return await self._complete_in_sandbox(refund)
        return await self.machine.advance(job)

    async def _complete_in_sandbox(self, refund: Refund) -> float | None:
        if await decisions.hold_of(self._db, refund) is not None:
            return outgoing.WAIT_SECONDS
        event = SettlementEvent(TransferEvent.DELIVERED, Source.SANDBOX)
        if refund.scenario is Scenario.FAILED:
            guidance = "The sandbox was instructed to fail this refund."
            event = SettlementEvent(TransferEvent.FAILED, Source.SANDBOX, guidance=guidance)
        await self.settle(refund, event)
        return None

    async def find(self, job: Job) -> Refund | None:
        return await store.refund(self._db, job.merchant_id, job.subject)

    async def known_as(self, refund: Refund) -> KnownAs:
        return await store.known_as(self._db, refund)

    def prepare(self, adapter: Adapter, refund: Refund, reference: str) -> Send:
        del reference  # providers that accept a reference take our transaction id unchanged
        assert refund.charge_reference is not None
        order = RefundOrder(
            reference=refund.trx_id,
            charge_reference=refund.charge_reference,
            amount=refund.amount,
            reason=refund.reason,
        )
        return lambda: adapter.refund(order)

    async def accept(self, refund: Refund, state: ProviderState) -> None:
        assert isinstance(state, RefundState)
        if state.provider_reference is not None:
            await store.save_provider_reference(self._db, refund, state.provider_reference)

    async def settle(
        self, refund: Refund, event: SettlementEvent, *, holder: Job | None = None
    ) -> bool:
        if event.error_code is RefusalCode.NOT_SUPPORTED:
            # The provider has no such call, so nothing was sent.
            await self.leave_to_administrator(refund, event.guidance or "")
            if holder is not None:
                await sending.unmark(self._db, REFUNDS, holder)
            return False
        return await states.settle(self._db, refund, event, holder=holder)

    async def move(
        self, refund: Refund, answer: Refused | Unknown, job: Job, *, was_sent: bool
    ) -> bool:
        return False  # only the provider that was paid can refund

    async def check_left(self, refund: Refund) -> bool:
        return True  # a refund stays with its provider

    async def may_be_elsewhere(self, refund: Refund) -> bool:
        return False

    def watch_seconds(self, refund: Refund) -> float | None:
        """A refund that was paid from our bank is queried for days: the provider may pay it too."""
        decided_at = refund.updated_at or datetime.now(UTC)
        is_watched = refund.by_operator and datetime.now(UTC) - decided_at < WATCHED
        return WATCH_SECONDS if is_watched else None

    async def report_overdue(self, refund: Refund, answer: ProviderAnswer) -> None:
        kind, reason = CaseKind.STILL_OPEN, "the provider still reports it as open"
        if isinstance(answer, Unknown):
            kind = CaseKind.NO_ANSWER
            reason = f"the provider has given no usable answer: {answer.reason}"
        detail = f"After three days {reason}."
        await self.leave_to_administrator(refund, detail)
        await reports.report(self._db, refund, kind, detail)

    async def leave_to_administrator(self, refund: Refund, detail: str) -> None:
        if not refund.by_operator:
            key = refund.merchant_id, refund.trx_id
            await store.leave_to_administrator(self._db, *key, detail)
