"""The states of a dispute, and the functions that change them.

Each change runs in one transaction that locks the payment's row. Status, money, timeline and event
are written together or not at all. A dispute that is found by a webhook and by polling at the same
time is opened once, because the second transaction waits for the first.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from manilla.audit import audit
from manilla.disputes import clocks, mails, postings, store, unknown
from manilla.disputes.dispute import (
    DISPUTE_IDS,
    NEXT,
    AnswerState,
    Dispute,
    DisputeEvent,
    DisputeStatus,
    holding_in,
)
from manilla.disputes.fields import EVENT, describe_notice
from manilla.disputes.target import DisputeTarget, find_target
from manilla.job_kinds import JobKind
from manilla.kit import crash, jobs, tracing
from manilla.kit.database.connections import Connection, Database, transaction_of
from manilla.kit.price import PriceTerms
from manilla.ledger import outcomes
from manilla.ledger.outcomes import ChangedRow, TimelineStep, TransactionOutcome
from manilla.merchants import wallets
from manilla.notify import outbox
from manilla.notify.events.kinds import event_type_of
from manilla.payments import store as payments
from manilla.payments.payment import Payment
from manilla.platform.settings import PlatformSettings
from manilla.prices import store as prices
from manilla.prices.book import PriceBook
from manilla.prices.price import Priced, PriceDirection
from manilla.providers import accounts
from manilla.providers.port import DisputeState, ReportedDisputeStatus
from manilla.splits import movements

_WRITTEN = (
    *("amount_minor", "status", "stage", "category", "reason", "respond_by", "missed_at"),
    *("reminders", "reported_at", "outcome_at", "withheld_minor", "taken_minor", "short_minor"),
    *("fee_minor", "commission_minor", "accepted_minor", "answer", "answer_detail", "answered_at"),
)
_EVENTS = {
    ReportedDisputeStatus.NEEDS_RESPONSE: DisputeEvent.REOPENED,
    ReportedDisputeStatus.SUBMITTED: DisputeEvent.SUBMITTED,
    ReportedDisputeStatus.WON: DisputeEvent.WON,
    ReportedDisputeStatus.LOST: DisputeEvent.LOST,
    ReportedDisputeStatus.ACCEPTED: DisputeEvent.ACCEPTED,
}
# A provider that still waits for an answer does not have it yet.
_ON_ITS_WAY = frozenset(AnswerState) - {AnswerState.SENT, AnswerState.REJECTED}


class Reported(msgspec.Struct, frozen=True):
    """The dispute after a report, or why the report fits no payment of ours."""

    dispute: Dispute | None
    problem: str = ""


@tracing.as_step("dispute")
async def report(
    db: Database | Connection,
    settings: PlatformSettings,
    provider: str,
    state: DisputeState,
    *,
    asked_at: datetime | None = None,
    answered: AnswerState | None = None,
    is_statement: bool = False,
) -> Reported:
    """Opens or changes a dispute as its provider reports it.

    `asked_at`: when the report was requested. A report that is older than the latest applied one
    is ignored. `answered`: what the report says about the merchant's answer. `is_statement`: the
    provider's statement shows the dispute, which is opened if the payment has none.

    If the report fits no payment, a case is opened and no money moves.
    """
    asked_at = asked_at or datetime.now(UTC)
    if state.status is ReportedDisputeStatus.NOT_FOUND:
        return Reported(None, "The provider does not know the dispute.")
    target = await find_target(db, provider, state)
    async with transaction_of(db) as connection:
        payment = await target.lock(connection)
        problem = target.problem(payment, state)
        if problem is not None or payment is None:
            problem = problem or "No payment of ours was disputed."
            detail = f"{problem} No money was moved. Find the payment at {provider}, and record it."
            named = provider, state.provider_reference
            await unknown.open_case(connection, *named, detail, payment, state.amount)
            return Reported(None, problem)
        if await _lives_elsewhere(connection, payment):
            return Reported(None, "The merchant lives in another cell.")
        if is_statement:
            known = await store.disputes_of(connection, payment.merchant_id, payment.trx_id)
            if known:
                return Reported(known[0])
        found = await store.find_reported(connection, payment, provider, state)
        kind = await _kind_of(connection, provider)
        change = DisputeChange(connection, settings, kind, payment)
        if found is None:
            found = await _open(change, target, provider, state, asked_at)
        after = await _apply(change, found, state, asked_at, answered)
        crash.point("before_dispute_commit")
    crash.point("after_dispute_commit")
    return Reported(after)


class DisputeChange:
    """Changes the disputes of one payment, whose row the caller has locked."""

    def __init__(
        self, connection: Connection, settings: PlatformSettings, kind: str, payment: Payment
    ) -> None:
        self.connection = connection
        self.settings = settings
        self.kind = kind  # of the provider's account
        self.payment = payment  # as the changes so far have left it

    async def covered_minor(self, dispute: Dispute, amount_minor: int) -> int:
        """Returns how much of the amount the payment covers beside refunds and other disputes."""
        refunds = await store.refunds_beside(self.connection, dispute)
        refunded = sum(each.amount_minor - each.customer_credit_minor for each in refunds)
        others = self.payment.disputed_minor - dispute.holding.total
        paid = self.payment.quote.customer_pays.minor
        return max(0, min(amount_minor, paid - refunded - others))

    async def settle(self, dispute: Dispute) -> Dispute:
        """Returns the dispute with what it holds and has taken in its status."""
        covered = await self.covered_minor(dispute, dispute.amount_minor)
        holding = holding_in(dispute.status, covered, dispute.accepted_minor)
        commission = postings.returned_commission_minor(self.settings, self.payment, holding.taken)
        return msgspec.structs.replace(
            dispute,
            withheld_minor=holding.withheld,
            taken_minor=holding.taken,
            commission_minor=commission,
        )

    async def write(
        self, before: Dispute, after: Dispute, event: DisputeEvent, detail: str
    ) -> Dispute:
        """Writes the new version of a dispute, with its postings, timeline, event and email."""
        disputed = self.payment.disputed_minor + after.holding.total - before.holding.total
        self.payment = msgspec.structs.replace(self.payment, disputed_minor=disputed)
        async with movements.following(self.connection, self.payment):
            after = await self._write(before, after, event, detail)
        await mails.put(self.connection, after, event, detail)
        if before.uncovered.minor and not after.uncovered.minor:
            named = after.merchant_id, after.provider, after.provider_reference
            await unknown.close_case(self.connection, *named)
        if after.is_open:
            await jobs.put(self.connection, after.merchant_id, JobKind.DISPUTE, after.trx_id)
        if after.holding.total < before.holding.total:
            await self._cover_others(after)
        return after

    async def _write(
        self, before: Dispute, after: Dispute, event: DisputeEvent, detail: str
    ) -> Dispute:
        covered = await postings.between(self.connection, before, after)
        # What returns to the wallet pays the debt first.
        short_minor = min(
            before.short_minor + covered.short_minor, after.holding.total + after.fee.minor
        )
        after = msgspec.structs.replace(after, short_minor=short_minor)
        columns = {name: getattr(after, name) for name in _WRITTEN}
        facts = {"dispute": after.trx_id, "amount": str(after.amount), "reason": after.reason}
        outcome = TransactionOutcome(
            merchant_id=after.merchant_id,
            trx_id=after.payment_trx_id,
            environment=after.environment,
            currency=after.currency,
            rows=[
                payments.changed_payment(self.payment),
                ChangedRow("dispute", after.trx_id, columns),
            ],
            step=TimelineStep(
                *(f"dispute_{event}", self.payment.status, self.payment.status),
                *(f"{after.trx_id}, {after.amount}: {detail}", facts),
            ),
            postings=covered.postings,
            notice=await self._notice(after, event),
        )
        is_written = await outcomes.apply(self.connection, outcome)
        assert is_written, "what returns to a wallet may exceed its maximum balance"
        return after

    async def _cover_others(self, dispute: Dispute) -> None:
        """Uses what this dispute has released for the payment's other disputes."""
        key = dispute.merchant_id, dispute.payment_trx_id
        for other in await store.disputes_of(self.connection, *key):
            if other.trx_id != dispute.trx_id:
                await self.refresh(other)

    async def refresh(self, dispute: Dispute) -> Dispute:
        """Withholds or takes what the payment covers now, for example after a refund has failed."""
        after = await self.settle(dispute)
        if after == dispute:
            return dispute
        return await self.write(dispute, after, DisputeEvent.UPDATED, "covered amount changed")

    async def answer(
        self,
        dispute: Dispute,
        accepted_minor: int | None,
        detail: str,
        ready: AnswerState = AnswerState.WAITING,
    ) -> Dispute:
        """Saves the merchant's answer, which an administrator reviews first if the platform wants.

        `ready`: who sends the answer. Without an API, the job lets an administrator send it.
        """
        is_reviewed = self.settings.dispute_review and not dispute.is_sandbox
        after = msgspec.structs.replace(
            after_event(dispute, DisputeEvent.SUBMITTED),
            accepted_minor=accepted_minor,
            answer=AnswerState.REVIEW if is_reviewed else ready,
            answer_detail="",
            answered_at=datetime.now(UTC),
        )
        return await self.write(dispute, after, DisputeEvent.SUBMITTED, detail)

    async def reject(self, dispute: Dispute, words: str) -> Dispute:
        """Returns an answer to the merchant, with the words of who has rejected it."""
        after = msgspec.structs.replace(
            after_event(dispute, DisputeEvent.REOPENED),
            answer=AnswerState.REJECTED,
            answer_detail=words,
            missed_at=dispute.missed_at,
            reminders=dispute.reminders,
        )
        return await self.write(dispute, after, DisputeEvent.REOPENED, words)

    async def leave_to_administrator(self, dispute: Dispute, detail: str) -> Dispute:
        """Lets an administrator send the answer, because no job can."""
        after = msgspec.structs.replace(dispute, answer=AnswerState.MANUAL, answer_detail=detail)
        after = await self.write(dispute, after, DisputeEvent.UPDATED, detail)
        await mails.put_manual(self.connection, after)
        return after

    async def _notice(self, dispute: Dispute, event: DisputeEvent) -> Mapping[str, str]:
        files = await store.files_of(self.connection, dispute.merchant_id, dispute.trx_id)
        notice = describe_notice(dispute, files, event)
        event_type = event_type_of(EVENT, event)
        return outbox.notice(
            dispute.merchant_id, "", notice, notice.event, event_type, dispute.status
        )


@asynccontextmanager
async def changing(
    db: Database, settings: PlatformSettings, dispute: Dispute
) -> AsyncIterator[tuple[DisputeChange, Dispute]]:
    """Locks the dispute's payment, and yields the dispute as it is now."""
    async with db.transaction() as connection:
        key = dispute.merchant_id, dispute.payment_trx_id
        payment = await payments.payment(connection, *key, lock=True)
        current = await store.dispute(connection, dispute.merchant_id, dispute.trx_id)
        assert payment is not None
        assert current is not None
        kind = await _kind_of(connection, dispute.provider)
        yield DisputeChange(connection, settings, kind, payment), current


async def _kind_of(connection: Connection, provider: str) -> str:
    """Returns the kind of a provider's account. The sandbox is a kind of its own."""
    kind = (await accounts.load(connection)).get(provider)
    return provider if kind is None else kind.name


async def _open(
    change: DisputeChange,
    target: DisputeTarget,
    provider: str,
    state: DisputeState,
    asked_at: datetime,
) -> Dispute:
    """Opens the dispute and withholds its amount, whatever its provider reports next."""
    payment, amount = change.payment, state.amount
    assert amount is not None
    trx_id, created_at = DISPUTE_IDS.new_with_time(payment.merchant_id)
    opened_at = state.opened_at or created_at
    new = Dispute(
        merchant_id=payment.merchant_id,
        trx_id=trx_id,
        payment_trx_id=payment.trx_id,
        environment=payment.environment,
        ref_trx=payment.ref_trx,
        charge_reference=target.charge_reference,
        provider=provider,
        provider_reference=state.provider_reference,
        currency=amount.currency,
        amount_minor=amount.minor,
        status=DisputeStatus.NEEDS_RESPONSE,
        stage=state.stage,
        category=state.category,
        reason=state.reason,
        created_at=created_at,
        opened_at=opened_at,
        respond_by=clocks.respond_by(change.settings, change.kind, state, opened_at),
        reported_at=asked_at,
        updated_at=created_at,
        traceparent=tracing.current(),
    )
    priced = msgspec.structs.replace(new, price=await _price(change.connection, new))
    await store.insert(change.connection, priced)
    after = await change.settle(priced)
    detail = f"opened at {provider}"
    await unknown.close_case(change.connection, 0, provider, state.provider_reference)
    if after.uncovered.minor:
        detail += await _report_uncovered(change, after, state)
    else:
        await unknown.close_case(
            change.connection, payment.merchant_id, provider, state.provider_reference
        )
    limit = await wallets.accepted_below(change.connection, new.tenant, amount.currency)
    is_accepted = amount < limit and state.status is ReportedDisputeStatus.NEEDS_RESPONSE
    if not is_accepted or new.is_due:
        return await change.write(new, after, DisputeEvent.OPENED, detail)
    after = msgspec.structs.replace(after, accepted_minor=amount.minor)
    opened = await change.write(new, after, DisputeEvent.OPENED, detail)
    detail = f"accepted automatically, because the merchant accepts disputes below {limit}"
    return await change.answer(opened, amount.minor, detail)


async def _price(connection: Connection, dispute: Dispute) -> str | None:
    """Returns what the merchant's plan charges for the dispute now, or None."""
    book = PriceBook(await prices.load(connection))
    priced = Priced(
        direction=PriceDirection.DISPUTE, environment=dispute.environment, amount=dispute.amount
    )
    return book.charge(dispute.merchant_id, priced, PriceTerms()).stored


async def _apply(
    change: DisputeChange,
    dispute: Dispute,
    state: DisputeState,
    asked_at: datetime,
    answered: AnswerState | None,
) -> Dispute:
    """Applies a report to the dispute, unless a newer report has been applied."""
    # A report of a host whose clock was ahead is not newer than the reports of the other hosts.
    if asked_at < dispute.reported_at <= datetime.now(UTC):
        return dispute
    event = event_of(dispute, state.status)
    after = _described(change, dispute, state, event)
    if answered is not None:
        after = msgspec.structs.replace(after, answer=answered)
    if event is not None:
        after = after_event(after, event)
    after = _with_fee(await change.settle(after), state)
    if after == dispute:
        await store.set_reported(change.connection, dispute, asked_at)
        return msgspec.structs.replace(dispute, reported_at=asked_at)
    after = msgspec.structs.replace(after, reported_at=asked_at)
    detail = f"reported by {dispute.provider}"
    if after.uncovered.minor > dispute.uncovered.minor:
        detail += await _report_uncovered(change, after, state)
    return await change.write(dispute, after, event or DisputeEvent.UPDATED, detail)


async def _report_uncovered(change: DisputeChange, dispute: Dispute, state: DisputeState) -> str:
    """Opens a case about what the provider holds or took, and the payment does not cover."""
    words = f"; {dispute.uncovered} of it was refunded, disputed or never paid"
    detail = f"Dispute {dispute.trx_id} is {dispute.status}{words}."
    named = dispute.provider, dispute.provider_reference
    await unknown.open_case(change.connection, *named, detail, change.payment, state.amount)
    return words


def event_of(dispute: Dispute, status: ReportedDisputeStatus) -> DisputeEvent | None:
    """Returns what the reported status changes, or None if it changes nothing."""
    is_on_its_way = dispute.status is DisputeStatus.SUBMITTED and dispute.answer in _ON_ITS_WAY
    if status is ReportedDisputeStatus.NEEDS_RESPONSE and is_on_its_way:
        return None
    event = _EVENTS[status]
    return event if (dispute.status, event) in NEXT else None


def after_event(dispute: Dispute, event: DisputeEvent) -> Dispute:
    """Returns the dispute in the status after the event."""
    status = NEXT[dispute.status, event]
    changes: dict[str, Any] = {"status": status}
    if event is DisputeEvent.REOPENED:
        changes |= {"answer": None, "answer_detail": "", "answered_at": None}
        changes |= {"accepted_minor": None, "outcome_at": None, "missed_at": None, "reminders": 0}
    elif event in (DisputeEvent.WON, DisputeEvent.LOST, DisputeEvent.ACCEPTED):
        changes |= {"outcome_at": datetime.now(UTC)}
        if dispute.answer is not None and dispute.answer.is_unsent:
            # Nobody may send the answer any more. The provider has decided without it, unless a
            # person has sent an acceptance there.
            is_confirmed = dispute.answer is AnswerState.MANUAL and event is DisputeEvent.ACCEPTED
            accepted_minor = dispute.accepted_minor if is_confirmed else None
            changes |= {"answer": None, "accepted_minor": accepted_minor}
    elif event is DisputeEvent.SUBMITTED:
        changes |= {"outcome_at": None}
    return msgspec.structs.replace(dispute, **changes)


def _described(
    change: DisputeChange, dispute: Dispute, state: DisputeState, event: DisputeEvent | None
) -> Dispute:
    """Returns the dispute with what the provider reports about it, and with its new deadline."""
    respond_by = state.respond_by or dispute.respond_by
    if event is DisputeEvent.REOPENED and state.respond_by is None:
        now = datetime.now(UTC)
        respond_by = clocks.respond_by(change.settings, change.kind, state, now)
    is_later = respond_by > dispute.respond_by
    amount = state.amount
    return msgspec.structs.replace(
        dispute,
        amount_minor=amount.minor if amount and amount.minor > 0 else dispute.amount_minor,
        stage=state.stage or dispute.stage,
        category=state.category or dispute.category,
        reason=state.reason or dispute.reason,
        respond_by=respond_by,
        missed_at=None if is_later else dispute.missed_at,
        reminders=0 if is_later else dispute.reminders,
    )


def _with_fee(dispute: Dispute, state: DisputeState) -> Dispute:
    """Returns the dispute with the fee that its provider reports, once it has ended."""
    fee = state.fee
    if dispute.is_open or fee is None or fee.currency != dispute.currency or fee.minor < 0:
        return dispute
    return msgspec.structs.replace(dispute, fee_minor=fee.minor)


async def record(connection: Connection, action: str, dispute: Dispute, **detail: Any) -> None:
    """Writes the audit entry of an administrator's act, as the last call in its transaction."""
    await audit.record(
        connection,
        action,
        f"dispute:{dispute.trx_id}",
        merchant_id=dispute.merchant_id,
        payment=dispute.payment_trx_id,
        amount=dispute.amount,
        **detail,
    )


async def _lives_elsewhere(connection: Connection, payment: Payment) -> bool:
    return bool(await connection.value("SELECT lives_elsewhere($1)", payment.merchant_id))
