"""Sends a transfer and queries its status until it is final.

A transfer is never paid twice, and never ends without a conclusive response.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from manilla.cases.cases import CaseKind
from manilla.kit import crash
from manilla.kit.batch import Batcher
from manilla.kit.db import Database
from manilla.kit.jobs import Job
from manilla.merchants import outgoing
from manilla.merchants.outgoing import OutgoingHold
from manilla.providers.port import (
    Adapter,
    Direction,
    Done,
    KnownAs,
    RefusalCode,
    Refused,
    Unknown,
    after_unknown,
)
from manilla.providers.rails import Rails
from manilla.providers.schedule import Schedule
from manilla.transfers import reports, sending
from manilla.transfers.events import (
    EVENTS,
    ProviderAnswer,
    ProviderState,
    SettlementEvent,
    Source,
    TransferEvent,
    event_of,
    is_known,
    will_not_pay,
)
from manilla.transfers.sending import Mark, TransferTable
from manilla.transfers.transfer import Transfer

DECIDED_SECONDS = 60.0
RAIL_DOWN_SECONDS = 3.0
HELD_SECONDS = 5.0
MUST_NOT_BE_RESENT = Unknown(
    "the provider does not know it, and may pay it twice if it is sent again"
)
UNAVAILABLE = Unknown("the provider is unavailable")
DRAINED = Unknown("an administrator has drained the provider")
LEFT_RAIL_MAY_PAY = Unknown("a provider that rejected it now says that it has it")
NO_STATUS_QUERY = "It may have been sent, and the provider has no status query for refunds."

AnyTransfer = TypeVar("AnyTransfer", bound=Transfer)
Send = Callable[[], Awaitable[ProviderAnswer]]


class TransferOperations(Protocol[AnyTransfer]):
    """The operations that differ between payouts and refunds."""

    async def find(self, job: Job) -> AnyTransfer | None: ...

    async def known_as(self, transfer: AnyTransfer) -> KnownAs:
        """Returns what the provider may identify the transfer by, besides our reference."""

    def prepare(self, adapter: Adapter, transfer: AnyTransfer, reference: str) -> Send:
        """Builds the order, and returns the function that sends it."""

    async def accept(self, transfer: AnyTransfer, state: ProviderState) -> None:
        """Saves what the provider returned when it accepted the transfer."""

    async def settle(
        self, transfer: AnyTransfer, event: SettlementEvent, *, holder: Job | None = None
    ) -> bool: ...

    async def move(
        self, transfer: AnyTransfer, answer: Refused | Unknown, job: Job, *, was_sent: bool
    ) -> bool:
        """Moves a transfer to another rail, if its rail was chosen automatically."""

    async def check_left(self, transfer: AnyTransfer) -> bool:
        """Checks the reports of rails that the transfer was moved away from.

        Returns False if one of them may pay it, so that no other may send it.
        """

    async def may_be_elsewhere(self, transfer: AnyTransfer) -> bool:
        """Whether another rail may have the transfer, so that a failure is not conclusive."""

    def watch_seconds(self, transfer: AnyTransfer) -> float | None:
        """Returns the seconds until the next query of a final transfer, or None for no query."""

    async def report_overdue(self, transfer: AnyTransfer, answer: ProviderAnswer) -> None: ...

    async def leave_to_administrator(self, transfer: AnyTransfer, detail: str) -> None: ...


class TransferMachine(Generic[AnyTransfer]):
    """Processes payouts or refunds.

    `direction` is that of the rail which must be up before a call, or None to skip this check.
    """

    def __init__(
        self,
        db: Database,
        rails: Rails,
        operations: TransferOperations[AnyTransfer],
        table: TransferTable,
        schedule: Schedule,
        direction: Direction | None = None,
    ) -> None:
        self._db = db
        self._rails = rails
        self._operations = operations
        self._table = table
        self._schedule = schedule
        self._direction = direction
        self._mark: Batcher[Mark, bool] = Batcher(partial(sending.mark, db, self._table))

    async def advance(self, job: Job) -> float | None:
        """Does one step of a transfer: sends it, or queries its status."""
        transfer = await self._operations.find(job)
        if transfer is None:
            await reports.report_unknown(self._db, self._table.kind, job)
            return None
        is_left_clear = await self._operations.check_left(transfer)
        if not is_left_clear and transfer.is_open and transfer.sent_at is None:
            return await self._wait(transfer, LEFT_RAIL_MAY_PAY)
        provider, direction = transfer.provider or "", self._direction
        adapter = self._rails.adapter(provider)
        is_down = direction is not None and self._rails.is_down(provider, direction)
        is_drained = direction is Direction.PAY_OUT and self._rails.is_drained(provider)
        obstacle = UNAVAILABLE if adapter is None or is_down else DRAINED if is_drained else None
        if obstacle and await self._is_moved(transfer, job, obstacle, was_sent=False):
            return 0
        if adapter is None or is_down:
            return await self._wait(transfer, UNAVAILABLE, RAIL_DOWN_SECONDS)
        if transfer.is_open and transfer.sent_at is None:
            # An unsent transfer that workers may not send is decided by an administrator.
            can_be_sent = transfer.may_be_sent
            return await self._send_first(adapter, transfer, job) if can_be_sent else None
        return await self._ask(adapter, transfer, job)

    async def _send_first(self, adapter: Adapter, transfer: AnyTransfer, job: Job) -> float | None:
        """Sends a transfer for the first time: the only send whose rejection can be conclusive."""
        reference = adapter.transfer_reference(transfer.trx_id)
        send = self._operations.prepare(adapter, transfer, reference)
        crash.point("before_transfer_is_sent")
        if not await self._mark.submit(Mark(job, transfer.sent_at, transfer.provider, reference)):
            return await self._not_marked(transfer)
        crash.point("after_send_is_begun")
        answer = await send()
        crash.point("after_transfer_is_sent")
        if will_not_pay(answer) and await self._is_moved(transfer, job, answer, was_sent=True):
            return 0
        match answer:
            case Refused(code, guidance):
                event = SettlementEvent(TransferEvent.FAILED, Source.PROVIDER, code, guidance)
                await self._operations.settle(transfer, event, holder=job)
                # If a signed webhook contradicts the rejection, the provider is queried now. If
                # this worker has lost the job, its holder continues.
                return 0
            case Unknown(never_sent=True):
                await sending.unmark(self._db, self._table, job)
                return self._schedule.first_seconds
            case Unknown():
                return self._schedule.first_seconds
        return await self._after_send(transfer, answer)

    async def _is_moved(
        self, transfer: AnyTransfer, job: Job, answer: Refused | Unknown, *, was_sent: bool
    ) -> bool:
        """Whether the transfer was moved to another rail, because this one certainly will not pay.

        `was_sent`: `answer` is the response to the first send. Otherwise nothing was sent.
        """
        if not transfer.is_open or transfer.sent_at is not None:
            return False
        return await self._operations.move(transfer, answer, job, was_sent=was_sent)

    async def _after_send(self, transfer: AnyTransfer, answer: ProviderAnswer) -> float | None:
        if isinstance(answer, Done) and answer.value.status not in EVENTS:
            await self._operations.accept(transfer, answer.value)
            await self._report_needed_action(transfer, answer.value)
            return self._schedule.first_seconds
        return await self._act(transfer, answer)

    async def _not_marked(self, transfer: AnyTransfer) -> float | None:
        """Handles a transfer that could not be marked as sent.

        Either it is on hold, or another worker has its job.
        """
        hold = await self._hold(transfer)
        if hold is OutgoingHold.PAYOUTS_HELD:
            return await self._ask_unsent(transfer)
        # Without a hold, another worker has taken over the job and continues from the saved state.
        return self._schedule.first_seconds if hold is None else outgoing.WAIT_SECONDS

    async def _hold(self, transfer: AnyTransfer) -> OutgoingHold | None:
        return await outgoing.hold(
            self._db,
            transfer.merchant_id,
            transfer.environment,
            on_behalf=transfer.on_behalf,
        )

    async def _ask_unsent(self, transfer: AnyTransfer) -> float | None:
        """Queries a transfer that is not marked as sent, while all transfers are on hold.

        After a backup was restored, the database may not know that the transfer was sent. If the
        provider knows the transfer, it is marked as sent: from then on it is queried and never
        sent.
        """
        answer = await self._state(transfer)
        if isinstance(answer, Done) and is_known(answer.value):
            await sending.note_sent(self._db, self._table, transfer.merchant_id, transfer.trx_id)
            return 0
        return await self._wait(transfer, Unknown(OutgoingHold.PAYOUTS_HELD.text), HELD_SECONDS)

    async def _state(self, transfer: AnyTransfer) -> ProviderAnswer:
        provider = transfer.provider or ""
        known = await self._operations.known_as(transfer)
        return await self._rails.state(self._table.kind, provider, transfer.trx_id, known)

    async def _ask(self, adapter: Adapter, transfer: AnyTransfer, job: Job) -> float | None:
        answer = await self._state(transfer)
        match answer:
            case Refused(RefusalCode.NOT_SUPPORTED):
                await self._operations.leave_to_administrator(transfer, NO_STATUS_QUERY)
                return None
            case Done(state) if transfer.is_open and not is_known(state):
                return await self._send_again(adapter, transfer, job)
        return await self._act(transfer, answer)

    async def _send_again(self, adapter: Adapter, transfer: AnyTransfer, job: Job) -> float | None:
        """Sends a transfer again that never reached the provider.

        The provider rejects a reference that it has seen before, so sending it again cannot pay
        twice. But a rejection is no longer conclusive, because it may mean that the reference was
        used before.
        """
        await self._report_disagreement(transfer)
        may_resend = self._rails.may_resend(self._table.kind, transfer.provider or "")
        if not (transfer.may_be_sent and may_resend):
            return await self._wait(transfer, MUST_NOT_BE_RESENT)
        known = await self._operations.known_as(transfer)
        reference = known.sent_reference or adapter.transfer_reference(transfer.trx_id)
        send = self._operations.prepare(adapter, transfer, reference)
        if not await self._mark.submit(Mark(job, transfer.sent_at, transfer.provider, reference)):
            hold = await self._hold(transfer)
            if hold is not None:
                return await self._wait(transfer, Unknown(hold.text), HELD_SECONDS)
            # Another worker has the job now, or the transfer has ended in the meantime.
            return self._schedule.first_seconds
        return await self._after_send(transfer, after_unknown(await send()))

    async def _act(self, transfer: AnyTransfer, answer: ProviderAnswer) -> float | None:
        """Applies the provider's response, unless a recent signed webhook contradicts it."""
        wait_seconds = await self._report_disagreement(transfer)
        match answer:
            case Done(state) if state.status in EVENTS:
                return wait_seconds or await self._decide(transfer, state)
            case Done() if not transfer.is_open:
                return self._operations.watch_seconds(transfer)
            case Done(state):
                await self._report_needed_action(transfer, state)
        return await self._wait(transfer, answer)

    async def _report_needed_action(self, transfer: AnyTransfer, state: ProviderState) -> None:
        """Opens a case immediately if the transfer waits for a person at the provider."""
        if state.needs_action:
            await reports.report(self._db, transfer, CaseKind.STILL_OPEN, state.needs_action)

    async def _report_disagreement(self, transfer: AnyTransfer) -> float:
        said = await reports.claims_about(self._db, self._table.kind, transfer)
        return await reports.report_disagreement(self._db, transfer, said)

    async def _decide(self, transfer: AnyTransfer, state: ProviderState) -> float | None:
        if await reports.report_other_amount(self._db, transfer, state.amount):
            return self._schedule.last_seconds if transfer.is_open else None
        event = event_of(state)
        is_paid = event.event is TransferEvent.DELIVERED
        if transfer.is_open and not is_paid and await self._operations.may_be_elsewhere(transfer):
            return await self._wait(transfer, Unknown(OutgoingHold.PAYOUTS_HELD.text), HELD_SECONDS)
        is_settled = await self._operations.settle(transfer, event)
        # An open transfer whose result was not applied is queried again. Its result may be doubtful
        # (see `conclusive`), or the transfer may have been moved or decided in the meantime.
        return self._schedule.first_seconds if transfer.is_open and not is_settled else None

    async def _wait(
        self, transfer: AnyTransfer, answer: ProviderAnswer, at_least_seconds: float = 0
    ) -> float:
        """Returns the seconds until the next status query. The transfer stays open.

        A timeout is not a rejection, because the provider may still pay.
        """
        if not transfer.is_open:
            # A webhook caused this query. It is repeated until the provider responds.
            return DECIDED_SECONDS
        if self._schedule.is_overdue(transfer.age):
            await self._operations.report_overdue(transfer, answer)
        return max(self._schedule.seconds(transfer.age), at_least_seconds)
