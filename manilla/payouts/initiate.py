"""Creates a payout: runs all checks in a fixed order, then debits the wallet in one statement."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec

from manilla.kit import strict_json
from manilla.kit.db import Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.kit.ratelimit import RateTicket
from manilla.ledger import trx_ids
from manilla.ledger.idempotency import RepeatKey, Replayed
from manilla.ledger.intake import Intake, IntakeOutcome, IntakeResult
from manilla.ledger.transactions import (
    SANDBOX_REMARK,
    DuplicateReference,
    KeyUsedBefore,
    Scenario,
)
from manilla.merchants import availability, outgoing
from manilla.merchants import queries as merchants
from manilla.merchants.availability import MerchantSuspended
from manilla.merchants.directory import Caller
from manilla.merchants.merchants import MerchantStatus
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Method
from manilla.payouts import accounts, beneficiary, refusals, rules, sandbox
from manilla.payouts.beneficiary import AccountResolver, Beneficiary
from manilla.payouts.funds import ProviderFunds
from manilla.payouts.methods import processing_type
from manilla.payouts.payout import PayoutStatus
from manilla.payouts.queries import NewPayout
from manilla.platform.settings import CurrentSettings
from manilla.providers.port import Direction, ResolvedAccount
from manilla.providers.rails import Rails

SEND, COMPLETE_IN_SANDBOX = outgoing.TRANSFER, outgoing.SANDBOX_PAYOUT


class PayoutOrder(msgspec.Struct, frozen=True):
    """A payout request whose format has been validated."""

    amount: Decimal
    currency_code: str
    ref_trx: str
    ipn_url: str  # empty for payouts from the dashboard: no notification is sent
    withdraw_method_id: int
    withdraw_account_id: int | None
    beneficiary: dict[str, Any] | None
    description: str | None
    scenario: Scenario | None
    repeat_key: RepeatKey | None
    ordered_by: str | None = None  # dashboard user; None for the API


class PayoutInfo(msgspec.Struct, frozen=True):
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
        rails: Rails,
        resolver: AccountResolver,
    ) -> None:
        self._db = db
        self._platform = platform
        self._catalogue = catalogue
        self._rails = rails
        self._resolver = resolver
        self._funds = ProviderFunds(db, rails)
        self._intake = Intake(db, "payout_initiate")

    async def initiate(
        self, caller: Caller, order: PayoutOrder, ticket: RateTicket
    ) -> InitiatedPayout | Replayed:
        method = rules.open_method(self._catalogue, caller, order.withdraw_method_id)
        rules.check(self._platform.now, caller, method, order.currency_code, datetime.now(UTC))
        amount = Money.of(order.amount, order.currency_code)
        rules.check_amount(method, amount)
        new = _row(caller, order, method, amount, ticket)
        if not self._is_settled_locally(caller, method, order, amount):
            # The reference and the balance are checked before the beneficiary, and before any call
            # to the provider.
            looked = await self._take(msgspec.structs.replace(new, dry_run=True), ticket)
            if looked.answer is not None:
                return Replayed(looked.answer)
        who = await self._read_beneficiary(caller, method, order)
        account = await self._resolve(caller, method, who, amount)
        ready = self._complete(new, who, account, order)
        initiated = _answer(caller, order, method, ready)
        if order.repeat_key is not None:
            answer = strict_json.encode(initiated).decode()
            ready = msgspec.structs.replace(ready, answer=answer)
        taken = await self._take(ready, ticket)
        return Replayed(taken.answer) if taken.answer is not None else initiated

    async def _take(self, new: NewPayout, ticket: RateTicket) -> IntakeResult:
        taken = await self._intake.take(new, ticket)
        if taken.outcome is IntakeOutcome.MERCHANT_BLOCKED:
            raise await self._obstacle(new)
        return _accepted(taken)

    async def _obstacle(self, new: NewPayout) -> Refusal:
        """Returns the refusal for a merchant whose status has changed since it was cached."""
        merchant = await merchants.merchant(self._db, new.merchant_id)
        assert merchant is not None
        is_sandbox = new.environment == Environment.SANDBOX
        found = availability.obstacle(MerchantStatus(merchant.status), is_sandbox=is_sandbox)
        return (found or MerchantSuspended)()

    def _is_settled_locally(
        self, caller: Caller, method: Method, order: PayoutOrder, amount: Money
    ) -> bool:
        """Returns whether all checks after the balance pass without a call to the provider."""
        if order.beneficiary is None:
            return False
        try:
            who = beneficiary.read(method, order.beneficiary)
            if method.provider is None:
                return True
            if caller.is_sandbox:
                self._resolver.resolve_in_sandbox(method.provider, who)
                return True
        except Refusal:
            return False
        return (
            self._resolver.known(method.provider, who) is not None
            and self._funds.is_known(method.provider, amount.currency)
            and not self._rails.is_down(method.provider, Direction.PAY_OUT)
        )

    async def _read_beneficiary(
        self, caller: Caller, method: Method, order: PayoutOrder
    ) -> Beneficiary:
        given: Mapping[str, Any] | None = order.beneficiary
        if given is None:
            assert order.withdraw_account_id is not None
            saved = await accounts.find(self._db, caller.merchant_id, order.withdraw_account_id)
            if saved is None:
                raise refusals.InvalidBeneficiary("There is no such saved account.")
            if saved.method_code != method.code:
                raise refusals.InvalidBeneficiary("The saved account is for another method.")
            given = saved.beneficiary
        return beneficiary.read(method, given)

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

    def _complete(
        self,
        new: NewPayout,
        who: Beneficiary,
        account: ResolvedAccount | None,
        order: PayoutOrder,
    ) -> NewPayout:
        fields = dict(who.fields)
        if account is not None and account.name_enquiry_reference:
            fields["name_enquiry_reference"] = account.name_enquiry_reference
        job_kind: str | None = SEND
        due_in_seconds = 0.0
        if new.environment == "sandbox":
            due_in_seconds = self._platform.now.sandbox_complete_seconds
            job_kind = COMPLETE_IN_SANDBOX if _ends_by_itself(new, who, order) else None
        elif new.provider is None:
            job_kind = None
        return msgspec.structs.replace(
            new,
            beneficiary=fields,
            account_name=account.account_name if account else None,
            note=_note(who, account, order),
            job_kind=job_kind,
            due_in_seconds=due_in_seconds,
        )


def _note(who: Beneficiary, account: ResolvedAccount | None, order: PayoutOrder) -> str:
    paid = beneficiary.note(who, account)
    return f"{paid} Ordered by {order.ordered_by}." if order.ordered_by else paid


def _ends_by_itself(new: NewPayout, who: Beneficiary, order: PayoutOrder) -> bool:
    """Whether a sandbox payout completes automatically. A scenario overrides the account number."""
    if order.scenario is not None:
        return order.scenario is not Scenario.PENDING
    return new.provider is not None and who.account_number != sandbox.STAYS_PENDING


def _row(
    caller: Caller, order: PayoutOrder, method: Method, amount: Money, ticket: RateTicket
) -> NewPayout:
    repeat = order.repeat_key
    return NewPayout(
        merchant_id=caller.merchant_id,
        bucket=ticket.bucket,
        rate_limit=ticket.limit,
        trx_id=trx_ids.new(caller.merchant_id),
        environment=caller.environment,
        ref_trx=order.ref_trx,
        currency=amount.currency,
        amount_minor=amount.minor,
        fee_minor=method.fee.of(amount).minor,
        method_id=method.id,
        method_code=method.code,
        method_name=method.name,
        provider=method.provider,
        beneficiary={},
        account_name=None,
        description=order.description,
        ipn_url=order.ipn_url,
        scenario=order.scenario,
        remarks=SANDBOX_REMARK if caller.is_sandbox else None,
        ordered_by=order.ordered_by,
        note="",
        job_kind=None,
        due_in_seconds=0,
        endpoint=repeat.endpoint if repeat else None,
        key=repeat.key if repeat else None,
        body_hash=repeat.body_hash if repeat else None,
        answer=None,
    )


def _answer(caller: Caller, order: PayoutOrder, method: Method, new: NewPayout) -> InitiatedPayout:
    amount, fee = (Money(new.currency, minor) for minor in (new.amount_minor, new.fee_minor))
    return InitiatedPayout(
        trx_id=new.trx_id,
        status=PayoutStatus.PENDING,
        info=PayoutInfo(
            merchant_id=caller.merchant_id,
            merchant_name=caller.name,
            ref_trx=order.ref_trx,
            ipn_url=order.ipn_url,
            environment=caller.environment,
            is_sandbox=caller.is_sandbox,
            api_merchant_payout=order.ordered_by is None,
            withdraw_method_id=method.id,
            withdraw_method=method.name,
            trx_id=new.trx_id,
            payout_amount=amount.amount,
            currency_code=amount.currency,
            fee=fee.amount,
            net_amount=amount.amount,
            payable_amount=(amount + fee).amount,
            status=PayoutStatus.PENDING,
            processing_type=processing_type(method),
        ),
    )


REFUSALS = {
    IntakeOutcome.KEY_CONFLICT: KeyUsedBefore,
    IntakeOutcome.PAYOUT_DISABLED: refusals.PayoutDisabled,
    IntakeOutcome.INSUFFICIENT_BALANCE: refusals.InsufficientBalance,
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
