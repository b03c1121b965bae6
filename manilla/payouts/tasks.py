"""Jobs that send payouts and query their status until it is final.

A transfer is never sent twice, and a payout never ends without a conclusive answer.
"""

from datetime import UTC, datetime, timedelta
from functools import partial

import msgspec

from manilla.cases import cases
from manilla.cases.cases import Kind
from manilla.kit import crash
from manilla.kit.batch import Batcher
from manilla.kit.db import Database
from manilla.kit.jobs import Job, Work
from manilla.ledger.transactions import Scenario
from manilla.merchants import outgoing
from manilla.merchants.outgoing import OutgoingHold
from manilla.payouts import queries, sandbox, sending, states
from manilla.payouts.initiate import COMPLETE_IN_SANDBOX, SEND
from manilla.payouts.payout import Payout, PayoutStatus
from manilla.payouts.sending import Accepted
from manilla.platform.settings import CurrentSettings
from manilla.providers.port import (
    Adapter,
    Answer,
    Direction,
    Done,
    RefusalCode,
    Refused,
    Sent,
    TransferOrder,
    TransferState,
    TransferStatus,
    Unknown,
    after_unknown,
)
from manilla.providers.rails import Rails
from manilla.transfers.events import SettlementEvent, Source, TransferEvent

# Maximum age of a payout, and the seconds between its status queries. The queries never stop: a
# payout that stays open for too long becomes a case, but is still queried.
CHECKS: tuple[tuple[timedelta, float], ...] = (
    (timedelta(minutes=1), 5),
    (timedelta(minutes=10), 20),
    (timedelta(hours=1), 60),
    (timedelta(hours=24), 300),
)
SELDOM_SECONDS = 3600.0
DECIDED_SECONDS = 60.0
CASE_AFTER = timedelta(hours=24)
RAIL_DOWN_SECONDS = 3.0
HELD_SECONDS = 5.0
NARRATION_LENGTH_MAX = 100

EVENTS = {
    TransferStatus.DELIVERED: TransferEvent.DELIVERED,
    TransferStatus.FAILED: TransferEvent.FAILED,
    TransferStatus.REVERSED: TransferEvent.REVERSED,
}


class PayoutTasks:
    def __init__(
        self, db: Database, platform: CurrentSettings, rails: Rails, base_url: str
    ) -> None:
        self._db = db
        self._platform = platform
        self._rails = rails
        self._base_url = base_url
        self._find: Batcher[Job, Payout | None] = Batcher(partial(queries.payouts_of, db))
        self._begin: Batcher[Job, bool] = Batcher(partial(sending.begin, db))
        self._accept: Batcher[Accepted, None] = Batcher(partial(sending.accept, db))

    def works(self) -> dict[str, Work]:
        return {
            SEND: Work(self.advance, concurrency=64),
            COMPLETE_IN_SANDBOX: Work(self.complete_in_sandbox, concurrency=16),
        }

    async def complete_in_sandbox(self, job: Job) -> float | None:
        payout = await self._find.submit(job)
        assert payout is not None
        if await self._hold(payout) is not None:
            return outgoing.WAIT_SECONDS
        fails = payout.scenario == Scenario.FAILED or (
            payout.scenario is None and payout.beneficiary.get("account_number") == sandbox.FAILS
        )
        event = SettlementEvent(TransferEvent.DELIVERED, Source.SANDBOX)
        if fails:
            guidance = "The sandbox was instructed to fail this payout."
            event = SettlementEvent(
                TransferEvent.FAILED, Source.SANDBOX, RefusalCode.GATEWAY_PAYOUT_FAILED, guidance
            )
        await states.settle(self._db, job.merchant_id, job.subject, event)
        return None

    async def advance(self, job: Job) -> float | None:
        """Does one step of a payout: sends it, or queries its status."""
        payout = await self._find.submit(job)
        if payout is None or payout.provider is None or payout.is_sandbox:
            await self._report_unknown(job)
            return None
        provider = payout.provider
        adapter = self._rails.adapter(provider)
        if adapter is None or self._rails.is_down(provider, Direction.PAY_OUT):
            return await self._wait(payout, "the provider is unavailable", RAIL_DOWN_SECONDS)
        if payout.status is PayoutStatus.PENDING and payout.began_at is None:
            return await self._send_first(adapter, payout, job)
        return await self._ask(adapter, payout, job)

    async def _send_first(self, adapter: Adapter, payout: Payout, job: Job) -> float | None:
        """Sends a payout for the first time: the only send whose rejection is conclusive."""
        order = self._order(payout)
        crash.point("before_transfer_is_sent")
        if not await self._begin.submit(job):
            return await self._not_begun(adapter, payout)
        crash.point("after_send_is_begun")
        answer = await adapter.send(order)
        crash.point("after_transfer_is_sent")
        if isinstance(answer, Refused):
            event = SettlementEvent(
                TransferEvent.FAILED, Source.PROVIDER, answer.code, answer.guidance
            )
            await states.settle(self._db, payout.merchant_id, payout.trx_id, event, holder=job)
            return 0  # if this worker had lost the job, the worker that holds it continues
        sent = msgspec.structs.replace(payout, began_at=datetime.now(UTC))
        return await self._after_send(sent, answer)

    async def _after_send(self, payout: Payout, answer: Answer[Sent]) -> float | None:
        match answer:
            case Done(sent):
                accepted = Accepted(
                    payout.merchant_id, payout.trx_id, sent.provider_reference, sent.fee
                )
                await self._accept.submit(accepted)
                return CHECKS[0][1]
            case Unknown(reason):
                return await self._wait(payout, reason)
        raise AssertionError("a repeated send never returns Refused")

    async def _not_begun(self, adapter: Adapter, payout: Payout) -> float | None:
        """Handles a payout that was not marked as being sent: it is on hold, or we lost the job."""
        hold = await self._hold(payout)
        if hold is OutgoingHold.PAYOUTS_HELD:
            return await self._ask_unsent(adapter, payout)
        # Without a hold, another worker has taken over the job and continues from the saved state.
        return 0 if hold is None else outgoing.WAIT_SECONDS

    async def _hold(self, payout: Payout) -> OutgoingHold | None:
        return await outgoing.hold(self._db, payout.merchant_id, payout.environment)

    async def _ask_unsent(self, adapter: Adapter, payout: Payout) -> float | None:
        """Queries a payout that is not marked as sent, while all payouts are on hold.

        After a backup was restored, the database may not know that the payout was sent. If the
        provider knows the transfer, it is marked as sent: from then on it is queried and never
        sent.
        """
        answer = await adapter.transfer_state(payout.trx_id)
        if isinstance(answer, Done) and answer.value.status is not TransferStatus.NOT_FOUND:
            await sending.note_sent(self._db, payout.merchant_id, payout.trx_id)
            return 0
        return await self._wait(payout, OutgoingHold.PAYOUTS_HELD.text, HELD_SECONDS)

    async def _ask(self, adapter: Adapter, payout: Payout, job: Job) -> float | None:
        answer = await adapter.transfer_state(payout.trx_id)
        wait_seconds = await states.report_disagreement(self._db, payout)
        is_open = payout.status is PayoutStatus.PENDING
        match answer:
            case Done(TransferState(TransferStatus.NOT_FOUND)) if is_open:
                # The transfer never reached the provider. Every provider rejects a reference that
                # it has seen before, so sending it again cannot pay twice. But a rejection is no
                # longer conclusive, because it may mean that the reference was used before.
                order = self._order(payout)
                if not await sending.begin_again(self._db, job):
                    hold = await self._hold(payout)
                    if hold is not None:
                        return await self._wait(payout, hold.text, HELD_SECONDS)
                    return (
                        0  # another worker has the job now, or the payout has ended in the meantime
                    )
                again = after_unknown(await adapter.send(order))
                return await self._after_send(payout, again)
            case Done(state) if state.status in EVENTS:
                return await self._decide(payout, state, wait_seconds)
            case Done() if not is_open:
                return None
            case Done():
                reason = "the provider reports that the transfer is in progress"
            case Refused(_, reason) | Unknown(reason):
                pass
        return await self._wait(payout, reason)

    async def _decide(
        self, payout: Payout, state: TransferState, wait_seconds: float
    ) -> float | None:
        """Acts on the provider's answer, unless a recent signed webhook contradicts it."""
        if wait_seconds:
            return wait_seconds
        if await states.report_other_amount(self._db, payout, state.amount):
            return SELDOM_SECONDS if payout.status is PayoutStatus.PENDING else None
        is_delivered = state.status is TransferStatus.DELIVERED
        event = SettlementEvent(
            event=EVENTS[state.status],
            source=Source.STATUS_QUERY,
            error_code=None if is_delivered else RefusalCode.GATEWAY_PAYOUT_FAILED,
            guidance=state.message or None,
            provider_reference=state.provider_reference,
            provider_fee=state.fee,
        )
        await states.settle(self._db, payout.merchant_id, payout.trx_id, event)
        return None

    async def _wait(self, payout: Payout, reason: str, at_least_seconds: float = 0) -> float | None:
        """Returns the seconds until the next status query. The payout stays open.

        A timeout is not a rejection, because the provider may still pay.
        """
        if payout.status is not PayoutStatus.PENDING:
            return DECIDED_SECONDS  # a webhook caused this query: repeat it until answered
        age = datetime.now(UTC) - (payout.began_at or payout.created_at)  # excludes holds
        if age > CASE_AFTER:
            detail = f"Open for more than {CASE_AFTER.days} day: {reason.rstrip('.')}."
            await states.report(self._db, payout, Kind.NO_ANSWER, detail)
        seconds = next((each for limit, each in CHECKS if age < limit), SELDOM_SECONDS)
        return max(seconds, at_least_seconds)

    async def _report_unknown(self, job: Job) -> None:
        await cases.open_case(
            self._db,
            Kind.UNKNOWN_REFERENCE,
            job.subject,
            "A provider sent a signed webhook about a transfer that we did not send.",
            merchant_id=job.merchant_id,
        )

    def _order(self, payout: Payout) -> TransferOrder:
        return TransferOrder(
            reference=payout.trx_id,
            amount=payout.amount,
            bank_code=payout.beneficiary["bank_code"],
            account_number=payout.beneficiary["account_number"],
            account_name=payout.account_name or "",
            narration=(payout.description or f"Payout {payout.ref_trx}")[:NARRATION_LENGTH_MAX],
            customer_email=self._platform.now.customer_email(self._base_url),
            notification_url=f"{self._base_url}/webhooks/{payout.provider}",
            name_enquiry_reference=payout.beneficiary.get("name_enquiry_reference"),
        )
