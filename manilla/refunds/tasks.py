"""Jobs that send refunds to the provider and query their status until it is final."""

from datetime import UTC, datetime, timedelta

from manilla.cases import cases
from manilla.cases.cases import Kind
from manilla.kit.db import Database
from manilla.kit.jobs import Job, Work
from manilla.merchants import outgoing
from manilla.merchants.outgoing import OutgoingHold
from manilla.providers import claims, port
from manilla.providers.port import (
    Adapter,
    Answer,
    Done,
    EventKind,
    RefundOrder,
    RefundState,
    RefusalCode,
    Refused,
    Unknown,
)
from manilla.providers.rails import Rails
from manilla.refunds import decisions, queries, states
from manilla.refunds.refund import SEND, Refund, RefundStatus
from manilla.transfers.events import SettlementEvent, Source, TransferEvent

AGAIN_SECONDS = 20.0
AGAIN_LATER_SECONDS = 900.0
PATIENCE = timedelta(days=3)
LATER_SHARE = 8  # after that, the next status query follows after 1/8 of the refund's age

# Providers that have a status query for refunds and reject a reference that was used before.
CAN_BE_ASKED = frozenset(("providera",))


EVENTS = {
    port.RefundStatus.PAID: TransferEvent.DELIVERED,
    port.RefundStatus.FAILED: TransferEvent.FAILED,
}


class RefundTasks:
    def __init__(self, db: Database, rails: Rails) -> None:
        self._db = db
        self._rails = rails

    def works(self) -> dict[str, Work]:
        return {SEND: Work(self.advance, concurrency=8)}

    async def advance(self, job: Job) -> float | None:
        refund = await queries.refund(self._db, job.merchant_id, job.subject)
        if refund is None:
            await self._report_unknown(job)
            return None
        if refund.provider is None:
            return await self._complete_in_sandbox(refund)
        return await self._at_provider(refund, refund.provider, job)

    async def _complete_in_sandbox(self, refund: Refund) -> float | None:
        if await decisions.hold_of(self._db, refund) is not None:
            return outgoing.WAIT_SECONDS
        paid = SettlementEvent(TransferEvent.DELIVERED, Source.SANDBOX)
        await states.settle(self._db, refund, paid)
        return None

    async def _at_provider(self, refund: Refund, provider: str, job: Job) -> float | None:
        adapter = self._rails.adapter(provider)
        if adapter is None:
            return await self._act(refund, Unknown("the provider is not configured"))
        if refund.sent_at is None:
            is_open = refund.status is RefundStatus.PENDING
            return await self._send(adapter, refund, job) if is_open else None
        if provider not in CAN_BE_ASKED:
            if not refund.by_operator:
                guidance = (
                    "It may have been sent, and the provider has no status query for refunds."
                )
                await self._leave_to_operator(refund, guidance)
            return None
        return await self._ask(adapter, refund, job)

    async def _send(self, adapter: Adapter, refund: Refund, job: Job) -> float | None:
        if not await queries.mark_sent(self._db, refund, job):
            return await self._not_sent(adapter, refund)
        answer = await adapter.refund(_order(refund))
        match answer:
            case Refused(RefusalCode.NOT_SUPPORTED, guidance):
                await self._leave_to_operator(refund, guidance)
                return None
            case Refused(_, guidance):
                failed = SettlementEvent(TransferEvent.FAILED, Source.PROVIDER, guidance=guidance)
                await states.settle(self._db, refund, failed, holder=job)
                return None
        return await self._act(refund, answer)

    async def _not_sent(self, adapter: Adapter, refund: Refund) -> float | None:
        """Handles a refund that was not marked as sent: it is on hold, or we lost the job."""
        hold = await decisions.hold_of(self._db, refund)
        if hold is OutgoingHold.PAYOUTS_HELD:
            return await self._ask_unsent(adapter, refund)
        return AGAIN_SECONDS if hold is None else outgoing.WAIT_SECONDS

    async def _ask_unsent(self, adapter: Adapter, refund: Refund) -> float | None:
        """Queries a refund that is not marked as sent, while all payouts are on hold.

        After a restore, the provider may know a refund that our database has as unsent.
        """
        if adapter.provider in CAN_BE_ASKED:
            answer = await adapter.refund_state(refund.trx_id)
            if isinstance(answer, Done) and answer.value.status is not port.RefundStatus.NOT_FOUND:
                await queries.note_sent(self._db, refund)
                return 0
        return AGAIN_SECONDS

    async def _ask(self, adapter: Adapter, refund: Refund, job: Job) -> float | None:
        answer = await adapter.refund_state(refund.trx_id)
        if isinstance(answer, Done) and answer.value.status is port.RefundStatus.NOT_FOUND:
            if refund.status is not RefundStatus.PENDING:
                return None
            if refund.by_operator:
                return AGAIN_LATER_SECONDS  # an administrator may be paying it at this moment
            # The refund never reached the provider. The provider rejects a reference that it has
            # seen before, so sending it again cannot pay twice. But a rejection is no longer
            # conclusive, because it may mean that the reference was used before.
            if not await queries.mark_sent(self._db, refund, job):
                return AGAIN_SECONDS
            answer = await adapter.refund(_order(refund))
        return await self._act(refund, answer)

    async def _act(self, refund: Refund, answer: Answer[RefundState]) -> float | None:
        wait_seconds = await self._report_disagreement(refund, answer)
        if wait_seconds:
            return wait_seconds
        match answer:
            case Done(RefundState(status)) if status in EVENTS:
                event = SettlementEvent(EVENTS[status], Source.STATUS_QUERY)
                await states.settle(self._db, refund, event)
                return None
        if refund.status is not RefundStatus.PENDING:
            return None
        age = _age(refund)
        if age > PATIENCE:
            await self._report_open(refund, answer)
            return age.total_seconds() / LATER_SHARE
        return AGAIN_SECONDS if age < timedelta(hours=1) else AGAIN_LATER_SECONDS

    async def _report_open(self, refund: Refund, answer: Answer[RefundState]) -> None:
        """Opens a case for a refund that is open for too long, and leaves it to an administrator.

        The provider is still queried.
        """
        kind, reason = Kind.STILL_OPEN, "the provider still reports it as open"
        if isinstance(answer, Unknown):
            kind, reason = (
                Kind.NO_ANSWER,
                f"the provider has given no usable answer: {answer.reason}",
            )
        if not refund.by_operator:
            await self._leave_to_operator(refund, f"After three days {reason}.")
        await states.report(self._db, refund, kind, f"After three days {reason}.")

    async def _report_disagreement(self, refund: Refund, answer: Answer[RefundState]) -> float:
        """Opens a case if the provider or its webhook names a different amount than we sent.

        Returns the number of seconds for which the provider's answer must not be acted on.
        """
        assert refund.provider is not None
        if isinstance(answer, Done) and answer.value.amount not in (None, refund.amount):
            detail = f"The provider reports {answer.value.amount}; {refund.amount} was sent."
            await states.report(self._db, refund, Kind.WRONG_AMOUNT, detail)
            return AGAIN_LATER_SECONDS if refund.status is RefundStatus.PENDING else 0
        said = await claims.claimed(
            *(self._db, EventKind.REFUND, refund.merchant_id, refund.trx_id, refund.provider)
        )
        disagreeing = claims.disagreeing(said, refund.amount)
        for claim in disagreeing:
            detail = f"A signed webhook says {claim.text}; {refund.amount} was sent."
            await states.report(self._db, refund, Kind.WEBHOOK_DISAGREES, detail)
        return claims.confirmation_wait_seconds(disagreeing)

    async def _leave_to_operator(self, refund: Refund, detail: str) -> None:
        await queries.leave_to_operator(self._db, refund, detail)

    async def _report_unknown(self, job: Job) -> None:
        await cases.open_case(
            self._db,
            Kind.UNKNOWN_REFERENCE,
            job.subject,
            "A provider sent a signed webhook about a refund that we did not send.",
            merchant_id=job.merchant_id,
        )


def _order(refund: Refund) -> RefundOrder:
    assert refund.charge_reference is not None
    return RefundOrder(
        reference=refund.trx_id,
        charge_reference=refund.charge_reference,
        amount=refund.amount,
        reason=refund.reason,
    )


def _age(refund: Refund) -> timedelta:
    """Returns the time since the first send, so that time on hold does not count."""
    now = datetime.now(UTC)
    first_sent_at = refund.first_sent_at or (refund.created_at if refund.sent_at else None)
    return now - (first_sent_at or now)
