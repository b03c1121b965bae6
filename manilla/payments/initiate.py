"""Creates a payment: runs all checks in a fixed order, then writes it in one SQL statement."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, NoReturn

import msgspec

from manilla.job_kinds import JobKind
from manilla.kit import strict_json, tracing
from manilla.kit.database.connections import Database
from manilla.kit.database.rows import common_fields
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
from manilla.payments import commission, eligibility, notices, sandbox_amounts
from manilla.payments.commission import Quote
from manilla.payments.link import CheckoutLinks
from manilla.payments.payment import NewPayment, PaymentTerms
from manilla.platform.settings import CurrentSettings, LimitKind
from manilla.providers.rails import Rails
from manilla.splits import planning
from manilla.splits.fields import SplitInfo, describe_division
from manilla.splits.planning import GivenSplit
from manilla.splits.share import Division

EXPIRE, COMPLETE_IN_SANDBOX = JobKind.EXPIRE_PAYMENT, JobKind.SANDBOX_PAYMENT


class WalletNotAvailable(Refusal):
    code = "WALLET_NOT_AVAILABLE"
    message = "Receiver wallet for this currency is not available."


class CommissionNotCovered(Refusal):
    code = "insufficient_balance"
    message = "Insufficient merchant balance to cover the API commission fee."


class PaymentLimitExceeded(Refusal):
    status, code = 400, "INVALID_AMOUNT"
    message = "The amount exceeds a limit of your account."


class PaymentOrder(PaymentTerms, frozen=True, kw_only=True):
    """A payment request whose format has been validated."""

    payment_amount: Decimal
    currency_code: str
    repeat_key: RepeatKey | None = None
    split: GivenSplit | None = None


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
    split: Annotated[
        SplitInfo | None, api_field("How the payment is divided. Omitted if it is not.")
    ] = None


class PaymentSession(msgspec.Struct, frozen=True):
    """A hosted checkout session: the response of initiate-payment."""

    payment_url: str
    info: PaymentInfo

    @property
    def trx_id(self) -> str:
        return self.payment_url.partition("?")[0].rpartition("/")[2]


class PaymentInitiation:
    def __init__(
        self,
        db: Database,
        platform: CurrentSettings,
        catalogue: Catalogue,
        rails: Rails,
        links: CheckoutLinks,
    ) -> None:
        self._db = db
        self._platform = platform
        self._catalogue = catalogue
        self._rails = rails
        self._links = links
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
        quote = commission.quote(amount, caller.commission_percent, caller.commission_bearer)
        methods = eligibility.eligible(
            self._catalogue, self._rails, caller, quote.customer_pays, order.allow_payment_methods
        )
        division = await self._divide(caller, order, quote)
        trx_id, created_at = trx_ids.new_with_time(caller.merchant_id)
        expires_at = created_at + timedelta(minutes=self._platform.now.checkout_minutes)
        session = PaymentSession(
            payment_url=self._links.url(trx_id, expires_at),
            info=_info(caller, order, quote, methods, division),
        )
        times = {"created_at": created_at, "expires_at": expires_at}
        new = _row(caller, order, quote, trx_id, times, division)
        item = self._item(caller, order, quote, session, ticket, new)
        taken = await self._intake.take(new, item, ticket)
        if taken.outcome is IntakeOutcome.DAY_LIMIT and item.day_limit_minor is not None:
            limit = Money(currency, item.day_limit_minor)
            _exceed(f"Today's payments would exceed your daily limit of {limit}.")
        answer = _accepted(taken).answer
        return Replayed(answer) if answer is not None else session

    async def _divide(self, caller: Caller, order: PaymentOrder, quote: Quote) -> Division | None:
        given = order.split or caller.default_split
        if given is None:
            return None
        tenant = Tenant(caller.merchant_id, caller.environment)
        return await planning.plan(self._db, tenant, given, quote.amount, quote.divisible)

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
        completes_by_itself = caller.is_sandbox and not sandbox_amounts.stays_pending(new)
        now = self._platform.now
        return PaymentItem.of_request(
            ticket,
            order.repeat_key,
            covers_minor=quote.deducted_later(caller.environment).minor,
            job_kind=COMPLETE_IN_SANDBOX if completes_by_itself else EXPIRE,
            due_in_seconds=(
                now.sandbox_complete_seconds if completes_by_itself else now.checkout_minutes * 60
            ),
            answer=strict_json.encode(session).decode() if order.repeat_key else None,
            **limits.of_day(now, caller, LimitKind.DAILY_PAYMENT, order.currency_code),
            **notices.pending(caller, new),
        )


def _exceed(text: str) -> NoReturn:
    raise PaymentLimitExceeded(text, errors={"payment_amount": text})


def _row(
    caller: Caller,
    order: PaymentOrder,
    quote: Quote,
    trx_id: str,
    times: dict[str, Any],
    division: Division | None,
) -> NewPayment:
    return NewPayment(
        **common_fields(PaymentTerms, order),
        merchant_id=caller.merchant_id,
        trx_id=trx_id,
        environment=caller.environment,
        currency=order.currency_code,
        amount_minor=quote.amount.minor,
        commission_minor=quote.commission.minor,
        commission_bearer=quote.bearer,
        remarks=SANDBOX_REMARK if caller.is_sandbox else None,
        traceparent=tracing.current(),
        split=None if division is None else planning.encode(division),
        **times,
    )


def _accepted(taken: IntakeResult) -> IntakeResult:
    match taken.outcome:
        case IntakeOutcome.CREATED | IntakeOutcome.REPLAYED:
            return taken
        case IntakeOutcome.DUPLICATE:
            raise DuplicateReference(details={"trx_id": taken.trx_id, "status": taken.status})
        case IntakeOutcome.KEY_CONFLICT:
            raise KeyUsedBefore
        case IntakeOutcome.INSUFFICIENT_BALANCE:
            raise CommissionNotCovered
    raise AssertionError(taken.outcome)


def _info(
    caller: Caller,
    order: PaymentOrder,
    quote: Quote,
    methods: Sequence[Method],
    division: Division | None,
) -> PaymentInfo:
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
        api_fee_percent=caller.commission_percent,
        api_commission_fee=fee,
        commission_fee=fee,
        customer_pays=quote.customer_pays.amount,
        merchant_receives=quote.merchant_receives.amount,
        split=None if division is None else describe_division(division, order.currency_code),
    )
