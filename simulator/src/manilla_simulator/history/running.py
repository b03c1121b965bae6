"""Runs the demo history's stories through the functions of the API, checkout, pages and worker."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import singledispatchmethod

from manilla import worker
from manilla.bulk import batches, drafts
from manilla.bulk import store as bulk_store
from manilla.bulk.drafts import Drafting
from manilla.bulk.store import BatchStatus
from manilla.cases import cases
from manilla.cases.cases import CaseAction
from manilla.job_kinds import JobKind
from manilla.kit import jobs
from manilla.kit.environment import Environment
from manilla.kit.jobs import Job
from manilla.kit.money import Money
from manilla.kit.ratelimit import RateTicket
from manilla.ledger.idempotency import Replayed
from manilla.ledger.scope import Tenant
from manilla.merchants.directory import Caller
from manilla.methods.method import Flow, MethodKind
from manilla.payments import store as payments
from manilla.payments.checkout import SandboxOutcome
from manilla.payments.initiate import PaymentOrder
from manilla.payments.payment import Payment
from manilla.payments.ways import way_of
from manilla.payouts import store as payouts
from manilla.payouts.initiate import PayoutOrder
from manilla.payouts.payout import PayoutStatus
from manilla.people.second_person import Decider
from manilla.providers.port import Channel
from manilla.refunds import decisions
from manilla.refunds import initiate as refunds
from manilla.refunds.refund import RefundStatus
from manilla.resolutions import resolutions
from manilla.services import Services
from manilla.settlements import plans
from manilla.settlements import store as settlements
from manilla.settlements.plans import SettlementPlan
from manilla_simulator.history import offices
from manilla_simulator.history.businesses import Business
from manilla_simulator.history.clock import MovedClock
from manilla_simulator.history.control import SimulatorControl
from manilla_simulator.history.patience import until
from manilla_simulator.history.story import (
    FAILS,
    BulkStory,
    Ending,
    PaymentStory,
    PayoutStory,
    RefundStory,
    ResolutionStory,
    ReversalStory,
    SettlementStory,
    Story,
)

CURRENCY = "NGN"
CHARGE_LASTS = timedelta(minutes=30)
UNDERPAID_SHARE = 2  # The customer pays the charge's amount divided by this number.

WAYS = {Flow.HOSTED: Channel.CARD, Flow.VIRTUAL_ACCOUNT: Channel.BANK_TRANSFER}


class StoryRunner:
    def __init__(
        self,
        services: Services,
        clock: MovedClock,
        control: SimulatorControl,
        simulator_url: str,
        merchant_ids: Mapping[str, int],
    ) -> None:
        self._services = services
        self._db = services.db
        self._clock = clock
        self._control = control
        self._simulator_url = simulator_url
        self._merchant_ids = merchant_ids
        self._works = worker.job_handlers(services)

    @singledispatchmethod
    async def run(self, story: Story) -> None:
        raise NotImplementedError(type(story))

    @run.register
    async def _payment(self, story: PaymentStory) -> None:
        caller = await self._caller(story, story.environment)
        with self._clock.at(story.at):
            session = await self._services.payments.initiate(
                caller, self._payment_order(story), _ticket()
            )
            assert not isinstance(session, Replayed)
            await self._services.checkout.view(session.trx_id)
        if story.environment is Environment.SANDBOX:
            await self._end_in_sandbox(story, session.trx_id)
        else:
            await self._end_payment(story, caller.merchant_id, session.trx_id)

    def _payment_order(self, story: PaymentStory) -> PaymentOrder:
        name = story.customer.lower().replace(" ", ".")
        return PaymentOrder(
            payment_amount=story.amount,
            currency_code=CURRENCY,
            ref_trx=story.reference,
            ipn_url=self._ipn_url(story.business, is_heard=story.is_heard),
            success_redirect="https://shop.example/paid",
            cancel_redirect="https://shop.example/basket",
            description=story.article,
            customer_name=story.customer,
            customer_email=f"{name}@example.com",
        )

    def _ipn_url(self, business: Business, *, is_heard: bool = True) -> str:
        server = "notifications" if is_heard else "unavailable"
        return f"{self._simulator_url}/merchants/{business.prefix.lower()}/{server}"

    async def _end_in_sandbox(self, story: PaymentStory, trx_id: str) -> None:
        outcome = {
            Ending.DECLINED: SandboxOutcome.DECLINE,
            Ending.CANCELED: SandboxOutcome.CANCEL,
            Ending.EXPIRED: SandboxOutcome.INSUFFICIENT_FUNDS,
        }.get(story.ending, SandboxOutcome.PAY)
        with self._clock.at(story.ends, trx_id):
            await self._services.checkout.pretend(trx_id, outcome)

    async def _end_payment(self, story: PaymentStory, merchant_id: int, trx_id: str) -> None:
        if story.ending is not Ending.EXPIRED:
            await self._try_to_pay(story, trx_id)
        if story.ending in (Ending.EXPIRED, Ending.DECLINED, Ending.UNDERPAID):
            minutes = self._services.platform.now.checkout_minutes
            with self._clock.at(story.at + timedelta(minutes=minutes), trx_id):
                await self._run_job(JobKind.EXPIRE_PAYMENT, merchant_id, trx_id)

    async def _try_to_pay(self, story: PaymentStory, trx_id: str) -> None:
        with self._clock.at(story.at + (story.ends - story.at) / 3, trx_id):
            chosen = story.method or way_of(WAYS[story.flow])
            charge = await self._services.checkout.choose(trx_id, chosen)
        if story.ending is Ending.CANCELED:
            with self._clock.at(story.ends, trx_id):
                await self._services.checkout.cancel(trx_id)
            with self._clock.at(story.ends + CHARGE_LASTS, trx_id):
                await self._control.expire(charge.provider, charge.reference)
                await self._services.charges.ask(charge)
            return
        with self._clock.at(story.ends, trx_id):
            command = _paying(story, charge.amount)
            await self._control.pay(charge.provider, charge.reference, **command)
            await self._services.charges.ask(charge)

    async def deliver_again(self, story: PaymentStory, at: datetime) -> None:
        """Makes the next delivery attempt of the payment's notification due now."""
        payment = await self._payment_of(story)
        with self._clock.at(at, payment.trx_id):
            async with self._db.transaction() as connection:
                await jobs.wake(connection, payment.merchant_id, [JobKind.NOTIFY])

    async def _run_job(self, kind: JobKind, merchant_id: int, subject: str) -> None:
        """Runs a job immediately, even if the job is not due yet."""
        await self._works[kind].handler(Job(merchant_id, kind, subject, 1, 0, 0))

    @run.register
    async def _payout(self, story: PayoutStory) -> None:
        caller = await self._caller(story, story.environment)
        method = self._services.methods.by_code(
            MethodKind.WITHDRAW, "platform" if story.is_manual else "providera_ngn_transfer"
        )
        assert method is not None
        order = PayoutOrder(
            payout_amount=story.amount,
            currency_code=CURRENCY,
            ref_trx=story.reference,
            ipn_url=self._ipn_url(story.business),
            description=story.text,
            withdraw_method_id=method.id,
            beneficiary=story.beneficiary,
        )
        with self._clock.at(story.at):
            initiated = await self._services.payouts.initiate(caller, order, _ticket())
        assert not isinstance(initiated, Replayed)
        if story.is_manual:
            return
        with self._clock.at(story.ends, initiated.trx_id):
            if story.environment is Environment.SANDBOX:
                await self._run_job(JobKind.SANDBOX_PAYOUT, caller.merchant_id, initiated.trx_id)
            else:
                status = "failed" if story.account == FAILS else "success"
                await self._control.settle_when_sent("a", initiated.trx_id, status)
        await self._until_payout_is_not(PayoutStatus.PENDING, caller.merchant_id, initiated.trx_id)

    @run.register
    async def _reversal(self, story: ReversalStory) -> None:
        merchant_id = self._merchant_ids[story.business.email]
        trx_id = await self._trx_id("payout", merchant_id, story.reference)
        with self._clock.at(story.at, trx_id):
            await self._control.settle("a", trx_id, "reversed")
            await self._until_payout_is_not(PayoutStatus.COMPLETED, merchant_id, trx_id)

    async def _until_payout_is_not(
        self, status: PayoutStatus, merchant_id: int, trx_id: str
    ) -> None:
        async def has_changed() -> bool:
            payout = await payouts.payout(self._db, merchant_id, trx_id)
            return payout is None or payout.status is not status

        await until(has_changed)

    @run.register
    async def _refund(self, story: RefundStory) -> None:
        payment = await self._payment_of(story)
        if payment.refunded_minor:
            return
        with self._clock.at(story.at, payment.trx_id):
            refund = await refunds.start(self._db, payment.trx_id, None, story.reason)

        async def is_decided() -> bool:
            current = await decisions.find(self._db, refund.trx_id)
            return current.by_operator or current.status is not RefundStatus.PENDING

        await until(is_decided)

    @run.register
    async def _resolution(self, story: ResolutionStory) -> None:
        payment = await self._payment_of(story)
        for case in await cases.cases(self._db):
            if case.trx_id == payment.trx_id:
                with self._clock.at(story.at, payment.trx_id):
                    await resolutions.resolve(self._db, case.id, story.note, CaseAction.CREDIT)

    @run.register
    async def _bulk(self, story: BulkStory) -> None:
        caller = await self._caller(story, Environment.PRODUCTION)
        tenant = Tenant(caller.merchant_id, caller.environment)
        method = self._services.methods.by_code(MethodKind.WITHDRAW, "providera_ngn_transfer")
        assert method is not None
        with self._clock.at(story.at):
            batch_id = await drafts.draft(
                Drafting(self._db, self._services.previews, caller, method),
                file_name=story.reference,
                raw=story.file,
                uploaded_by=story.business.email,
            )
            self._clock.follow(batch_id)

        async def is_checked() -> bool:
            return not (await batches.find(self._db, tenant, batch_id)).unchecked

        await until(is_checked)
        with self._clock.at(story.at + timedelta(minutes=2), batch_id):
            by = await self._decider(story.business.email)
            await batches.confirm(self._db, tenant, batch_id, by=by, accepts_names=True)

        async def is_done() -> bool:
            batch = await batches.find(self._db, tenant, batch_id)
            return batch.status is BatchStatus.DONE

        await until(is_done)
        rows = await bulk_store.rows(
            self._db, caller.merchant_id, batch_id, state=None, after=0, limit=100
        )
        for row in rows:
            if row.trx_id is not None:
                await self._control.settle_when_sent("a", row.trx_id, "success")
                await self._until_payout_is_not(
                    PayoutStatus.PENDING, caller.merchant_id, row.trx_id
                )

    @run.register
    async def _settlement(self, story: SettlementStory) -> None:
        merchant_id, settling = self._merchant_ids[story.business.email], self._services.settling
        tenant = Tenant(merchant_id, Environment.PRODUCTION)
        await offices.choose_settlement_account(self._services, tenant, story.business.email)
        done = await self._db.number(
            "SELECT count(*) FROM settlement WHERE merchant_id = $1", merchant_id
        )
        if done >= story.number:
            return
        reserve = Money.of(story.reserve, CURRENCY)
        plan = SettlementPlan(
            merchant_id=merchant_id,
            environment=tenant.environment,
            currency=CURRENCY,
            reserve_minor=reserve.minor,
            set_by=story.business.email,
        )
        await plans.change(self._db, plan)
        subject = plans.subject(tenant.environment, CURRENCY)
        with self._clock.at(story.at, subject):
            offer = await settling.offers.find(plan)
            await settling.settle_now(
                *(tenant, story.business.email),
                account_id=offer.account.id,
                amount=offer.amount,
            )
        await until(lambda: self._has_payout(tenant))
        newest = await settlements.newest(self._db, tenant, CURRENCY)
        assert newest is not None
        assert newest.trx_id is not None
        await self._control.settle_when_sent("a", newest.trx_id, "success")
        await self._until_payout_is_not(PayoutStatus.PENDING, merchant_id, newest.trx_id)
        with self._clock.at(story.ends, subject, newest.trx_id):
            await self._run_job(JobKind.SETTLE, merchant_id, subject)

    async def _has_payout(self, tenant: Tenant) -> bool:
        newest = await settlements.newest(self._db, tenant, CURRENCY)
        return newest is not None and newest.trx_id is not None

    async def _decider(self, email: str) -> Decider:
        person_id = await self._db.number(
            "SELECT id FROM person WHERE email = $1 AND realm = 'dashboard'", email
        )
        return Decider(person_id, email)

    async def _caller(self, story: Story, environment: Environment) -> Caller:
        merchant_id = self._merchant_ids[story.business.email]
        return await self._services.directory.of(environment, merchant_id)

    async def _payment_of(self, story: Story) -> Payment:
        merchant_id = self._merchant_ids[story.business.email]
        trx_id = await self._trx_id("payment", merchant_id, story.reference)
        payment = await payments.payment(self._db, merchant_id, trx_id)
        assert payment is not None
        return payment

    async def _trx_id(self, table: str, merchant_id: int, reference: str) -> str:
        found: str = await self._db.value(
            f"SELECT trx_id FROM {table} WHERE merchant_id = $1 AND ref_trx = $2"
            " AND environment = 'production'",
            *(merchant_id, reference),
        )
        return found


def _ticket() -> RateTicket:
    return RateTicket("demo history", 1_000_000)


def _paying(story: PaymentStory, amount: Money) -> dict[str, str]:
    match story.ending:
        case Ending.DECLINED:
            return {"outcome": "failed"}
        case Ending.UNDERPAID:
            return {"amount": str(amount.amount / UNDERPAID_SHARE)}
    return {}
