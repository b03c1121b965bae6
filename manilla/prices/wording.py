"""Prices as texts for people."""

from collections.abc import Mapping

from manilla.kit.display import money
from manilla.kit.money import Money
from manilla.kit.price import PriceTerms
from manilla.prices.price import (
    ChargedTax,
    PriceDirection,
    PriceLine,
    TaxBase,
    TaxBearer,
    TaxTerms,
)

NO_NAMES: Mapping[str, str] = {}


def describe(terms: PriceTerms, currency: str) -> str:
    """Describes a price, such as `1.5 % + ₦100 (not below ₦2,500), at most ₦2,000`."""

    def text(minor: int) -> str:
        return money(Money(currency, minor))

    sums = [f"{terms.percent.normalize():f} %"] if terms.percent else []
    if terms.fixed_minor:
        waived = terms.waived_below_minor
        only = f" (not below {text(waived)})" if waived else ""
        sums.append(text(terms.fixed_minor) + only)
    limits = [
        f"{name} {text(minor)}"
        for name, minor in (("at least", terms.minimum_minor), ("at most", terms.maximum_minor))
        if minor is not None
    ]
    return ", ".join([" + ".join(sums) or "nothing", *limits])


def name_of(tax: str) -> str:
    """Returns a tax's name for people, such as `VAT` or `Stamp duty`."""
    words = tax.replace("_", " ")
    return words.upper() if len(words) <= 3 else words.capitalize()


def tax_title(tax: ChargedTax) -> str:
    """Returns a tax's name for a receipt, such as `VAT (7.5 %)`."""
    name = name_of(tax.name)
    notes = [
        *([f"{tax.rate.normalize():f} %"] if tax.rate is not None else []),
        *(["included"] if tax.included else []),
        *([] if tax.is_owed else ["taken by the provider"]),
    ]
    return f"{name} ({', '.join(notes)})" if notes else name


def about(line: PriceLine, methods: Mapping[str, str] = NO_NAMES) -> str:
    """Describes the transactions that a line is for, such as `Payments, card, NGN`.

    `methods` maps methods' codes to their names.
    """
    any_way = "any way" if line.direction is PriceDirection.PAYMENT else ""
    way = (line.way or any_way).replace("_", " ")
    what = methods.get(line.method, line.method) if line.method else way
    where = line.environment or ""
    return ", ".join(filter(None, [f"{line.direction.title()}s", what, line.currency, where]))


def of_line(line: PriceLine, methods: Mapping[str, str] = NO_NAMES) -> str:
    return f"{about(line, methods)}: {describe(line.terms, line.currency)}"


def rate_of(tax: TaxTerms) -> str:
    """Describes what a tax is, such as `7.5 % of the fee` or `₦50.00, from ₦10,000.00`."""
    base = "fee" if tax.base is TaxBase.FEE else "amount"
    fixed = money(Money(tax.currency, tax.fixed_minor))
    rate = fixed if tax.percent is None else f"{tax.percent.normalize():f} % of the {base}"
    threshold = money(Money(tax.currency, tax.threshold_minor))
    return f"{rate}, from {threshold}" if tax.threshold_minor else rate


def describe_tax(tax: TaxTerms) -> dict[str, str]:
    """Describes a tax rule, field by field."""
    ended = not (tax.percent or tax.fixed_minor)
    return {
        "transactions": " and ".join(f"{each}s" for each in tax.directions),
        "currency": tax.currency,
        "environment": tax.environment or "both",
        "amount": "none (ended)" if ended else rate_of(tax),
        "borne_by": "whoever pays the fee" if tax.borne_by is TaxBearer.PAYER else tax.borne_by,
        "how": "in the fee" if tax.included else "on top of the fee",
        "exempt": ", ".join(tax.exempt) or "none",
        "collected_by": tax.collected_by,
        "when_a_transaction_fails": "returned" if tax.returned else "kept",
    }
