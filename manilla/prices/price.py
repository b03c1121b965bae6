"""The price of a transaction, computed from price plans and tax rules. Nothing here reads data."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

import msgspec

from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.kit.price import PricePart, PriceTerms


class PriceDirection(StrEnum):
    PAYMENT = "payment"
    PAYOUT = "payout"
    SETTLEMENT = "settlement"  # a payout to the merchant's own settlement account
    DISPUTE = "dispute"  # a fixed amount, without taxes


TAXED = (PriceDirection.PAYMENT, PriceDirection.PAYOUT, PriceDirection.SETTLEMENT)


class Way(StrEnum):
    """How a customer pays. A line of a plan can be for one way, or for one method."""

    CARD = "card"
    BANK_TRANSFER = "bank_transfer"
    USSD = "ussd"
    HOSTED = "hosted"  # the customer chooses on the provider's page
    ACCOUNT = "account"  # a transfer into a permanent account of the customer


# A line for the general way also matches the special one, unless that has a line of its own.
_GENERAL_WAYS = {Way.ACCOUNT: Way.BANK_TRANSFER}


class TaxBase(StrEnum):
    FEE = "fee"
    TRANSFER = "transfer"


class TaxBearer(StrEnum):
    PAYER = "payer"  # whoever pays the fee
    CUSTOMER = "customer"
    MERCHANT = "merchant"
    PLATFORM = "platform"  # the tax reduces the platform's income


class TaxCollector(StrEnum):
    US = "us"
    PROVIDER = "provider"  # the provider has taken the tax: it is shown, and nothing is posted


class Purpose(StrEnum):
    """What a payout is for, because some purposes are exempt from taxes."""

    SALARY = "salary"
    OWN_ACCOUNT = "own_account"


class PriceLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a plan charges for some transactions. A field that is None matches all of them."""

    direction: PriceDirection
    currency: str
    environment: Environment | None = None
    method: str | None = None  # a method's code
    way: Way | None = None
    terms: PriceTerms = PriceTerms()

    @property
    def key(self) -> tuple[str | None, ...]:
        """What the line is for. A version has at most one line for each key."""
        return self.direction, self.currency, self.environment, self.method, self.way


class PlanTerms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a version of a plan contains."""

    title: str
    lines: tuple[PriceLine, ...]
    # Whether a refund gives the merchant its part of the commission back.
    returns_commission: bool = False


class PlanVersion(msgspec.Struct, frozen=True):
    plan: str
    version: int
    starts_at: datetime
    content: PlanTerms
    merchant_id: int = 0  # the merchant whose exceptions these are; 0: any merchant's plan
    is_withdrawn: bool = False  # before it started


class TaxTerms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tax, and the transactions that it is for."""

    directions: tuple[PriceDirection, ...]
    currency: str
    base: TaxBase
    environment: Environment | None = None  # None: both
    percent: Decimal | None = None  # of the base; None: a fixed amount
    fixed_minor: int = 0
    threshold_minor: int = 0  # a smaller base is not taxed
    borne_by: TaxBearer = TaxBearer.PAYER
    included: bool = False  # whether the fee contains the tax
    exempt: tuple[Purpose, ...] = ()
    collected_by: TaxCollector = TaxCollector.US
    returned: bool = True  # whether a transaction that fails or is reversed gives the tax back


class TaxRule(msgspec.Struct, frozen=True):
    name: str
    number: int
    since: datetime
    content: TaxTerms


class ChargedTax(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tax on one transaction, as it is stored with the transaction."""

    name: str
    number: int  # of its rule
    base: TaxBase
    minor: int
    rate: Decimal | None = None  # None: a fixed amount
    included: bool = False
    borne_by: TaxBearer
    collected_by: TaxCollector = TaxCollector.US
    returned: bool = True

    @property
    def is_added(self) -> bool:
        """Whether the merchant or the customer pays it on top of the fee."""
        return self.is_owed and not self.included and self.borne_by is not TaxBearer.PLATFORM

    @property
    def is_owed(self) -> bool:
        """Whether the platform owes it to the authority."""
        return self.collected_by is TaxCollector.US


class TransactionPrice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a transaction costs what it costs. It is stored with it, and never computed again."""

    plan: str | None = None  # None: taxes only, or the fee without a plan
    version: int | None = None
    is_own: bool = False  # whether the line is one of the merchant's exceptions
    line: int = 0  # the number of the line in its version
    percent: Decimal | None = None
    parts: tuple[PricePart, ...] = ()
    taxes: tuple[ChargedTax, ...] = ()
    returns_commission: bool = False
    # If the merchant bears the commission: the prices of the ways that the customer can choose, and
    # the index of each way's price. Other ways have this price.
    choices: tuple["Choice", ...] = ()
    ways: dict[str, int] = {}

    def added_minor(self, bearer: TaxBearer) -> int:
        """Returns the taxes that the customer or the merchant pays on top of the fee."""
        return sum(tax.minor for tax in self.taxes if tax.is_added and tax.borne_by is bearer)

    @property
    def owed(self) -> tuple[ChargedTax, ...]:
        return tuple(tax for tax in self.taxes if tax.is_owed)

    @property
    def owed_minor(self) -> int:
        return sum(tax.minor for tax in self.owed)


class Choice(msgspec.Struct, frozen=True):
    """What the transaction costs if the customer chooses a certain way."""

    fee_minor: int
    price: TransactionPrice


NO_PRICE = TransactionPrice()


def read(text: str) -> TransactionPrice:
    """Parses a stored price."""
    return msgspec.json.decode(text, type=TransactionPrice)


class Charged(msgspec.Struct, frozen=True):
    """A fee, and the price to store with the transaction."""

    fee: Money
    price: TransactionPrice | None  # None: neither a plan nor a tax applies

    @property
    def stored(self) -> str | None:
        return None if self.price is None else msgspec.json.encode(self.price).decode()

    def added_minor(self, bearer: TaxBearer) -> int:
        return 0 if self.price is None else self.price.added_minor(bearer)


class Priced(msgspec.Struct, frozen=True, kw_only=True):
    """What a price depends on, besides plans and rules."""

    direction: PriceDirection
    environment: Environment
    amount: Money
    fee_payer: TaxBearer = TaxBearer.MERCHANT
    method: str | None = None
    way: Way | None = None
    purpose: Purpose | None = None

    @property
    def general_way(self) -> Way | None:
        return None if self.way is None else _GENERAL_WAYS.get(self.way)


def charge(
    versions: Sequence[PlanVersion],
    rules: Iterable[TaxRule],
    priced: Priced,
    otherwise: PriceTerms,
) -> Charged:
    """Computes a price. `versions` begins with the merchant's exceptions.

    `rules` are in force. `otherwise` is the fee without a plan, or if no line of a plan matches.
    """
    found = find_line(versions, priced)
    if found is None:
        price, fee = NO_PRICE, otherwise.of(priced.amount)
    else:
        version, number = found
        line = version.content.lines[number - 1]
        parts = line.terms.parts(priced.amount)
        fee = Money(priced.amount.currency, sum(part.minor for part in parts))
        price = TransactionPrice(
            plan=version.plan,
            version=version.version,
            is_own=version.merchant_id != 0,
            line=number,
            percent=line.terms.percent,
            parts=parts,
            returns_commission=version.content.returns_commission,
        )
    price = msgspec.structs.replace(price, taxes=tuple(taxes_of(rules, priced, fee)))
    return Charged(fee, None if price == NO_PRICE else price)


def find_line(versions: Sequence[PlanVersion], priced: Priced) -> tuple[PlanVersion, int] | None:
    """Finds the most specific line of the first version that has one for the transaction.

    Returns the version, and the line's number in it.
    """
    for version in versions:
        lines = enumerate(version.content.lines, 1)
        matching = [(number, line) for number, line in lines if _matches(line, priced)]
        if matching:
            return version, max(matching, key=lambda each: _precedence(each[1], priced))[0]
    return None


def _matches(line: PriceLine, priced: Priced) -> bool:
    return (
        line.direction is priced.direction
        and line.currency == priced.amount.currency
        and line.environment in (None, priced.environment)
        and line.method in (None, priced.method)
        and line.way in (None, priced.way, priced.general_way)
    )


def _precedence(line: PriceLine, priced: Priced) -> tuple[bool, bool, bool, bool]:
    has_way, is_exact = line.way is not None, line.way is priced.way
    return line.method is not None, has_way, is_exact, line.environment is not None


def taxes_of(rules: Iterable[TaxRule], priced: Priced, fee: Money) -> Iterable[ChargedTax]:
    for rule in rules:
        tax = rule.content
        base = fee if tax.base is TaxBase.FEE else priced.amount
        if not _is_taxed(tax, priced, base):
            continue
        minor = _tax(tax, base)
        if minor:
            yield ChargedTax(
                name=rule.name,
                number=rule.number,
                base=tax.base,
                minor=minor,
                rate=tax.percent,
                included=tax.included,
                borne_by=_bearer(tax, priced),
                collected_by=tax.collected_by,
                returned=tax.returned,
            )


def taxes_added(rules: Iterable[TaxRule], priced: Priced, bearer: TaxBearer) -> list[TaxRule]:
    """Returns the rules of taxes that this bearer pays on top of the fee of some amounts."""
    return [
        rule
        for rule in rules
        if _is_for(rule.content, priced)
        and (rule.content.percent or rule.content.fixed_minor)
        and rule.content.collected_by is TaxCollector.US
        and not rule.content.included
        and _bearer(rule.content, priced) is bearer
    ]


def _bearer(tax: TaxTerms, priced: Priced) -> TaxBearer:
    bearer = priced.fee_payer if tax.borne_by is TaxBearer.PAYER else tax.borne_by
    # Who has sent a transfer into an account cannot pay anything on top of it.
    has_paid = bearer is TaxBearer.CUSTOMER and priced.way is Way.ACCOUNT
    return TaxBearer.MERCHANT if has_paid else bearer


def _is_taxed(tax: TaxTerms, priced: Priced, base: Money) -> bool:
    return _is_for(tax, priced) and base.minor > 0 and base.minor >= tax.threshold_minor


def _is_for(tax: TaxTerms, priced: Priced) -> bool:
    return (
        priced.direction in tax.directions
        and tax.currency == priced.amount.currency
        and tax.environment in (None, priced.environment)
        and priced.purpose not in tax.exempt
    )


def _tax(tax: TaxTerms, base: Money) -> int:
    if tax.percent is None:
        return min(tax.fixed_minor, base.minor) if tax.included else tax.fixed_minor
    if tax.included:
        # The part of the base that is the tax: at 7.5 %, 7.5 of 107.5.
        return base.part(tax.percent, 100 + tax.percent).minor
    return base.percent(tax.percent).minor


def in_force(versions: Iterable[PlanVersion], now: datetime) -> PlanVersion | None:
    """Returns a plan's version at this time: of those that started, the last."""
    started = [each for each in versions if each.starts_at <= now and not each.is_withdrawn]
    return max(started, key=lambda each: (each.starts_at, each.version), default=None)


def rules_in_force(rules: Iterable[TaxRule], now: datetime) -> tuple[TaxRule, ...]:
    """Returns the rules at this time: of each name and scope, the last that started."""
    last: dict[object, TaxRule] = {}
    for rule in sorted(rules, key=lambda each: (each.since, each.number)):
        if rule.since <= now:
            last[rule.name, scope(rule.content)] = rule
    return tuple(sorted(last.values(), key=lambda each: (each.name, each.number)))


def percent_during(
    rules: Sequence[TaxRule], name: str, currency: str, since: datetime, until: datetime
) -> Decimal | None:
    """Returns a tax's percentage in production, or None if it was not one for the whole period."""
    started = [rule for rule in rules if since < rule.since < until]
    found = {
        rule.content.percent
        for rule in (*rules_in_force(rules, since), *started)
        if (rule.name, rule.content.currency) == (name, currency)
        and rule.content.environment in (None, Environment.PRODUCTION)
        and (rule.content.percent or rule.content.fixed_minor)
    }
    return found.pop() if len(found) == 1 else None


def scope(tax: TaxTerms) -> tuple[object, ...]:
    """Returns the transactions that a tax is for. A later rule with the same scope replaces it."""
    return frozenset(tax.directions), tax.currency, tax.environment
