"""Sends a transfer, or queries its status, and returns the step that the worker must apply.

A transfer is never paid twice, and never ends without a conclusive response. This module changes
neither the status nor the ledger: `payouts/tasks.py` and `refunds/tasks.py` apply the steps.
"""

from functools import partial

import msgspec
from msgspec.structs import asdict

from manilla.kit import crash, time_limits
from manilla.kit.batch import Batcher
from manilla.kit.database.connections import Database
from manilla.kit.jobs import Job
from manilla.kit.jobs.claims import save_results
from manilla.merchants import outgoing
from manilla.merchants.outgoing import OutgoingHold
from manilla.providers import status_query
from manilla.providers.claims import ClaimReader
from manilla.providers.port import (
    Adapter,
    Direction,
    Done,
    KnownAs,
    RefundOrder,
    RefusalCode,
    Refused,
    TransferOrder,
    TransferState,
    TransferStatus,
    Unknown,
    after_unknown,
)
from manilla.providers.rails import Rails, Schedule
from manilla.providers.slots import ProviderSlots
from manilla.providers.wire import limit_calls
from manilla.transfers import reports, sending
from manilla.transfers.events import (
    EVENTS,
    ProviderAnswer,
    ProviderState,
    Transfer,
    is_known,
    is_unsent,
    will_not_pay,
)
from manilla.transfers.sending import Mark, TransferTable

DECIDED_SECONDS = 60.0
RAIL_DOWN_SECONDS = 3.0
HELD_SECONDS = 5.0
MUST_NOT_BE_RESENT = Unknown(
    "the provider does not know the transfer, and may pay it twice if it is sent again"
)
UNAVAILABLE = Unknown("the provider is unavailable")
DRAINED = Unknown("an administrator has drained the provider")
ON_HOLD = Unknown(OutgoingHold.PAYOUTS_HELD.text)


class Wait(msgspec.Struct, frozen=True):
    """The delay before the job runs again, or None to end the job."""

    seconds: float | None
    overdue: ProviderAnswer | None = (
        None  # the last response, if the transfer has been open for too long
    )


class ProviderAccepted(msgspec.Struct, frozen=True):
    """The provider accepted the transfer that was sent."""

    state: ProviderState


class WillNotPay(msgspec.Struct, frozen=True):
    """The provider's response when the transfer was first sent proves that it will not pay."""

    answer: Refused | Unknown


class FinalStatus(msgspec.Struct, frozen=True):
    """The provider reported a final status, which is not compared with webhooks yet."""

    state: ProviderState


class AlreadyEnded(msgspec.Struct, frozen=True):
    """The transfer had ended before the query, and the provider reports no final status."""


class NoStatusQuery(msgspec.Struct, frozen=True):
    """Only an administrator can find out whether the transfer was paid."""

    detail: str = "The refund may have been sent, but the provider has no status query for refunds."


class TransferTask(msgspec.Struct, frozen=True):
    """A transfer, loaded by the worker that holds its job, and the order for the provider."""

    job: Job
    transfer: Transfer
    order: TransferOrder | RefundOrder
    known: KnownAs  # the provider's ids for the transfer, besides our reference

    def mark(self, reference: str) -> Mark:
        sent = self.transfer
        return Mark(self.job, sent.sent_at, sent.provider, reference, sent.destination)


Step = Wait | ProviderAccepted | WillNotPay | FinalStatus | AlreadyEnded | NoStatusQuery


class TransferMachine:
    """Sends payouts or refunds, and queries their status.

    `direction` is the rail direction that must be up before a call, or None for no check.
    """

    def __init__(
        self,
        db: Database,
        rails: Rails,
        claims: ClaimReader,
        table: TransferTable,
        schedule: Schedule,
        concurrency: int,
        direction: Direction | None = None,
    ) -> None:
        self._db = db
        self._rails = rails
        self._table = table
        self._schedule = schedule
        self._direction = direction
        self._claims = claims
        self.slots = ProviderSlots(concurrency)
        self._mark: Batcher[Mark, bool] = Batcher(partial(sending.mark, db, self._table))
        self._results: Batcher[tuple[Job, str], None] = Batcher(partial(save_results, db))

    def obstacle(self, transfer: Transfer) -> Unknown | None:
        """Returns the reason to move an unsent transfer to a different rail, or None."""
        if self._adapter(transfer) is None:
            return UNAVAILABLE
        is_payout = self._direction is Direction.PAY_OUT
        return DRAINED if is_payout and self._rails.is_drained(transfer.provider or "") else None

    def _adapter(self, transfer: Transfer) -> Adapter | None:
        """Returns the adapter of the transfer's provider, or None if the provider is down."""
        provider, direction = transfer.provider or "", self._direction
        is_down = direction is not None and self._rails.is_down(provider, direction)
        return None if is_down else self._rails.adapter(provider)

    async def advance(self, task: TransferTask) -> Step:
        """Sends the transfer, or queries its status."""
        transfer = task.transfer
        provider, adapter = transfer.provider or "", self._adapter(transfer)
        if adapter is None:
            seconds = self.slots.busy_seconds(provider, RAIL_DOWN_SECONDS)
            return self.wait(transfer, UNAVAILABLE, seconds)
        async with self.slots.hold(provider) as has_place:
            if not has_place:
                return Wait(self.slots.busy_seconds(provider))
            if is_unsent(transfer):
                return await self._send_first(adapter, task)
            return await self._query(adapter, task)

    async def _send_first(self, adapter: Adapter, task: TransferTask) -> Step:
        """Sends a transfer for the first time.

        Only the response to this request can be a final rejection.
        """
        if not task.transfer.may_be_sent:
            return Wait(None)  # an administrator must decide on the transfer
        reference = adapter.transfer_reference(task.transfer.trx_id)
        crash.point("before_transfer_is_sent")
        if not await self._mark.submit(task.mark(reference)):
            return await self._not_marked(task)
        crash.point("after_send_is_begun")
        answer = await self._send(adapter, task.order, reference)
        crash.point("after_transfer_is_sent")
        if will_not_pay(answer):
            return WillNotPay(answer)
        if isinstance(answer, Unknown):
            return Wait(self._schedule.first_seconds)
        return await self._after_send(task.transfer, answer)

    async def _not_marked(self, task: TransferTask) -> Wait:
        """Returns the next step for a transfer that could not be marked as sent.

        Either the transfer is on hold, or it was changed, or another worker has its job.
        """
        transfer = task.transfer
        key = transfer.merchant_id, transfer.environment
        hold = await outgoing.hold(self._db, *key, on_behalf=transfer.on_behalf)
        if hold is not None:
            return await self._on_hold(task, hold)
        if await sending.is_unchanged(self._db, self._table, transfer):
            # Another worker has claimed the job, or the transfer has ended in the meantime.
            return Wait(self._schedule.first_seconds)
        await reports.report_not_as_accepted(self._db, transfer)
        return Wait(self._schedule.last_seconds)

    async def _on_hold(self, task: TransferTask, hold: OutgoingHold) -> Wait:
        """Queries an unsent transfer while all transfers are on hold.

        After a backup was restored, the database may not know that the transfer was sent. If the
        provider knows the transfer, it is marked as sent, and from then on it is only queried and
        never sent again.
        """
        transfer = task.transfer
        if not is_unsent(transfer):
            return self.wait(transfer, Unknown(hold.text), HELD_SECONDS)
        if hold is not OutgoingHold.PAYOUTS_HELD:
            return Wait(outgoing.WAIT_SECONDS)
        answer = await self._state(task)
        if isinstance(answer, Done) and is_known(answer.value):
            await sending.note_sent(self._db, self._table, transfer.merchant_id, transfer.trx_id)
            return Wait(0)
        return self.wait(transfer, ON_HOLD, HELD_SECONDS)

    async def _query(self, adapter: Adapter, task: TransferTask) -> Step:
        """Queries the transfer's status. Saves the answer for the pages if the transfer waits."""
        answer = await self._state(task)
        step = await self._after_query(adapter, task, answer)
        if isinstance(step, Wait):
            await self._results.submit((task.job, status_query.reported_status(answer)))
        return step

    async def _after_query(
        self, adapter: Adapter, task: TransferTask, answer: ProviderAnswer
    ) -> Step:
        transfer = task.transfer
        match answer:
            case Refused(RefusalCode.NOT_SUPPORTED):
                return NoStatusQuery()
            case Done(state) if state.status in EVENTS:
                return FinalStatus(state)
        await self._report_webhooks(transfer)
        match answer:
            case Done() if not transfer.is_open:
                return AlreadyEnded()
            case Done(state) if not is_known(state):
                return await self._send_again(adapter, task)
            case Done(state):
                await reports.report_needed_action(self._db, transfer, state)
        return self.wait(transfer, answer)

    async def _send_again(self, adapter: Adapter, task: TransferTask) -> Step:
        """Resends a transfer that the provider does not know.

        The provider rejects a reference that it has already received, so a second request cannot
        pay twice. A rejection is no longer conclusive, because it may mean that the provider has
        received the first request.
        """
        transfer = task.transfer
        may_resend = self._rails.may_resend(self._table.kind, transfer.provider or "")
        if not (transfer.may_be_sent and may_resend):
            return self.wait(transfer, MUST_NOT_BE_RESENT)
        reference = task.known.sent_reference or adapter.transfer_reference(transfer.trx_id)
        if not await self._mark.submit(task.mark(reference)):
            return await self._not_marked(task)
        answer = await self._send(adapter, task.order, reference)
        return await self._after_send(transfer, after_unknown(answer))

    async def _after_send(self, transfer: Transfer, answer: ProviderAnswer) -> Step:
        match answer:
            case Done(state) if state.status in EVENTS:
                return FinalStatus(state)
            case Done(state):
                return ProviderAccepted(state)
        return self.wait(transfer, answer)

    async def _send(
        self, adapter: Adapter, order: TransferOrder | RefundOrder, reference: str
    ) -> ProviderAnswer:
        with limit_calls(time_limits.current.transfer_send_seconds):
            if isinstance(order, RefundOrder):
                # If a provider's refunds have references, it accepts our transaction id unchanged.
                return await adapter.refund(order)
            answer = await adapter.send(msgspec.structs.replace(order, reference=reference))
        if not isinstance(answer, Done):
            return answer
        return Done(TransferState(TransferStatus.PENDING, **asdict(answer.value)))

    async def _state(self, task: TransferTask) -> ProviderAnswer:
        provider, trx_id = task.transfer.provider or "", task.transfer.trx_id
        return await self._rails.state(self._table.kind, provider, trx_id, task.known)

    async def report_other_amounts(
        self, transfer: Transfer, state: ProviderState, job: Job
    ) -> Wait | None:
        """Opens a case for each report with a different amount. Returns None if there is none.

        Otherwise the worker must not apply the provider's final status yet, but wait.
        """
        if seconds := await self._report_webhooks(transfer):
            wait = Wait(seconds)
        elif await reports.report_other_amount(self._db, transfer, state.amount):
            wait = Wait(self._schedule.last_seconds if transfer.is_open else None)
        else:
            return None
        await self._results.submit((job, state.status.value))
        return wait

    async def _report_webhooks(self, transfer: Transfer) -> float:
        kind = self._table.kind
        return await reports.report_webhooks(self._db, self._claims, kind, transfer)

    def wait(self, transfer: Transfer, answer: ProviderAnswer, at_least_seconds: float = 0) -> Wait:
        """Returns the time until the next status query. The transfer stays open.

        A timeout is not a rejection, because the provider may still pay.
        """
        if not transfer.is_open:
            # A webhook caused this status query, which is repeated until the provider responds.
            return Wait(DECIDED_SECONDS)
        seconds = max(self._schedule.seconds(transfer.age), at_least_seconds)
        return Wait(seconds, answer if self._schedule.is_overdue(transfer.age) else None)
