"""Settles balances according to their plans. Each settlement is exactly one ordinary payout.

A settlement is stored before its payout is created. The payout has the settlement's reference,
which can be used only once. If a worker dies in between, the next worker finds the existing payout
by its reference and does not create a second payout.
"""

from datetime import UTC, date, datetime, timedelta

import structlog

from manilla.audit import audit
from manilla.beneficiaries import beneficiary
from manilla.bulk import batches
from manilla.bulk import store as batch_store
from manilla.bulk.store import BatchStatus
from manilla.job_kinds import JobKind
from manilla.kit import crash, jobs
from manilla.kit.clock import LAGOS
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal, Unavailable
from manilla.kit.jobs import Job, Work
from manilla.kit.money import Money
from manilla.ledger.scope import Tenant
from manilla.ledger.transactions import DuplicateReference
from manilla.merchants import limits
from manilla.merchants.directory import Caller, Directory
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Method
from manilla.payouts import ordering
from manilla.payouts import store as payouts
from manilla.payouts.initiate import PayoutInitiation, PayoutOrder
from manilla.payouts.listing import ids_of_reference
from manilla.payouts.ordering import AccountHolder, PayoutPreview, PayoutPreviews
from manilla.payouts.payout import Payout, PayoutStatus
from manilla.payouts.protection import allowance
from manilla.people import queries as people
from manilla.people.roles import Realm
from manilla.people.second_person import Decider
from manilla.platform.settings import CurrentSettings
from manilla.prices.book import PriceBook
from manilla.prices.price import Purpose
from manilla.settlements import accounts, notices, plans, store
from manilla.settlements.accounts import SettlementAccount
from manilla.settlements.offers import NotSettled, SettlementOffer, SettlementOffers
from manilla.settlements.plans import SettlementMode, SettlementPlan
from manilla.settlements.store import AUTOMATIC, Settlement, SettlementOrder, SettlementState
from manilla.transfers import refusals
from manilla.transfers.refusals import PROVIDER_RETRY_SECONDS, ProviderUnavailable

log = structlog.get_logger(__name__)

CONCURRENCY = 4
NO_LIMIT = 2**31  # disables the rate limit, which applies only to API requests
LOOK_SECONDS = 900.0  # how often a plan is checked
REQUEST_SECONDS = 60.0  # how often to check whether a second person has approved
# Interval of status checks, short at first, because most payouts are delivered in seconds.
FOLLOW_SECONDS_MIN, FOLLOW_SECONDS_MAX = 2.0, 15.0
FAILURES_A_DAY = 3
SETTLEMENTS_A_DAY = 50  # maximum per day, if limits allow only partial settlements
RETRY_AFTER = timedelta(hours=1)

NAME_CHANGED = "The bank now reports another account name: {}. Set the settlement account again."
IS_OPEN = "A settlement is under way."
REFERENCE_USED = "Another payout has the reference of this settlement."
CHANGED = "The balance or the settlement account has changed. Review the settlement again."
NOT_AS_SET = "The settlement account no longer matches what was set. Set the account again."
NOT_APPROVED = "Nobody approved the settlement."


class Settling:
    def __init__(
        self,
        db: Database,
        platform: CurrentSettings,
        directory: Directory,
        catalogue: Catalogue,
        prices: PriceBook,
        previews: PayoutPreviews,
        initiation: PayoutInitiation,
    ) -> None:
        self._db = db
        self._platform = platform
        self._directory = directory
        self.offers = SettlementOffers(db, platform, directory, catalogue, prices)
        self._previews = previews
        self._initiation = initiation

    def job_handlers(self) -> dict[str, Work]:
        return {JobKind.SETTLE: Work(self.advance, concurrency=CONCURRENCY)}

    async def settle_now(
        self, tenant: Tenant, by: str, *, account_id: int, amount: Money
    ) -> Settlement:
        """Starts the settlement that a user has reviewed. The worker creates its payout."""
        plan = await plans.find(self._db, tenant, amount.currency)
        offer = await self.offers.find(plan)
        if (offer.account.id, offer.amount) != (account_id, amount):
            raise NotSettled(CHANGED)
        started = await self._start(plan, offer, by)
        if started is None:
            raise NotSettled(IS_OPEN)
        return started

    async def needs_second(self, tenant: Tenant, offer: SettlementOffer, by: str) -> bool:
        """Whether a second person must approve the settlement if this user orders it."""
        if offer.account.is_trusted(self.account_wait):
            return False
        return await allowance.is_exceeded(self._db, tenant, offer.total, by)

    async def holder(self, offer: SettlementOffer) -> AccountHolder:
        """Returns the account's holder, with the name that the bank currently reports."""
        account = offer.account
        caller = await self._directory.of(account.environment, account.merchant_id)
        return await self._previews.holder(caller, offer.method, dict(account.beneficiary))

    async def advance(self, job: Job) -> float | None:
        """Continues the open settlement, or starts a settlement that is due."""
        environment, _, currency = job.subject.partition(":")
        tenant = Tenant(job.merchant_id, Environment(environment))
        newest = await store.newest(self._db, tenant, currency)
        if newest is not None and newest.is_open:
            return await self._follow(newest)
        plan = await plans.find(self._db, tenant, currency)
        if plan.mode is SettlementMode.MANUAL:
            return None
        is_wanted = self._is_open_now() and await self._is_wanted(plan, newest)
        return 0 if is_wanted and await self._start_by(plan) else LOOK_SECONDS

    async def _start_by(self, plan: SettlementPlan) -> bool:
        """Starts a settlement according to the plan, if enough money is available."""
        if not plan.is_enough(await self.offers.available(plan)):
            return False
        try:
            offer = await self.offers.find(plan)
        except NotSettled as refusal:
            log.info("settlement_skipped", merchant_id=plan.merchant_id, why=refusal.text)
            return False
        return await self._start(plan, offer, AUTOMATIC) is not None

    async def _start(
        self, plan: SettlementPlan, offer: SettlementOffer, by: str
    ) -> Settlement | None:
        tenant, today = Tenant(plan.merchant_id, plan.environment), _today()
        async with self._db.transaction() as connection:
            newest = await store.newest(connection, tenant, plan.currency)
            earlier = newest.attempt if newest is not None and newest.day == today else 0
            order = SettlementOrder(
                merchant_id=plan.merchant_id,
                environment=plan.environment,
                currency=plan.currency,
                day=today,
                attempt=earlier + 1,
                amount_minor=offer.amount.minor,
                is_partial=offer.is_partial,
                account_id=None if by == AUTOMATIC else offer.account.id,
                ordered_by=by,
            )
            started = await store.start(connection, order)
            if started is not None:
                await jobs.put(
                    connection,
                    plan.merchant_id,
                    JobKind.SETTLE,
                    plans.subject(plan.environment, plan.currency),
                )
                await audit.record(
                    connection,
                    "settlement.start",
                    f"settlement:{started.id}",
                    merchant_id=plan.merchant_id,
                    environment=plan.environment,
                    amount=offer.amount,
                )
        crash.point("after_settlement_is_started")
        return started

    async def _follow(self, settlement: Settlement) -> float | None:
        try:
            payout = await self._payout(settlement)
            if payout is None and settlement.batch_id is not None:
                return await self._follow_request(settlement, settlement.batch_id)
            payout = payout or await self._order(settlement)
        except Unavailable:
            raise  # the payout may have been created, so the job is retried
        except ProviderUnavailable:
            return PROVIDER_RETRY_SECONDS  # no money was debited
        except Refusal as refusal:
            await self._end(settlement, SettlementState.FAILED, refusal.text)
            return LOOK_SECONDS
        if payout is None:
            return 0  # a second person must approve the payout first
        if payout.is_open:
            return _follow_seconds(settlement)
        is_paid = payout.status is PayoutStatus.COMPLETED
        if is_paid:
            await self._end(settlement, SettlementState.PAID, None)
        else:
            await self._end(settlement, SettlementState.FAILED, payout.guidance or "It failed.")
        return 0 if is_paid and settlement.is_partial else LOOK_SECONDS

    async def _payout(self, settlement: Settlement) -> Payout | None:
        """Returns the settlement's payout, or None if it does not exist yet."""
        for trx_id in await ids_of_reference(self._db, settlement.tenant, settlement.ref_trx):
            payout = await payouts.payout(self._db, settlement.merchant_id, trx_id)
            assert payout is not None
            if payout.ordered_by not in await self._ordered_by(settlement):
                raise NotSettled(REFERENCE_USED)
            if settlement.trx_id is None:
                await store.set_payout(self._db, settlement, trx_id)
            return payout
        return None

    async def _ordered_by(self, settlement: Settlement) -> set[str | None]:
        """Returns the names of all users who may have ordered this settlement's payout."""
        if settlement.batch_id is None:
            return {settlement.ordered_by}
        batch = await batch_store.batch(self._db, settlement.merchant_id, settlement.batch_id)
        return {settlement.ordered_by, batch.ordered_by if batch else None}

    async def _follow_request(self, settlement: Settlement, batch_id: str) -> float:
        """Waits for the second person's decision, and then for the payout."""
        batch = await batch_store.batch(self._db, settlement.merchant_id, batch_id)
        if batch is not None and batch.paid:
            return 0  # the batch has created the payout in the meantime
        if batch is not None and batch.status is BatchStatus.ASKED and batch.is_expired:
            await batches.expire(self._db, batch)
            return 0
        if batch is not None and batch.status in (BatchStatus.ASKED, BatchStatus.RUNNING):
            return REQUEST_SECONDS
        rows = await batch_store.rows(self._db, settlement.merchant_id, batch_id, limit=1)
        raise NotSettled((rows[0].remark if rows else None) or NOT_APPROVED)

    async def look_again(self, tenant: Tenant, batch_id: str) -> None:
        """Continues the settlement immediately after a second person has decided on it."""
        found = await store.of_request(self._db, tenant, batch_id)
        if found is not None:
            subject = plans.subject(found.environment, found.currency)
            await jobs.put(self._db, found.merchant_id, JobKind.SETTLE, subject)

    async def _order(self, settlement: Settlement) -> Payout | None:
        """Creates the payout. Returns None if a second person must approve it first."""
        tenant = settlement.tenant
        caller = await self._directory.of(tenant.environment, tenant.merchant_id)
        account = await self.offers.account(tenant, settlement.currency)
        if settlement.account_id not in (None, account.id):
            raise NotSettled(CHANGED)
        if not await accounts.is_as_set(self._db, account):
            log.error("settlement_account_changed", merchant_id=account.merchant_id)
            raise NotSettled(NOT_AS_SET)
        method = self.offers.method(account)
        holder = await self._check_name(caller, method, account)
        await store.set_account(self._db, settlement, account.id)
        wanted = PayoutOrder(
            payout_amount=settlement.amount.amount,
            currency_code=settlement.currency,
            ref_trx=settlement.ref_trx,
            ipn_url="",
            withdraw_method_id=method.id,
            beneficiary=dict(account.beneficiary),
            description="Settlement",
            ordered_by=settlement.ordered_by,
            purpose=Purpose.OWN_ACCOUNT,
        )
        if not await self._may_order(settlement, account, caller, holder, wanted):
            return None
        ticket = limits.rate_ticket(tenant.merchant_id, "settlement", NO_LIMIT)
        try:
            await ordering.place(self._initiation, caller, wanted, ticket)
        except DuplicateReference:
            log.info("settlement_found", settlement=settlement.id)
        crash.point("after_settlement_is_ordered")
        found = await self._payout(settlement)
        assert found is not None
        return found

    async def _may_order(
        self,
        settlement: Settlement,
        account: SettlementAccount,
        caller: Caller,
        holder: AccountHolder,
        wanted: PayoutOrder,
    ) -> bool:
        """Whether the payout may be ordered now. If not, requests a second person's approval.

        A payout to a trusted account needs no approval, because two people have agreed to the
        account and others had time to notice it.
        """
        if account.is_trusted(self.account_wait):
            return True
        tenant, by = settlement.tenant, await self._responsible(settlement, account)
        method, amount = self.offers.method(account), settlement.amount
        balance = await self._previews.balance(caller, settlement.currency)
        price = self._previews.price(caller, method, amount, wanted.purpose)
        preview = PayoutPreview(method, holder, price, balance)
        subject = f"settlement:{settlement.id}"
        async with self._db.transaction() as connection:
            if await allowance.take(connection, tenant, preview.total, by.email, subject):
                return True
            batch_id = f"ASK-{settlement.ref_trx}"
            await batches.ask_in(connection, caller, preview, wanted, by, batch_id)
            await store.set_request(connection, settlement, batch_id)
        return False

    async def _responsible(self, settlement: Settlement, account: SettlementAccount) -> Decider:
        """Returns the person who is responsible for the payout and therefore cannot approve it.

        For an automatic settlement this is the person who set the account, not the person who set
        the plan, because only the account decides where the money goes.
        """
        is_automatic = settlement.ordered_by == AUTOMATIC
        email = account.set_by if is_automatic else settlement.ordered_by
        person = await people.person_by_email(self._db, Realm.DASHBOARD, email)
        return Decider(0 if person is None else person.id, email)

    @property
    def account_wait(self) -> timedelta:
        """How long an account must have been in effect before it is trusted."""
        return timedelta(hours=self._platform.now.settlement_account_wait_hours)

    async def _check_name(
        self, caller: Caller, method: Method, account: SettlementAccount
    ) -> AccountHolder:
        """Resolves the account's name again. It must match the name that the merchant confirmed."""
        holder = await self._previews.holder(caller, method, dict(account.beneficiary))
        name = holder.account_name or ""
        if not beneficiary.names_agree(name, account.account_name):
            raise refusals.InvalidBeneficiary(NAME_CHANGED.format(name))
        return holder

    async def _end(
        self, settlement: Settlement, state: SettlementState, remark: str | None
    ) -> None:
        async with self._db.transaction() as connection:
            if await store.end(connection, settlement, state, remark):
                log.info("settlement_ended", settlement=settlement.id, state=state)
                await notices.report_end(connection, settlement, remark)

    async def _is_wanted(self, plan: SettlementPlan, newest: Settlement | None) -> bool:
        """Whether the plan requires a settlement now.

        A second settlement on the same day is required if the first settlement failed, or if limits
        allowed only part of the balance.
        """
        today = _today()
        if newest is None or newest.day != today:
            return plan.is_due(today, newest.day if newest else None)
        if newest.ordered_by != AUTOMATIC or newest.attempt >= SETTLEMENTS_A_DAY:
            return False
        if newest.state is SettlementState.PAID:
            return newest.is_partial
        if newest.batch_id is not None:
            return False  # a person rejected the settlement, so no approval is requested today
        assert newest.ended_at is not None
        is_late = datetime.now(UTC) - newest.ended_at >= RETRY_AFTER
        return is_late and await store.count_failures(self._db, newest) < FAILURES_A_DAY

    def _is_open_now(self) -> bool:
        """Whether today is a payout day and not a holiday, and the settlement hour is reached."""
        now, platform = datetime.now(LAGOS), self._platform.now
        return now.hour >= platform.settlement_hour and platform.is_settlement_day(now.date())


def _today() -> date:
    return datetime.now(LAGOS).date()


def _follow_seconds(settlement: Settlement) -> float:
    age = (datetime.now(UTC) - settlement.created_at).total_seconds()
    return min(max(age / 10, FOLLOW_SECONDS_MIN), FOLLOW_SECONDS_MAX)
