"""Sends payouts, and asks about them until they are decided: never twice, never on a guess."""

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
from manilla.payouts.payout import Code, Payout, Status
from manilla.payouts.sending import Accepted
from manilla.payouts.states import Event, News
from manilla.platform.settings import CurrentSettings
from manilla.providers.port import (
    Adapter,
    Answer,
    Direction,
    Done,
    Provider,
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

# How old a payout is, and how soon it is then asked about again. It never ends: what is open for
# long becomes a case, and is asked about all the same.
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
    TransferStatus.DELIVERED: Event.DELIVERED,
    TransferStatus.FAILED: Event.FAILED,
    TransferStatus.REVERSED: Event.REVERSED,
}


CODES = {
    RefusalCode.PROVIDER_INSUFFICIENT_BALANCE: Code.PROVIDER_INSUFFICIENT_BALANCE,
    RefusalCode.INVALID_BENEFICIARY: Code.INVALID_BENEFICIARY,
    RefusalCode.PAYOUT_FAILED: Code.PAYOUT_FAILED,
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
            SEND: Work(self.go_on, places=64),
            COMPLETE_IN_SANDBOX: Work(self.complete_in_sandbox, places=16),
        }

    async def complete_in_sandbox(self, job: Job) -> float | None:
        payout = await self._find.submit(job)
        assert payout is not None
        if await self._hold(payout) is not None:
            return outgoing.WAIT_SECONDS
        fails = payout.scenario == Scenario.FAILED or (
            payout.scenario is None and payout.beneficiary.get("account_number") == sandbox.FAILS
        )
        news = News(Event.DELIVERED, "sandbox")
        if fails:
            guidance = "The sandbox was told to fail it."
            news = News(Event.FAILED, "sandbox", Code.GATEWAY_PAYOUT_FAILED, guidance)
        await states.settle(self._db, job.merchant_id, job.subject, news)
        return None

    async def go_on(self, job: Job) -> float | None:
        """One step of a payout: sends it, or asks what became of it."""
        payout = await self._find.submit(job)
        if payout is None or payout.provider is None or payout.is_sandbox:
            await self._report_unknown(job)
            return None
        provider = Provider(payout.provider)
        adapter = self._rails.adapter(provider)
        if adapter is None or self._rails.is_down(provider, Direction.PAY_OUT):
            return await self._wait(payout, "the rail is down", RAIL_DOWN_SECONDS)
        if payout.status is Status.PENDING and payout.began_at is None:
            return await self._send_first(adapter, payout, job)
        return await self._ask(adapter, payout, job)

    async def _send_first(self, adapter: Adapter, payout: Payout, job: Job) -> float | None:
        """The one send whose refusal is conclusive."""
        order = self._order(payout)
        crash.point("before_transfer_is_sent")
        if not await self._begin.submit(job):
            return await self._not_begun(adapter, payout)
        crash.point("after_send_is_begun")
        answer = await adapter.send(order)
        crash.point("after_transfer_is_sent")
        if isinstance(answer, Refused):
            code = CODES.get(answer.code, Code.GATEWAY_PAYOUT_FAILED)
            news = News(Event.FAILED, "the provider's refusal", code, answer.guidance)
            await states.settle(self._db, payout.merchant_id, payout.trx_id, news, holder=job)
            return 0  # where it was not ours to say, whoever holds the job goes on
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
        raise AssertionError("a refusal is not an answer to a repeated send")

    async def _not_begun(self, adapter: Adapter, payout: Payout) -> float | None:
        """The payout was not marked as being sent: nothing may leave, or the job was lost."""
        hold = await self._hold(payout)
        if hold is OutgoingHold.PAYOUTS_HELD:
            return await self._ask_unsent(adapter, payout)
        # Without a hold another worker has taken the job over: it starts from what is saved.
        return 0 if hold is None else outgoing.WAIT_SECONDS

    async def _hold(self, payout: Payout) -> OutgoingHold | None:
        return await outgoing.hold(self._db, payout.merchant_id, payout.environment)

    async def _ask_unsent(self, adapter: Adapter, payout: Payout) -> float | None:
        """While payouts are held. Of one that was sent before a backup was restored, our books
        may not know: where its provider does, it is from now on asked about, and never sent."""
        answer = await adapter.transfer_state(payout.trx_id)
        if isinstance(answer, Done) and answer.value.status is not TransferStatus.NOT_FOUND:
            await sending.note_sent(self._db, payout.merchant_id, payout.trx_id)
            return 0
        return await self._wait(payout, OutgoingHold.PAYOUTS_HELD.text, HELD_SECONDS)

    async def _ask(self, adapter: Adapter, payout: Payout, job: Job) -> float | None:
        answer = await adapter.transfer_state(payout.trx_id)
        wait_seconds = await states.report_disagreement(self._db, payout)
        is_open = payout.status is Status.PENDING
        match answer:
            case Done(TransferState(TransferStatus.NOT_FOUND)) if is_open:
                # It never arrived. All providers refuse a reference twice, so that sending it
                # again cannot pay twice; but a refusal now may be about the repetition.
                order = self._order(payout)
                if not await sending.begin_again(self._db, job):
                    hold = await self._hold(payout)
                    if hold is not None:
                        return await self._wait(payout, hold.text, HELD_SECONDS)
                    return 0  # it is another's now, or was ended meanwhile
                again = after_unknown(await adapter.send(order))
                return await self._after_send(payout, again)
            case Done(state) if state.status in EVENTS:
                return await self._decide(payout, state, wait_seconds)
            case Done() if not is_open:
                return None
            case Done():
                reason = "the provider says that it is under way"
            case Refused(_, reason) | Unknown(reason):
                pass
        return await self._wait(payout, reason)

    async def _decide(
        self, payout: Payout, state: TransferState, wait_seconds: float
    ) -> float | None:
        """Acts on the provider's answer, unless a signed webhook made it doubtful a moment ago."""
        if wait_seconds:
            return wait_seconds
        if await states.report_other_amount(self._db, payout, state.amount):
            return SELDOM_SECONDS if payout.status is Status.PENDING else None
        event = EVENTS[state.status]
        news = News(
            event=event,
            source="the provider when asked",
            error_code=None if event is Event.DELIVERED else Code.GATEWAY_PAYOUT_FAILED,
            guidance=state.message or None,
            provider_reference=state.provider_reference,
            provider_fee=state.fee,
        )
        await states.settle(self._db, payout.merchant_id, payout.trx_id, news)
        return None

    async def _wait(self, payout: Payout, reason: str, at_least_seconds: float = 0) -> float | None:
        """A timeout is no refusal: the provider may still pay. The payout stays open."""
        if payout.status is not Status.PENDING:
            return DECIDED_SECONDS  # something made us ask: it is not put aside unanswered
        age = datetime.now(UTC) - (payout.began_at or payout.created_at)  # not the time on hold
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
            "A provider sent a signed webhook about a transfer that we did not make.",
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
