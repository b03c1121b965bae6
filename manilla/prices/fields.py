"""The fields about prices that merchants see."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import msgspec

from manilla.kit.fields import api_field
from manilla.kit.money import amount_of
from manilla.kit.price import PartKind
from manilla.prices.book import PriceBook
from manilla.prices.price import (
    PriceDirection,
    PriceLine,
    TaxBase,
    TaxBearer,
    TaxRule,
    TransactionPrice,
    Way,
)


class CommissionPart(msgspec.Struct, frozen=True):
    """A part of a commission or fee."""

    kind: Annotated[str, api_field("Which part of the price.", enum=[*PartKind])]
    amount: Annotated[
        Decimal, api_field("The parts sum to the whole. A waiver and a cap are negative.")
    ]


class TaxOfTransaction(msgspec.Struct, frozen=True):
    """A tax on a transaction."""

    name: Annotated[str, api_field("The tax's name.", examples=["vat"])]
    base: Annotated[str, api_field("What is taxed: the fee or the amount.", enum=[*TaxBase])]
    rate: Annotated[
        Decimal | None, api_field("A percentage of the base, or null for a fixed amount.")
    ]
    amount: Annotated[Decimal, api_field("The tax.")]
    included: Annotated[bool, api_field("Whether the fee contains the tax.")]
    borne_by: Annotated[
        str,
        api_field(
            "Who pays the tax.",
            enum=[each for each in TaxBearer if each is not TaxBearer.PAYER],
        ),
    ]
    collected_by: Annotated[
        str,
        api_field(
            "`us`: the platform pays it to the authority; `provider`: the provider has taken it, so"
            " it is not charged again.",
            enum=["us", "provider"],
        ),
    ]


CommissionParts = Annotated[
    list[CommissionPart],
    api_field("The parts of the commission or fee. Omitted if you have no price plan."),
]
Taxes = Annotated[list[TaxOfTransaction], api_field("The taxes. Omitted if there are none.")]


def priced_fields(price: TransactionPrice | None, currency: str) -> dict[str, Any]:
    """Returns the fields `taxes` and, if there is a plan, `commission_parts`."""
    if price is None:
        return {}
    parts = [CommissionPart(part.kind, amount_of(currency, part.minor)) for part in price.parts]
    return {
        **({} if price.plan is None else {"commission_parts": parts}),
        "taxes": [
            TaxOfTransaction(
                name=tax.name,
                base=tax.base,
                rate=tax.rate,
                amount=amount_of(currency, tax.minor),
                included=tax.included,
                borne_by=tax.borne_by,
                collected_by=tax.collected_by,
            )
            for tax in price.taxes
        ],
    }


class PriceInForce(msgspec.Struct, frozen=True):
    """A line of your price plan."""

    direction: Annotated[str, api_field("The type of transaction.", enum=[*PriceDirection])]
    way: Annotated[
        str | None, api_field("How the customer pays, or null for any way.", enum=[*Way, None])
    ]
    method_code: Annotated[str | None, api_field("The method, or null for any method.")]
    percent: Annotated[Decimal, api_field("The percentage of the amount.")]
    fixed: Annotated[Decimal, api_field("The fixed part.")]
    waived_below: Annotated[
        Decimal | None, api_field("Smaller amounts do not pay the fixed part. Null: all pay it.")
    ]
    minimum: Annotated[Decimal | None, api_field("The smallest price, or null.")]
    maximum: Annotated[Decimal | None, api_field("The largest price, or null.")]
    rounded_to: Annotated[
        Decimal, api_field("The percentage is rounded half up to a multiple of this.")
    ]
    is_own: Annotated[bool, api_field("Whether the line is an exception for you.")]


class TaxInForce(msgspec.Struct, frozen=True):
    """A tax, and the transactions that it is for."""

    name: Annotated[str, api_field("The tax's name.", examples=["vat"])]
    directions: Annotated[list[str], api_field("The types of transactions that are taxed.")]
    base: Annotated[str, api_field("What is taxed: the fee or the amount.", enum=[*TaxBase])]
    rate: Annotated[
        Decimal | None, api_field("A percentage of the base, or null for a fixed amount.")
    ]
    amount: Annotated[Decimal | None, api_field("The fixed amount, or null for a percentage.")]
    threshold: Annotated[Decimal, api_field("A smaller base is not taxed.")]
    included: Annotated[bool, api_field("Whether the fee contains the tax.")]
    borne_by: Annotated[
        str,
        api_field("Who pays the tax. `payer`: whoever pays the fee.", enum=[*TaxBearer]),
    ]
    exempt: Annotated[list[str], api_field("The purposes of payouts that are not taxed.")]
    collected_by: Annotated[
        str, api_field("Who pays the tax to the authority.", enum=["us", "provider"])
    ]


class PricesInForce(msgspec.Struct, frozen=True):
    """What transactions cost now. The most specific line counts, and your exceptions come first."""

    environment: str
    currency_code: str
    plan: Annotated[str | None, api_field("Your plan's code, or null.", examples=["standard"])]
    version: Annotated[int | None, api_field("The version of your plan, or null.")]
    commission_percent: Annotated[
        Decimal, api_field("The commission of payments for which no line is listed.")
    ]
    lines: Annotated[
        list[PriceInForce],
        api_field("Payouts for which no line is listed pay their method's fee."),
    ]
    taxes: Annotated[list[TaxInForce], api_field("The taxes, in addition to or in the prices.")]


def prices_in_force(
    book: PriceBook, merchant_id: int, environment: str, currency: str, otherwise: Decimal
) -> PricesInForce:
    now = datetime.now(UTC)
    versions = book.versions(merchant_id, now)
    shared = next((each for each in versions if not each.merchant_id), None)
    return PricesInForce(
        environment=environment,
        currency_code=currency,
        plan=shared.plan if shared else None,
        version=shared.version if shared else None,
        commission_percent=otherwise,
        lines=[
            _line(line, is_own=version.merchant_id != 0)
            for version in versions
            for line in version.content.lines
            if line.currency == currency and line.environment in (None, environment)
        ],
        taxes=[
            _tax(rule)
            for rule in book.rules(now)
            if rule.content.currency == currency
            and rule.content.environment in (None, environment)
            and (rule.content.percent or rule.content.fixed_minor)
        ],
    )


def _line(line: PriceLine, *, is_own: bool) -> PriceInForce:
    terms = line.terms

    def amount(minor: int | None) -> Decimal | None:
        return None if minor is None else amount_of(line.currency, minor)

    return PriceInForce(
        direction=line.direction,
        way=line.way,
        method_code=line.method,
        percent=terms.percent,
        fixed=amount_of(line.currency, terms.fixed_minor),
        waived_below=amount(terms.waived_below_minor),
        minimum=amount(terms.minimum_minor),
        maximum=amount(terms.maximum_minor),
        rounded_to=amount_of(line.currency, terms.step_minor),
        is_own=is_own,
    )


def _tax(rule: TaxRule) -> TaxInForce:
    tax = rule.content
    is_fixed = tax.percent is None
    return TaxInForce(
        name=rule.name,
        directions=[*tax.directions],
        base=tax.base,
        rate=tax.percent,
        amount=amount_of(tax.currency, tax.fixed_minor) if is_fixed else None,
        threshold=amount_of(tax.currency, tax.threshold_minor),
        included=tax.included,
        borne_by=tax.borne_by,
        exempt=[*tax.exempt],
        collected_by=tax.collected_by,
    )
