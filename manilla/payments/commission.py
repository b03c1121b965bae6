"""The platform's commission on a payment, and who pays it."""

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Generic, TypeVar

import msgspec

from manilla.kit.environment import Environment
from manilla.kit.errors import translatable
from manilla.kit.money import Money
from manilla.kit.price import PriceTerms
from manilla.merchants.directory import Caller
from manilla.merchants.merchants import CommissionBearer
from manilla.methods.method import Flow, Method
from manilla.prices.book import PriceBook
from manilla.prices.price import (
    NO_PRICE,
    Charged,
    Choice,
    Priced,
    PriceDirection,
    TaxBearer,
    TaxRule,
    Way,
    taxes_added,
)

# The largest payment, in minor units of any currency.
# `Money` can hold this amount plus a 100 % commission. A wallet can hold hundreds of such payments.
AMOUNT_MINOR_MAX = 10**16 - 1
MINIMUM = 1
CHECKOUT_WAYS = tuple(way for way in Way if way is not Way.ACCOUNT)
TOO_SMALL = translatable("The minimum is 1.00.")


AnyAmount = TypeVar("AnyAmount", Money, Decimal)


class QuotedAmounts(msgspec.Struct, Generic[AnyAmount], frozen=True):
    """The amounts that the customer pays and the merchant receives."""

    amount: AnyAmount
    commission: AnyAmount
    bearer: CommissionBearer
    customer_tax: AnyAmount  # the taxes that the customer pays on top

    @property
    def customer_pays(self) -> AnyAmount:
        amount = self.amount + self.customer_tax
        return amount + self.commission if self.bearer == CommissionBearer.CUSTOMER else amount

    @property
    def merchant_receives(self) -> AnyAmount:
        return self.amount


class Quote(QuotedAmounts[Money], frozen=True):
    tax: Money  # the taxes that the wallet pays on top

    @property
    def divisible(self) -> Money:
        """What remains of the customer's money after the commission and its taxes."""
        return self.customer_pays - self.commission - self.customer_tax - self.tax

    def deducted_later(self, environment: Environment) -> Money:
        """Returns what to deduct from the wallet on completion (0 in the sandbox)."""
        nothing = Money(self.amount.currency, 0)
        if environment is not Environment.PRODUCTION:
            return nothing
        is_borne = self.bearer is CommissionBearer.MERCHANT
        return self.tax + (self.commission if is_borne else nothing)


class PricedQuote(msgspec.Struct, frozen=True):
    """The amounts of a new payment, and why they are what they are."""

    quote: Quote
    charged: Charged
    percent: Decimal  # the percentage of the commission

    def with_choices(self, choices: Iterable[tuple[str, Charged]]) -> "PricedQuote":
        """Adds the prices of ways that cost something else than the other ways."""
        base, stored = self.charged.price, list[Choice]()
        ways: dict[str, int] = {}
        for way, charged in choices:
            if charged.price is None or charged == self.charged:
                continue
            choice = Choice(charged.fee.minor, charged.price)
            if choice not in stored:
                stored.append(choice)
            ways[way] = stored.index(choice)
        if not ways:
            return self
        price = msgspec.structs.replace(base or NO_PRICE, choices=tuple(stored), ways=ways)
        return msgspec.structs.replace(self, charged=Charged(self.charged.fee, price))

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of the new payment."""
        quote = self.quote
        return {
            "currency": quote.amount.currency,
            "amount_minor": quote.amount.minor,
            "commission_minor": quote.commission.minor,
            "commission_bearer": quote.bearer,
            "tax_minor": quote.tax.minor,
            "customer_tax_minor": quote.customer_tax.minor,
            "price": self.charged.stored,
        }

    @property
    def most_deducted_minor(self) -> int:
        """The most that can be deducted from the wallet, whatever way the customer chooses."""
        choices = self.charged.price.choices if self.charged.price else ()
        return max(
            self.quote.deducted_later(Environment.PRODUCTION).minor,
            *(each.fee_minor + each.price.added_minor(TaxBearer.MERCHANT) for each in choices),
            0,
        )


def quote(
    book: PriceBook,
    caller: Caller,
    amount: Money,
    bearer: CommissionBearer | None = None,
    at: datetime | None = None,
    method: str | None = None,
    way: Way | None = None,
) -> PricedQuote:
    """`method` and `way`: how the customer pays, if that is known when the payment is created."""
    bearer = bearer or caller.commission_bearer
    charged = _charge(book, caller, amount, bearer, at, method, way)
    currency, price = amount.currency, charged.price
    taxes = [
        Money(currency, charged.added_minor(each))
        for each in (TaxBearer.CUSTOMER, TaxBearer.MERCHANT)
    ]
    percent = caller.commission_percent
    if price is not None and price.percent is not None:
        percent = price.percent
    return PricedQuote(Quote(amount, charged.fee, bearer, *taxes), charged, percent)


def choices(
    book: PriceBook, caller: Caller, amount: Money, methods: Iterable[Method], at: datetime
) -> Iterable[tuple[str, Charged]]:
    """Yields the price of each way that the customer can choose, if the merchant bears it."""
    bearer = caller.commission_bearer
    if bearer is not CommissionBearer.MERCHANT or not book.has_ways(caller.merchant_id, at):
        return
    for method in methods:
        for way in (Way.BANK_TRANSFER,) if method.flow is Flow.VIRTUAL_ACCOUNT else CHECKOUT_WAYS:
            yield (
                way_key(method.code, way),
                _charge(book, caller, amount, bearer, at, method=method.code, way=way),
            )


def way_key(method_code: str, way: Way) -> str:
    return f"{method_code}/{way}"


def _charge(
    book: PriceBook,
    caller: Caller,
    amount: Money,
    bearer: CommissionBearer,
    at: datetime | None,
    method: str | None = None,
    way: Way | None = None,
) -> Charged:
    priced = _priced(caller, amount, bearer, method, way)
    return book.charge(caller.merchant_id, priced, _otherwise(caller), at)


def added_fee(book: PriceBook, caller: Caller, currency: str) -> PriceTerms:
    """Returns the commission that the customer pays on top of an amount."""
    if caller.commission_bearer is not CommissionBearer.CUSTOMER:
        return PriceTerms()
    return terms(book, caller, currency)


def terms(book: PriceBook, caller: Caller, currency: str) -> PriceTerms:
    """Returns the commission on payments that have no price of their own for a way to pay."""
    priced = _priced(caller, Money(currency, 0), caller.commission_bearer)
    return book.terms(caller.merchant_id, priced, _otherwise(caller))


def added_taxes(book: PriceBook, caller: Caller, currency: str) -> list[TaxRule]:
    """Returns the rules of the taxes that the customer pays on top of an amount."""
    priced = _priced(caller, Money(currency, 0), caller.commission_bearer)
    return taxes_added(book.rules(datetime.now(UTC)), priced, TaxBearer.CUSTOMER)


def _priced(
    caller: Caller,
    amount: Money,
    bearer: CommissionBearer,
    method: str | None = None,
    way: Way | None = None,
) -> Priced:
    return Priced(
        direction=PriceDirection.PAYMENT,
        environment=caller.environment,
        amount=amount,
        fee_payer=TaxBearer(bearer),
        method=method,
        way=way,
    )


def _otherwise(caller: Caller) -> PriceTerms:
    return PriceTerms(percent=caller.commission_percent)


def fee_problem(priced: PricedQuote) -> str | None:
    """Returns why the wallet cannot pay the commission from the amount, or None if it can."""
    amount = priced.quote.amount
    if priced.most_deducted_minor <= amount.minor:
        return None
    least = Money(amount.currency, priced.most_deducted_minor)
    return f"The amount is below the commission of {least}, which your wallet pays from it."


def amount_problem(amount: Money) -> str | None:
    """Returns why the amount is invalid for a payment, or None if it is valid."""
    if amount.amount < MINIMUM:
        return TOO_SMALL
    if amount.minor > AMOUNT_MINOR_MAX:
        most = Money(amount.currency, AMOUNT_MINOR_MAX)
        return f"The maximum is {most.amount:,f}."
    return None
