"""Lets customers pay with payment links. Each customer makes an ordinary payment on checkout."""

import secrets

import msgspec

from manilla.kit import ids
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal, Unavailable, translatable
from manilla.kit.money import Money
from manilla.kit.price import PriceTerms
from manilla.kit.ratelimit import RateLimiter, RateLimitExceeded, RateTicket, address_bucket
from manilla.ledger.transactions import CurrencyNotEnabled, DuplicateReference
from manilla.merchants import limits
from manilla.merchants.branding import Branding
from manilla.merchants.directory import Caller, Directory
from manilla.payments import commission, eligibility
from manilla.payments.commission import Quote
from manilla.payments.initiate import (
    CommissionAboveAmount,
    CommissionNotCovered,
    PaymentInitiation,
    PaymentLimitExceeded,
    PaymentOrder,
    PaymentSession,
    WalletNotAvailable,
)
from manilla.payments.link import CheckoutLinks
from manilla.payments.payment_links import store
from manilla.payments.payment_links.link import LinkStatus, PaymentLink
from manilla.prices.wording import describe, name_of, rate_of
from manilla.splits import planning
from manilla.splits.rule import PartsAboveAmount, SplitInvalid

# The maximum numbers of payments started per minute, per IP address and per link.
# Many customers of a mobile network can share an IP address.
ADDRESS_LIMIT, LINK_LIMIT = 30, 120
TRIES = 5
RANDOM_CHARACTERS = 13


class LinkClosed(Refusal):
    status, code = 410, "PAYMENT_LINK_CLOSED"
    message = translatable("This payment link is closed. You have not been charged.")


class PaymentNotPossible(Refusal):
    code = "PAYMENT_NOT_POSSIBLE"
    message = translatable(
        "The merchant cannot take this payment at the moment. You have not been charged. Please "
        "contact the merchant."
    )


class AmountNotPossible(PaymentNotPossible):
    message = translatable(
        "The merchant cannot take this amount at the moment. You have not been charged. Please "
        "contact the merchant."
    )


class PaymentInProgress(Refusal):
    """A customer has started to pay another amount with this single-payment link."""

    status, code = 409, "PAYMENT_IN_PROGRESS"
    message = translatable(
        "A payment of %(amount)s with this link is in progress. Continue that payment, or cancel"
        " it first."
    )

    def __init__(self, amount: Money, payment_url: str) -> None:
        super().__init__(self.message % {"amount": amount})
        self.amount = amount
        self.payment_url = payment_url


class CustomerInput(msgspec.Struct, frozen=True, kw_only=True):
    """The customer's input. The amount is ignored if the payment link has an amount."""

    amount: Money | None = None
    name: str | None = None
    email: str | None = None


class LinkView(msgspec.Struct, frozen=True):
    """All data for the page of a payment link."""

    link: PaymentLink
    merchant_name: str
    branding: Branding
    quote: Quote | None  # None if the customer enters the amount
    fee: str | None  # the commission that the customer pays on top of the amount
    taxes: list[str]  # that the customer pays on top of the amount
    can_be_paid: bool  # False if the link is closed, or if the merchant cannot take payments


class LinkPayments:
    def __init__(
        self,
        db: Database,
        directory: Directory,
        limiter: RateLimiter,
        initiation: PaymentInitiation,
        checkout: CheckoutLinks,
        base_url: str,
    ) -> None:
        self._db = db
        self._directory = directory
        self._limiter = limiter
        self._initiation = initiation
        self._checkout = checkout
        self._base_url = base_url

    async def view(self, link_id: str) -> LinkView:
        link = await store.find(self._db, link_id)
        caller = await self._directory.of(link.environment, link.merchant_id)
        prices = self._initiation.prices
        fee = commission.added_fee(prices, caller, link.currency)
        return LinkView(
            link,
            caller.name,
            caller.branding,
            None if link.amount is None else commission.quote(prices, caller, link.amount).quote,
            None if fee == PriceTerms() else describe(fee, link.currency),
            [
                f"{name_of(rule.name)} ({rate_of(rule.content)})"
                for rule in commission.added_taxes(prices, caller, link.currency)
            ],
            link.status is LinkStatus.ACTIVE and _takes_payments(caller, link),
        )

    async def start(self, link_id: str, given: CustomerInput, address: str) -> str:
        """Creates a payment and returns its checkout URL."""
        await self._count(address)
        link = await store.find(self._db, link_id)
        _check_active(link)
        caller = await self._directory.of(link.environment, link.merchant_id)
        if not _takes_payments(caller, link):
            raise PaymentNotPossible
        amount = link.amount or given.amount
        assert amount is not None
        assert amount.currency == link.currency
        ticket = limits.rate_ticket(link.merchant_id, f"link:{link.id}", LINK_LIMIT)
        order = self._order(link, amount, given)
        if link.single_use:
            return await self._start_single(caller, link, order, ticket)
        return await self._initiate(caller, link, order, _random_suffix(), ticket)

    async def _count(self, address: str) -> None:
        bucket = f"pay:{address_bucket(address)}"
        allowance = await self._limiter.take(bucket, ADDRESS_LIMIT)
        if allowance.exceeded:
            raise RateLimitExceeded(retry_after_seconds=allowance.resets_in_seconds)

    def _order(self, link: PaymentLink, amount: Money, given: CustomerInput) -> PaymentOrder:
        return PaymentOrder(
            ref_trx="",
            ipn_url="",
            payment_amount=amount.amount,
            currency_code=link.currency,
            description="\n".join(filter(None, (link.title, link.description))),
            success_redirect=link.success_redirect,
            cancel_redirect=self._base_url + link.path,
            customer_name=given.name,
            customer_email=given.email,
            link_id=link.id,
            customer_reference=link.customer_reference,
            split=None if link.split is None else planning.decode_given(link.split),
        )

    async def _start_single(
        self, caller: Caller, link: PaymentLink, order: PaymentOrder, ticket: RateTicket
    ) -> str:
        """Returns the checkout URL of the only open payment of a single-payment link.

        Payments of a link are numbered, and each payment's reference ends with the payment's
        number. If two customers start at the same time, both requests use the same reference. One
        request creates the payment, and the other gets the same payment.
        """
        for _ in range(TRIES):
            number = await store.count_payments(self._db, link) + 1
            opened = await store.open_payment(self._db, link)
            if opened is not None:
                url = self._checkout.url(opened.trx_id, opened.expires_at)
                if opened.amount.amount != order.payment_amount:
                    raise PaymentInProgress(opened.amount, url)
                return url
            # Read the link again: another customer may have paid it in the meantime.
            _check_active(await store.find(self._db, link.id))
            try:
                return await self._initiate(caller, link, order, str(number), ticket)
            except DuplicateReference:
                continue
        raise Unavailable

    async def _initiate(
        self,
        caller: Caller,
        link: PaymentLink,
        order: PaymentOrder,
        suffix: str,
        ticket: RateTicket,
    ) -> str:
        named = msgspec.structs.replace(order, ref_trx=link.reference_prefix + suffix)
        try:
            session = await self._initiation.initiate(caller, named, ticket)
        except (PaymentLimitExceeded, CommissionAboveAmount, PartsAboveAmount):
            raise AmountNotPossible from None
        except (CurrencyNotEnabled, WalletNotAvailable, CommissionNotCovered, SplitInvalid):
            raise PaymentNotPossible from None
        # A payment request without an idempotency key always creates a new session.
        assert isinstance(session, PaymentSession)
        return session.payment_url


def _check_active(link: PaymentLink) -> None:
    if link.status is not LinkStatus.ACTIVE:
        raise LinkClosed


def _takes_payments(caller: Caller, link: PaymentLink) -> bool:
    return eligibility.can_take_payments(caller, link.currency)


def _random_suffix() -> str:
    return ids.base32(secrets.randbits(5 * RANDOM_CHARACTERS), RANDOM_CHARACTERS)
