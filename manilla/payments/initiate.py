"""Creates a payment: runs all checks in a fixed order, then writes it in one SQL statement."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, NoReturn

import msgspec
from msgspec import UNSET, UnsetType

from manilla.job_kinds import JobKind
from manilla.kit import strict_json, tracing
from manilla.kit.clock import iso
from manilla.kit.database.connections import Database
from manilla.kit.database.rows import common_fields
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.fields import api_field
from manilla.kit.money import Money
from manilla.kit.ratelimit import RateTicket
from manilla.ledger import trx_ids
from manilla.ledger.idempotency import RepeatKey, Replayed
from manilla.ledger.intake import Intake, IntakeOutcome, IntakeResult, NewItem
from manilla.ledger.scope import Tenant
from manilla.ledger.transactions import (
    SANDBOX_REMARK,
    CurrencyNotEnabled,
    DuplicateReference,
    KeyUsedBefore,
)
from manilla.merchants import limits
from manilla.merchants.directory import Caller
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Method
from manilla.payments import commission, eligibility, notices, sandbox_amounts, store
from manilla.payments.commission import PricedQuote, Quote
from manilla.payments.link import CheckoutLinks
from manilla.payments.payment import NewPayment, PaymentStatus, PaymentTerms
from manilla.platform.settings import CurrentSettings, LimitKind
from manilla.prices.book import PriceBook
from manilla.prices.fields import CommissionParts, Taxes, priced_fields
from manilla.prices.price import Way
from manilla.providers.rails import Rails
from manilla.splits import planning
from manilla.splits.fields import SplitInfo, describe_division
from manilla.splits.planning import GivenSplit
from manilla.splits.share import Division

EXPIRE, COMPLETE_IN_SANDBOX = JobKind.EXPIRE_PAYMENT, JobKind.SANDBOX_PAYMENT
# A request sends its charge of a saved way itself. The job sends it if the process has crashed.
WAY_CHARGE_SECONDS = 30


class WalletNotAvailable(Refusal):
    code = "WALLET_NOT_AVAILABLE"
    message = "Receiver wallet for this currency is not available."


class CommissionNotCovered(Refusal):
    code = "insufficient_balance"
    message = "Insufficient merchant balance to cover the API commission fee."


class PaymentLimitExceeded(Refusal):
    status, code = 400, "INVALID_AMOUNT"
    message = "The amount exceeds a limit of your account."


class CommissionAboveAmount(Refusal):
    """The wallet pays the commission from the amount that it is credited."""

    status, code = 400, "INVALID_AMOUNT"


class PaymentOrder(PaymentTerms, frozen=True, kw_only=True):
    """A payment request whose format has been validated."""

    payment_amount: Decimal
    currency_code: str
    repeat_key: RepeatKey | None = None
    split: GivenSplit | None = None
    # How the customer pays, if that is already known.
    method: str | None = None
    way: Way | None = None


class PaymentItem(NewItem, frozen=True, kw_only=True):
    covers_minor: int = 0  # the wallet balance needed to cover the commission


class PaymentInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    ref_trx: str
    description: str | None
    ipn_url: str
    cancel_redirect: str | None
    success_redirect: str | None
    customer_name: str | None
    customer_email: str | None
    merchant_id: int
    merchant_name: str
    amount: Decimal
    currency_code: str
    environment: str
    is_sandbox: bool
    allow_payment_methods: list[str]
    merchant_payment_methods_restricted: bool
    merchant_payment_method_ids: list[int]
    merchant_payment_method_codes: list[str]
    base_amount: Decimal
    api_fee_bearer: str
    commission_bearer: str
    api_fee_percent: Decimal
    api_commission_fee: Decimal
    commission_fee: Decimal
    customer_pays: Decimal
    merchant_receives: Decimal
    commission_parts: CommissionParts | UnsetType = UNSET
    taxes: Taxes = []
    split: Annotated[
        SplitInfo | None, api_field("How the payment is divided. Omitted if it is not.")
    ] = None


class PaymentSession(msgspec.Struct, frozen=True, omit_defaults=True):
    """A hosted checkout session: the response of initiate-payment."""

    payment_url: str
    info: PaymentInfo
    # Responses that the previous version has stored lack the following fields.
    trx_id: str = ""
    expires_at: str = ""


class PaymentInitiation:
    def __init__(
        self,
        db: Database,
        platform: CurrentSettings,
        catalogue: Catalogue,
        prices: PriceBook,
        rails: Rails,
        links: CheckoutLinks,
    ) -> None:
        self._db = db
        self._platform = platform
        self._catalogue = catalogue
        self.prices = prices
        self._rails = rails
        self._links = links
        self._db = db
        self._intake = Intake(db, "payment_initiate")

    async def initiate(
        self, caller: Caller, order: PaymentOrder, ticket: RateTicket
    ) -> PaymentSession | Replayed:
        currency = order.currency_code
        if currency not in caller.currencies:
            raise CurrencyNotEnabled
        if currency not in caller.active_wallets:
            raise WalletNotAvailable
        amount = Money.of(order.payment_amount, currency)
        self.check_limit(caller, amount)
        trx_id, created_at = trx_ids.new_with_time(caller.merchant_id)
        priced = commission.quote(
            self.prices, caller, amount, at=created_at, method=order.method, way=order.way
        )
        quote = priced.quote
        methods = eligibility.eligible(
            self._catalogue, self._rails, caller, quote.customer_pays, order.allow_payment_methods
        )
        split = order.split or caller.default_split
        if split is None and order.method is None:
            # The shares are exact when the payment is created, so a split payment has one price.
            ways = commission.choices(self.prices, caller, amount, methods, created_at)
            priced = priced.with_choices(ways)
        _check_commission(caller, priced)
        division = await self._divide(caller, split, quote)
        expires_at = created_at + timedelta(minutes=self._platform.now.checkout_minutes)
        session = PaymentSession(
            payment_url=self._links.url(trx_id, expires_at),
            info=_info(caller, order, priced, methods, division),
            trx_id=trx_id,
            expires_at=iso(expires_at),
        )
        times = {"created_at": created_at, "expires_at": expires_at}
        new = _row(caller, order, priced, trx_id, times, division)
        item = self._item(caller, order, quote, session, ticket, new)
        taken = await self._intake.take(new, item, ticket)
        if taken.outcome is IntakeOutcome.DAY_LIMIT and item.day_limit_minor is not None:
            limit = Money(currency, item.day_limit_minor)
            _exceed(f"Today's payments would exceed your daily limit of {limit}.")
        if taken.outcome is IntakeOutcome.DUPLICATE:
            assert taken.trx_id is not None
            first = {"trx_id": taken.trx_id, "status": taken.status}
            raise DuplicateReference(details=first | await self._link(new, taken.trx_id))
        answer = _accepted(taken).answer
        return Replayed(answer) if answer is not None else session

    async def _divide(
        self, caller: Caller, given: GivenSplit | None, quote: Quote
    ) -> Division | None:
        if given is None:
            return None
        tenant = Tenant(caller.merchant_id, caller.environment)
        return await planning.plan(self._db, tenant, given, quote.amount, quote.divisible)

    async def _link(self, new: NewPayment, first_trx_id: str) -> dict[str, str]:
        """Returns the first payment's URL if it can be paid and has the same amount."""
        first = await store.payment(self._db, new.merchant_id, first_trx_id)
        is_same = first is not None and (first.status, first.amount) == (
            *(PaymentStatus.PENDING, Money(new.currency, new.amount_minor)),
        )
        if first is None or not is_same or first.charges_way:
            return {}
        if first.expires_at <= datetime.now(UTC):
            return {}
        return {"payment_url": self._links.url(first_trx_id, first.expires_at)}

    def check_limit(self, caller: Caller, amount: Money) -> None:
        """Raises PaymentLimitExceeded if the amount exceeds the merchant's limit for a payment."""
        about = self._platform.now, caller, LimitKind.PAYMENT, amount.currency
        limit = limits.of(*about)
        if limit is not None and limit < amount:
            _exceed(f"The amount exceeds your limit of {limit} for a payment.")

    def _item(
        self,
        caller: Caller,
        order: PaymentOrder,
        quote: Quote,
        session: PaymentSession,
        ticket: RateTicket,
        new: NewPayment,
    ) -> PaymentItem:
        return PaymentItem.of_request(
            ticket,
            order.repeat_key,
            covers_minor=quote.deducted_later(caller.environment).minor,
            **self._job(new),
            answer=strict_json.encode(session).decode() if order.repeat_key else None,
            **limits.of_day(
                self._platform.now, caller, LimitKind.DAILY_PAYMENT, order.currency_code
            ),
            **notices.pending(caller, new),
        )

    def _job(self, new: NewPayment) -> dict[str, Any]:
        """Returns the job that ends the payment, as fields of its item."""
        now = self._platform.now
        if new.saved_way is not None:
            return {"job_kind": JobKind.WAY_CHARGE, "due_in_seconds": WAY_CHARGE_SECONDS}
        is_sandbox = new.environment is Environment.SANDBOX
        if is_sandbox and not sandbox_amounts.stays_pending(new):
            seconds = now.sandbox_complete_seconds
            return {"job_kind": COMPLETE_IN_SANDBOX, "due_in_seconds": seconds}
        return {"job_kind": EXPIRE, "due_in_seconds": now.checkout_minutes * 60}


def _exceed(text: str) -> NoReturn:
    raise PaymentLimitExceeded(text, errors={"payment_amount": text})


def _check_commission(caller: Caller, priced: PricedQuote) -> None:
    text = None if caller.is_sandbox else commission.fee_problem(priced)
    if text is not None:
        raise CommissionAboveAmount(text, errors={"payment_amount": text})


def _row(
    caller: Caller,
    order: PaymentOrder,
    priced: PricedQuote,
    trx_id: str,
    times: dict[str, Any],
    division: Division | None,
) -> NewPayment:
    return NewPayment(
        **common_fields(PaymentTerms, order),
        **priced.columns,
        merchant_id=caller.merchant_id,
        trx_id=trx_id,
        environment=caller.environment,
        remarks=SANDBOX_REMARK if caller.is_sandbox else None,
        traceparent=tracing.current(),
        split=None if division is None else planning.encode(division),
        **times,
    )


def _accepted(taken: IntakeResult) -> IntakeResult:
    match taken.outcome:
        case IntakeOutcome.CREATED | IntakeOutcome.REPLAYED:
            return taken
        case IntakeOutcome.KEY_CONFLICT:
            raise KeyUsedBefore
        case IntakeOutcome.INSUFFICIENT_BALANCE:
            raise CommissionNotCovered
    raise AssertionError(taken.outcome)


def _info(
    caller: Caller,
    order: PaymentOrder,
    priced: PricedQuote,
    methods: Sequence[Method],
    division: Division | None,
) -> PaymentInfo:
    quote = priced.quote
    amount, fee = quote.amount.amount, quote.commission.amount
    return PaymentInfo(
        ref_trx=order.ref_trx,
        description=order.description,
        ipn_url=order.ipn_url,
        cancel_redirect=order.cancel_redirect,
        success_redirect=order.success_redirect,
        customer_name=order.customer_name,
        customer_email=order.customer_email,
        merchant_id=caller.merchant_id,
        merchant_name=caller.name,
        amount=amount,
        currency_code=order.currency_code,
        environment=caller.environment,
        is_sandbox=caller.is_sandbox,
        allow_payment_methods=order.allow_payment_methods,
        merchant_payment_methods_restricted=caller.gateways is not None,
        merchant_payment_method_ids=[method.id for method in methods],
        merchant_payment_method_codes=[method.code for method in methods],
        base_amount=amount,
        api_fee_bearer=quote.bearer,
        commission_bearer=quote.bearer,
        api_fee_percent=priced.percent,
        api_commission_fee=fee,
        commission_fee=fee,
        customer_pays=quote.customer_pays.amount,
        merchant_receives=quote.merchant_receives.amount,
        **priced_fields(priced.charged.price, quote.amount.currency),
        split=None if division is None else describe_division(division, order.currency_code),
    )
