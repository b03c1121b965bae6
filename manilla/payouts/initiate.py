"""Creates a payout: all checks run in a fixed order, then one SQL statement debits the wallet."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from manilla.beneficiaries import accounts, beneficiary, sandbox
from manilla.beneficiaries.accounts import SavedAccount
from manilla.beneficiaries.beneficiary import AccountResolver, Beneficiary
from manilla.beneficiaries.methods import BANK_CODE, processing_type
from manilla.job_kinds import JobKind
from manilla.kit import strict_json, tracing
from manilla.kit.database.connections import Database
from manilla.kit.database.rows import common_fields
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.fields import api_field
from manilla.kit.money import Money, amount_of
from manilla.kit.ratelimit import RateTicket
from manilla.ledger import posting, trx_ids
from manilla.ledger.idempotency import RepeatKey, Replayed
from manilla.ledger.intake import Intake, IntakeOutcome, IntakeResult, NewItem
from manilla.ledger.transactions import (
    SANDBOX_REMARK,
    DuplicateReference,
    KeyUsedBefore,
    Scenario,
)
from manilla.merchants import availability, limits
from manilla.merchants import queries as merchants
from manilla.merchants.availability import MerchantSuspended
from manilla.merchants.credentials import InvalidCredentials
from manilla.merchants.directory import Caller
from manilla.merchants.merchants import MerchantStatus
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Method, MethodKind
from manilla.payouts import notices, rules
from manilla.payouts.payout import NewPayout, PayoutStatus, PayoutTerms
from manilla.platform.settings import CurrentSettings, LimitKind
from manilla.prices.book import PriceBook
from manilla.prices.fields import CommissionParts, Taxes, priced_fields
from manilla.prices.price import Charged, Purpose
from manilla.providers.port import Direction, ResolvedAccount
from manilla.providers.rails import Rails
from manilla.routing.choice import RouteDecision
from manilla.routing.funds import ProviderFunds
from manilla.routing.router import PayoutRoute, PayoutTarget, Router
from manilla.transfers import refusals

SEND, COMPLETE_IN_SANDBOX = JobKind.TRANSFER, JobKind.SANDBOX_PAYOUT


class PayoutOrder(PayoutTerms, frozen=True, kw_only=True):
    """A payout request whose format has been validated."""

    payout_amount: Decimal
    currency_code: str
    withdraw_method_id: int
    withdraw_account_id: int | None = None
    beneficiary: dict[str, Any] | None = None
    repeat_key: RepeatKey | None = None
    # The row of a payout file that this payout pays. The row must still be ready.
    batch_id: str | None = None
    batch_row: int | None = None
    api_key: int | None = None  # number of the additional API key that created the payout
    asked_purpose: Any = None  # the purpose in a request, not checked yet
    expected_name: str | None = None  # the account holder's name that the user was shown


class PayoutItem(NewItem, frozen=True, kw_only=True):
    route: RouteDecision | None = None  # why the provider was chosen
    accepted: str = ""  # text for the timeline: the beneficiary and the resolved account name
    batch_id: str | None = None
    batch_row: int | None = None
    api_key: int | None = None  # the additional API key, which must still be active
    saved_account_id: int | None = None  # id of the saved account, or None if it is not needed
    mail_job_kind: str | None = None  # type of the job that queues emails about a large payout
    # The accounts and amounts of the taxes that the platform owes.
    tax_accounts: list[str] | None = None
    tax_minors: list[int] | None = None


class PayoutInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    merchant_id: int
    merchant_name: str
    ref_trx: str
    ipn_url: str
    environment: str
    is_sandbox: bool
    api_merchant_payout: bool
    withdraw_method_id: int
    withdraw_method: str
    trx_id: str
    payout_amount: Decimal
    currency_code: str
    fee: Decimal
    net_amount: Decimal
    payable_amount: Decimal
    status: str
    processing_type: str
    purpose: Annotated[
        str | None, api_field("The purpose that was accepted. Absent if there is none.")
    ] = None
    commission_parts: CommissionParts | UnsetType = UNSET
    taxes: Taxes = []


class InitiatedPayout(msgspec.Struct, frozen=True):
    trx_id: str
    status: str
    info: PayoutInfo


class PayoutInitiation:
    def __init__(
        self,
        db: Database,
        platform: CurrentSettings,
        catalogue: Catalogue,
        prices: PriceBook,
        rails: Rails,
        resolver: AccountResolver,
        funds: ProviderFunds,
        router: Router,
    ) -> None:
        self._db = db
        self._platform = platform
        self._catalogue = catalogue
        self._prices = prices
        self._rails = rails
        self._resolver = resolver
        self._funds = funds
        self._router = router
        self._intake = Intake(db, "payout_initiate")

    async def initiate(
        self, caller: Caller, order: PayoutOrder, ticket: RateTicket
    ) -> InitiatedPayout | Replayed:
        method = rules.open_method(self._catalogue, caller, order.withdraw_method_id)
        rules.check(self._platform.now, caller, method, order.currency_code, datetime.now(UTC))
        amount = Money.of(order.payout_amount, order.currency_code)
        rules.check_amount(method, amount)
        rules.check_limit(self._platform.now, caller, amount)
        purpose = order.purpose or rules.read_purpose(self._prices, order.asked_purpose)
        charged = rules.charge(self._prices, caller, method, amount, purpose)
        cost = {**rules.cost_columns(charged), "purpose": purpose}
        checked = {
            **_tax_lines(charged),
            **limits.of_day(self._platform.now, caller, LimitKind.DAILY_PAYOUT, amount.currency),
            "batch_id": order.batch_id,
            "batch_row": order.batch_row,
            "api_key": order.api_key,
        }
        known = self._known_beneficiary(caller, method, order, amount)
        if known is None:
            # Check the reference and the balance before the provider is called.
            item = PayoutItem.of_request(ticket, order.repeat_key, **checked, dry_run=True)
            looked = await self._take(_row(caller, order, method, amount, cost), item, ticket)
            if looked.answer is not None:
                return Replayed(looked.answer)
        who, saved_id = await self._read_beneficiary(caller, method, order, known)
        route = await self._route(caller, who, amount) if method.is_auto else None
        account = route.account if route else await self._resolve(caller, method, who, amount)
        _check_holder(order, account)
        if purpose is Purpose.OWN_ACCOUNT:
            await rules.check_own_account(self._db, caller, method, who, account)
        new = _row(caller, order, method, amount, cost, **_destination(who, account, route))
        initiated = _answer(caller, method, new, charged)
        item = PayoutItem.of_request(
            ticket,
            order.repeat_key,
            **checked,
            route=route.decision if route else None,
            accepted=_note(who, account, order),
            saved_account_id=saved_id,
            answer=strict_json.encode(initiated).decode() if order.repeat_key else None,
            mail_job_kind=JobKind.LARGE_PAYOUT if self._is_large(new, amount) else None,
            **self._job(new, who),
            **notices.pending(caller, new),
        )
        taken = await self._take(new, item, ticket)
        return Replayed(taken.answer) if taken.answer is not None else initiated

    async def _take(self, new: NewPayout, item: PayoutItem, ticket: RateTicket) -> IntakeResult:
        taken = await self._intake.take(new, item, ticket)
        if taken.outcome is IntakeOutcome.MERCHANT_BLOCKED:
            raise await self._obstacle(new)
        if taken.outcome is IntakeOutcome.DAY_LIMIT and item.day_limit_minor is not None:
            limit = Money(new.currency, item.day_limit_minor)
            raise refusals.PayoutFailed(
                f"Today's payouts would exceed your daily limit of {limit}."
            )
        return _accepted(taken)

    async def _obstacle(self, new: NewPayout) -> Refusal:
        """Returns the error for a merchant whose status has changed since the status was cached."""
        merchant = await merchants.merchant(self._db, new.merchant_id)
        assert merchant is not None
        is_sandbox = new.environment == Environment.SANDBOX
        found = availability.obstacle(MerchantStatus(merchant.status), is_sandbox=is_sandbox)
        return (found or MerchantSuspended)()

    def _known_beneficiary(
        self, caller: Caller, method: Method, order: PayoutOrder, amount: Money
    ) -> Beneficiary | None:
        """Returns the beneficiary if it can be checked without the provider, otherwise None.

        If it returns None, the caller must check the balance before the beneficiary.
        """
        if order.beneficiary is None or method.is_auto:
            return None
        try:
            who = beneficiary.read(method, order.beneficiary)
            if method.provider is None:
                return who
            if caller.is_sandbox:
                self._resolver.resolve_in_sandbox(method.provider, who)
                return who
        except Refusal:
            return None
        is_known = (
            self._resolver.known(method.provider, who) is not None
            and self._funds.is_known(method.provider, amount.currency)
            and not self._rails.is_down(method.provider, Direction.PAY_OUT)
        )
        return who if is_known else None

    async def _read_beneficiary(
        self, caller: Caller, method: Method, order: PayoutOrder, known: Beneficiary | None
    ) -> tuple[Beneficiary, int | None]:
        """Returns the beneficiary and its saved account's id (None if the id is not needed)."""
        given: Mapping[str, Any] | None = order.beneficiary
        saved_id = order.withdraw_account_id
        if given is None:
            assert saved_id is not None
            saved = await accounts.find(self._db, caller.merchant_id, saved_id)
            if saved is None:
                raise refusals.InvalidBeneficiary("There is no such saved account.")
            given = self._saved(method, saved)
        who = known or beneficiary.read(method, given)
        if method.is_auto:
            bank = await self._router.find_bank(who.bank_code, method.currency, caller.environment)
            who = Beneficiary({**who.fields, BANK_CODE: bank.code})
        if caller.accounts_locked and saved_id is None:
            saved_id = await self._find_saved(caller, method, who)
        return who, saved_id

    async def _find_saved(self, caller: Caller, method: Method, who: Beneficiary) -> int:
        """Returns the id of the saved account, for a merchant that can pay only saved accounts."""
        for saved in await accounts.with_number(self._db, caller.merchant_id, who.number):
            try:
                fields = beneficiary.read(method, self._saved(method, saved)).fields
            except Refusal:
                continue
            names = [name for name in fields if name not in beneficiary.OPTIONAL]
            if all(fields[name] == who.fields.get(name) for name in names):
                return saved.id
        raise refusals.AccountNotSaved

    def _saved(self, method: Method, saved: SavedAccount) -> dict[str, Any]:
        """Returns a saved beneficiary. The automatic method accepts beneficiaries of any rail."""
        if saved.method_code == method.code:
            return saved.beneficiary
        other = self._catalogue.by_code(MethodKind.WITHDRAW, saved.method_code)
        if not method.is_auto or other is None or not other.is_rail:
            raise refusals.InvalidBeneficiary("The saved account is for another method.")
        bank = self._router.bank(saved.bank, at=other.provider)
        return {**saved.beneficiary, BANK_CODE: bank.code}

    async def _route(self, caller: Caller, who: Beneficiary, amount: Money) -> PayoutRoute:
        target = PayoutTarget(
            amount=amount,
            bank=self._router.bank(who.bank_code),
            account_number=who.account_number,
            environment=caller.environment,
        )
        return await self._router.route(target)

    async def _resolve(
        self, caller: Caller, method: Method, who: Beneficiary, amount: Money
    ) -> ResolvedAccount | None:
        """Resolves the account's name before the debit, and checks that the provider can pay."""
        if method.provider is None:
            return None
        if caller.is_sandbox:
            return self._resolver.resolve_in_sandbox(method.provider, who)
        if self._rails.is_down(method.provider, Direction.PAY_OUT):
            raise refusals.ProviderUnavailable
        account = await self._resolver.resolve(method.provider, who)
        await self._funds.check(method.provider, amount)
        return account

    def _is_large(self, new: NewPayout, amount: Money) -> bool:
        limit = self._platform.now.large_payout_in(amount.currency)
        is_production = new.environment is Environment.PRODUCTION
        return is_production and limit is not None and amount >= limit

    def _job(self, new: NewPayout, who: Beneficiary) -> dict[str, Any]:
        """Returns the type and delay of the payout's job. In the sandbox, the job completes it."""
        if new.environment is Environment.SANDBOX:
            due_in_seconds = self._platform.now.sandbox_complete_seconds
            job_kind = COMPLETE_IN_SANDBOX if _ends_by_itself(new, who) else None
            return {"job_kind": job_kind, "due_in_seconds": due_in_seconds}
        return {"job_kind": None if new.provider is None else SEND}


def _check_holder(order: PayoutOrder, account: ResolvedAccount | None) -> None:
    """Rejects an account if its holder's name differs from the name that the user was shown."""
    if order.expected_name is None or account is None:
        return
    if not beneficiary.names_agree(order.expected_name, account.account_name):
        raise refusals.InvalidBeneficiary(
            f"The bank now names {account.account_name} as the account's holder, "
            f"not {order.expected_name}."
        )


def _destination(
    who: Beneficiary, account: ResolvedAccount | None, route: PayoutRoute | None
) -> dict[str, Any]:
    """Returns the payout's columns that describe the beneficiary, the account name and the rail."""
    columns: dict[str, Any] = {"beneficiary": who.fields}
    if account is not None:
        columns["account_name"] = account.account_name
        if account.name_enquiry_reference:
            reference = {"name_enquiry_reference": account.name_enquiry_reference}
            columns["beneficiary"] = {**who.fields, **reference}
    if route is not None:
        columns |= {"provider": route.provider, "rail_bank_code": route.bank_code}
    return columns


def _note(who: Beneficiary, account: ResolvedAccount | None, order: PayoutOrder) -> str:
    paid = beneficiary.note(who, account)
    return f"{paid} Ordered by {order.ordered_by}." if order.ordered_by else paid


def _ends_by_itself(new: NewPayout, who: Beneficiary) -> bool:
    """Whether a sandbox payout completes automatically.

    A scenario takes precedence over the test account number.
    """
    if new.scenario is not None:
        return new.scenario is not Scenario.PENDING
    return new.provider is not None and who.account_number != sandbox.STAYS_PENDING


def _tax_lines(charged: Charged) -> dict[str, Any]:
    if charged.price is None or not charged.price.owed:
        return {}
    return {
        "tax_accounts": [posting.tax(tax.name) for tax in charged.price.owed],
        "tax_minors": [tax.minor for tax in charged.price.owed],
    }


def _row(
    caller: Caller,
    order: PayoutOrder,
    method: Method,
    amount: Money,
    cost: Mapping[str, Any],
    **destination: Any,
) -> NewPayout:
    trx_id, created_at = trx_ids.new_with_time(caller.merchant_id)
    columns = {"provider": method.provider, "beneficiary": {}, "account_name": None, **destination}
    return NewPayout(
        **{**common_fields(PayoutTerms, order), **cost},
        merchant_id=caller.merchant_id,
        trx_id=trx_id,
        created_at=created_at,
        environment=caller.environment,
        currency=amount.currency,
        amount_minor=amount.minor,
        method_id=method.id,
        method_code=method.code,
        method_name=method.name,
        **columns,
        remarks=SANDBOX_REMARK if caller.is_sandbox else None,
        traceparent=tracing.current(),
    )


def _answer(caller: Caller, method: Method, new: NewPayout, charged: Charged) -> InitiatedPayout:
    amount, fee = amount_of(new.currency, new.amount_minor), amount_of(new.currency, new.fee_minor)
    return InitiatedPayout(
        trx_id=new.trx_id,
        status=PayoutStatus.PENDING,
        info=PayoutInfo(
            merchant_id=caller.merchant_id,
            merchant_name=caller.name,
            ref_trx=new.ref_trx,
            ipn_url=new.ipn_url,
            environment=caller.environment,
            is_sandbox=caller.is_sandbox,
            api_merchant_payout=new.ordered_by is None,
            withdraw_method_id=method.id,
            withdraw_method=method.name,
            trx_id=new.trx_id,
            payout_amount=amount,
            currency_code=new.currency,
            fee=fee,
            net_amount=amount,
            payable_amount=new.payable.amount,
            status=PayoutStatus.PENDING,
            processing_type=processing_type(method),
            purpose=new.purpose,
            **priced_fields(charged.price, new.currency),
        ),
    )


REFUSALS = {
    IntakeOutcome.KEY_CONFLICT: KeyUsedBefore,
    IntakeOutcome.API_KEY_ENDED: InvalidCredentials,
    IntakeOutcome.PAYOUT_DISABLED: refusals.PayoutDisabled,
    IntakeOutcome.INSUFFICIENT_BALANCE: refusals.InsufficientBalance,
    IntakeOutcome.ACCOUNT_NOT_SAVED: refusals.AccountNotSaved,
    IntakeOutcome.ROW_DECIDED: refusals.RowDecided,
}


def _accepted(taken: IntakeResult) -> IntakeResult:
    match taken.outcome:
        case IntakeOutcome.CREATED | IntakeOutcome.FREE | IntakeOutcome.REPLAYED:
            return taken
        case IntakeOutcome.DUPLICATE:
            raise DuplicateReference(details={"trx_id": taken.trx_id, "status": taken.status})
        case IntakeOutcome.NO_WALLET:
            raise refusals.PayoutFailed("There is no active wallet in this currency.")
    raise REFUSALS[taken.outcome]
