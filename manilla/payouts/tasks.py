"""Jobs that send payouts and query their status until it is final."""

from datetime import timedelta
from functools import partial

from manilla.beneficiaries import sandbox
from manilla.cases.cases import CaseKind
from manilla.job_kinds import JobKind
from manilla.kit import jobs
from manilla.kit.batch import RESULT_DELAY_SECONDS, Batcher
from manilla.kit.database.connections import Database
from manilla.kit.jobs import Job, NextRun, RunEnd, Work
from manilla.ledger.transactions import Scenario
from manilla.merchants import outgoing
from manilla.payouts import left_rails, notices, states, store
from manilla.payouts.batch_delivery import DeliveredPayouts
from manilla.payouts.failover import Failover
from manilla.payouts.initiate import COMPLETE_IN_SANDBOX, SEND
from manilla.payouts.payout import Payout
from manilla.payouts.store import Accepted
from manilla.platform.settings import CurrentSettings
from manilla.providers.claims import ClaimReader
from manilla.providers.port import (
    Direction,
    RefusalCode,
    Refused,
    TransferOrder,
    TransferState,
    Unknown,
    WebhookSubject,
)
from manilla.providers.rails import Rails, Schedule
from manilla.routing.deliveries import Deliveries
from manilla.routing.outcomes import RailBank
from manilla.transfers import reports, sending
from manilla.transfers.events import (
    ProviderState,
    Source,
    TransferEvent,
    TransferResult,
    event_of,
    is_unsent,
    rejection,
)
from manilla.transfers.machine import (
    HELD_SECONDS,
    ON_HOLD,
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
from manilla.transfers.refusals import ProviderBusy
from manilla.transfers.sending import PAYOUTS

# After the last step, a case is opened for a payout that is still open. Status queries continue.
SCHEDULE = Schedule(
    (
        (timedelta(minutes=1), 5),
        (timedelta(minutes=10), 20),
        (timedelta(hours=1), 60),
        (timedelta(hours=24), 300),
    ),
    overdue_seconds=3600,
)
DAYS_OPEN_MAX = SCHEDULE.steps[-1][0].days
LEFT_RAIL_MAY_PAY = Unknown("a provider that rejected the transfer now reports that it has it")
NARRATION_LENGTH_MAX = 100
CONCURRENCY = 256


class PayoutTasks:
    def __init__(
        self,
        db: Database,
        platform: CurrentSettings,
        rails: Rails,
        failover: Failover,
        deliveries: Deliveries,
        claims: ClaimReader,
        delivered: DeliveredPayouts,
        base_url: str,
    ) -> None:
        self._db = db
        self._platform = platform
        self._rails = rails
        self._failover = failover
        self._deliveries = deliveries
        self._base_url = base_url
        self._find: Batcher[Job, Payout | None] = Batcher(partial(store.payouts_of, db))
        self._delivered = delivered
        self._accept: Batcher[Accepted, None] = Batcher(
            partial(store.accept, db), delay_seconds=RESULT_DELAY_SECONDS
        )
        self._index: Batcher[Payout, None] = Batcher(partial(store.index_references, db))
        self.machine = TransferMachine(
            db, rails, claims, PAYOUTS, SCHEDULE, CONCURRENCY, Direction.PAY_OUT
        )

    def job_handlers(self) -> dict[str, Work]:
        return {
            SEND: Work(self.advance, concurrency=CONCURRENCY, is_fair=True),
            COMPLETE_IN_SANDBOX: Work(self.complete_in_sandbox, concurrency=16),
            JobKind.LARGE_PAYOUT: Work(self.report_large, concurrency=4),
        }

    async def complete_in_sandbox(self, job: Job) -> float | None:
        payout = await self._find.submit(job)
        assert payout is not None
        if await outgoing.hold(self._db, payout.merchant_id, payout.environment) is not None:
            return outgoing.WAIT_SECONDS
        fails = payout.scenario == Scenario.FAILED or (
            payout.scenario is None and payout.beneficiary.get("account_number") == sandbox.FAILS
        )
        event = TransferResult(TransferEvent.DELIVERED, Source.SANDBOX)
        if fails:
            guidance = "The sandbox was instructed to fail this payout."
            event = TransferResult(
                TransferEvent.FAILED, Source.SANDBOX, RefusalCode.GATEWAY_PAYOUT_FAILED, guidance
            )
        await self.apply_result(payout, event)
        return None

    async def report_large(self, job: Job) -> None:
        """Queues emails about a large payout.

        Deletes the job in the same transaction, so no email is sent twice.
        """
        payout = await self._find.submit(job)
        assert payout is not None
        async with self._db.transaction() as connection:
            if await jobs.is_held(connection, job):
                await notices.report_large(connection, payout)
                await jobs.delete(connection, job.merchant_id, job.kind, job.subject)

    async def advance(self, job: Job) -> NextRun:
        """Performs the payout's next step: sends the payout, or queries its status."""
        payout = await self.find(job)
        if payout is None:
            await reports.report_unknown(self._db, WebhookSubject.TRANSFER, job)
            return None
        step: Step | None = await self._prepare(payout, job)
        if step is None:
            task = TransferTask(job, payout, self._order(payout), payout.known_as)
            step = await self.machine.advance(task)
        return await self._apply(payout, step, job)

    async def find(self, job: Job) -> Payout | None:
        """Returns the job's payout, or None if the payout is not sent by a provider."""
        payout = await self._find.submit(job)
        if payout is None or payout.is_manual or payout.is_sandbox:
            return None
        return payout

    async def _prepare(self, payout: Payout, job: Job) -> Wait | None:
        """Queries previous rails, and moves an unsent payout if its own rail is unavailable.

        Returns None if the payout can be sent or queried now.
        """
        may_be_paid = await left_rails.requery_reported(self._db, self._rails, payout)
        if not is_unsent(payout):
            return None
        if may_be_paid:
            return self.machine.wait(payout, LEFT_RAIL_MAY_PAY)
        obstacle = self.machine.obstacle(payout)
        try:
            if obstacle and await self._move(payout, obstacle, job, was_sent=False):
                return Wait(0)
        except ProviderBusy:
            return Wait(self.machine.slots.busy_seconds(payout.provider or ""))
        return None

    async def _apply(self, payout: Payout, step: Step, job: Job) -> NextRun:
        """Applies the step that the machine has returned. The machine ends no payout itself."""
        match step:
            case FinalStatus(state):
                return await self._apply_status(payout, state, job)
            case WillNotPay(answer):
                return await self._after_rejection(payout, answer, job)
            case AlreadyEnded():
                await states.report_contradicting_webhooks(self._db, payout)
            case ProviderAccepted(state):
                assert isinstance(state, TransferState)
                await reports.report_needed_action(self._db, payout, state)
                # Saves the response, and puts off the job until the first status query.
                await self._accept.submit(Accepted(job, state, SCHEDULE.first_seconds))
                return RunEnd.PUT_OFF
            case NoStatusQuery(detail):
                await reports.report(self._db, payout, CaseKind.NO_ANSWER, detail)
            case Wait(seconds, overdue):
                if overdue is not None:
                    await reports.report_overdue(self._db, payout, DAYS_OPEN_MAX, overdue)
                if payout.is_open and payout.provider_reference is not None:
                    await self._index.submit(payout)
                return seconds
        return None

    async def _apply_status(self, payout: Payout, state: ProviderState, job: Job) -> NextRun:
        """Ends the payout with the final status that its provider reports, or waits.

        A delivery is applied first: its SQL statement reads the webhooks itself, so they are read
        separately only for the few payouts that it does not complete.
        """
        event = event_of(state)
        is_delivery = payout.is_open and event.event is TransferEvent.DELIVERED
        is_same_amount = state.amount in (None, payout.amount)
        if is_delivery and is_same_amount and await self.complete(payout, event):
            return RunEnd.DELETED
        wait = await self.machine.report_other_amounts(payout, state, job)
        if wait is None and not is_delivery and await self.may_be_elsewhere(payout):
            wait = self.machine.wait(payout, ON_HOLD, HELD_SECONDS)
        if wait is not None:
            return await self._apply(payout, wait, job)
        if await self.apply_result(payout, event):
            return RunEnd.DELETED  # in the transaction that changed the payout
        # The failure is doubtful, or the payout has moved or ended in the meantime.
        return SCHEDULE.first_seconds if payout.is_open else None

    async def _after_rejection(
        self, payout: Payout, answer: Refused | Unknown, job: Job
    ) -> float | None:
        """Moves the payout to another rail. If there is none, fails it, or sends it later."""
        if await self._move(payout, answer, job, was_sent=True):
            return 0
        if isinstance(answer, Refused):
            await self.apply_result(payout, rejection(answer), holder=job)
            # If a signed webhook contradicts the rejection, the provider is queried now.
            # If this worker has lost the job, the worker that now holds it continues.
            return 0
        await sending.unmark(self._db, PAYOUTS, job)
        return SCHEDULE.first_seconds

    async def _move(
        self, payout: Payout, answer: Refused | Unknown, job: Job, *, was_sent: bool
    ) -> bool:
        """Moves the payout to another rail if its rail will not pay. Returns True if it was moved.

        If `was_sent`, `answer` is the response to the first transfer request. Otherwise nothing was
        sent.
        """
        if not payout.is_routed:
            return False
        is_moved = await self._failover.move(
            payout, answer, job, self.machine.slots, was_sent=was_sent
        )
        if is_moved and was_sent:
            match answer:
                case Refused(code, guidance):
                    self._record_failure(payout, code, guidance)
                case Unknown(reason):
                    self._record_failure(payout, None, reason)
        return is_moved

    async def complete(self, payout: Payout, event: TransferResult) -> bool:
        """Completes a delivered payout together with others, and deletes its job.

        Returns False if the payout needs `apply_result` instead.
        """
        is_completed = await self._delivered.complete(payout, event)
        if is_completed:
            self._record_result(payout, event)
        return is_completed

    async def apply_result(
        self, payout: Payout, event: TransferResult, *, holder: Job | None = None
    ) -> bool:
        key = payout.merchant_id, payout.trx_id
        is_changed = await states.apply_result(
            self._db, *key, event, holder=holder, provider=payout.provider
        )
        if is_changed:
            self._record_result(payout, event)
        return is_changed

    def _record_result(self, payout: Payout, event: TransferResult) -> None:
        """Records an open payout's result in the statistics, after the commit."""
        if event.event is not TransferEvent.DELIVERED:
            self._record_failure(payout, event.error_code, event.guidance or "")
        elif (rail_bank := self._rail_bank(payout)) is not None:
            self._deliveries.record_delivery(rail_bank, payout.age.total_seconds())
            fee = event.provider_fee
            minor = payout.provider_fee_minor if fee is None else fee.minor
            if minor:
                self._deliveries.record_fee(rail_bank[0], payout.currency, minor)

    def _record_failure(self, payout: Payout, code: RefusalCode | None, error: str) -> None:
        if (rail_bank := self._rail_bank(payout)) is not None:
            self._deliveries.record_failure(rail_bank, code, error)

    def _rail_bank(self, payout: Payout) -> RailBank | None:
        """Returns the payout's rail and bank for the statistics, or None if no rail was used."""
        if payout.is_sandbox or payout.provider is None or not payout.is_open:
            return None
        provider = payout.provider
        return provider, self._deliveries.bank_code(provider, payout.bank, payout.is_routed)

    async def may_be_elsewhere(self, payout: Payout) -> bool:
        """Whether another rail may have the open payout, so that a failure is not final.

        After a restore, this is true until every rail has been queried about the payouts that may
        have moved.
        """
        may_have_moved = payout.is_open and payout.is_routed
        return may_have_moved and await outgoing.hold_start(self._db) is not None

    def _order(self, payout: Payout) -> TransferOrder:
        return TransferOrder(
            reference=payout.trx_id,  # replaced later by a reference in the provider's format
            amount=payout.amount,
            bank_code=payout.rail_bank_code or payout.beneficiary["bank_code"],
            account_number=payout.beneficiary["account_number"],
            account_name=payout.account_name or "",
            narration=(payout.description or f"Payout {payout.ref_trx}")[:NARRATION_LENGTH_MAX],
            customer_email=self._platform.now.customer_email(self._base_url),
            notification_url=f"{self._base_url}/webhooks/{payout.provider}",
            name_enquiry_reference=payout.beneficiary.get("name_enquiry_reference"),
        )
