"""Rejects plans and tax rules that are not valid, and says why."""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal

from manilla.kit import money
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.kit.price import PriceTerms
from manilla.prices import price
from manilla.prices.price import (
    PlanTerms,
    PriceDirection,
    PriceLine,
    TaxBase,
    TaxBearer,
    TaxRule,
    TaxTerms,
)

LINES_MAX = 300
TAXES_MAX = 5  # a posting has at most eight lines
MINOR_MAX = 10**15
STEP_MAX = 10**6
TITLE_LENGTH_MAX = 100
_PLAN = re.compile(r"[a-z0-9][a-z0-9_-]{1,39}")
_TAX = re.compile(r"[a-z][a-z0-9_]{1,29}")


class BadPrice(Refusal):
    status, code = 400, "VALIDATION_FAILED"


def plan_problem(name: str) -> str | None:
    """Returns why a plan cannot have this code, or None if it can."""
    if _PLAN.fullmatch(name):
        return None
    return "A plan's code has 2 to 40 of the characters a-z, 0-9, - and _."


def check_plan(name: str, content: PlanTerms) -> None:
    problem = plan_problem(name)
    if problem is not None:
        raise BadPrice(problem)
    if not 1 <= len(content.title) <= TITLE_LENGTH_MAX or not content.title.isprintable():
        raise BadPrice(f"A title has 1 to {TITLE_LENGTH_MAX} printable characters.")
    if len(content.lines) > LINES_MAX:
        raise BadPrice(f"A plan has at most {LINES_MAX} lines.")
    seen = set()
    for number, line in enumerate(content.lines, 1):
        try:
            check_line(line)
        except BadPrice as bad:
            raise BadPrice(f"Line {number}: {bad.text}") from None
        if line.key in seen:
            raise BadPrice(f"Line {number}: another line is for the same transactions.")
        seen.add(line.key)


def check_line(line: PriceLine) -> None:
    _check_currency(line.currency)
    if line.way is not None and line.direction is not PriceDirection.PAYMENT:
        raise BadPrice("Only a line for payments can be for a way to pay.")
    if line.direction is PriceDirection.DISPUTE:
        _check_dispute(line)
    check_terms(line.terms, line.currency)


def _check_dispute(line: PriceLine) -> None:
    if line.method is not None or line.terms != PriceTerms(line.terms.fixed_minor):
        raise BadPrice("A dispute costs a fixed amount, whatever its method.")


def check_terms(terms: PriceTerms, currency: str) -> None:
    _check_percent(terms.percent)
    limits = (terms.minimum_minor, terms.maximum_minor, terms.waived_below_minor)
    for minor in (terms.fixed_minor, *limits):
        _check_minor(minor)
    minimum, maximum = terms.minimum_minor or 0, terms.maximum_minor
    if maximum is not None and maximum < minimum:
        raise BadPrice("The maximum is below the minimum.")
    if maximum is not None and maximum < terms.fixed_minor:
        raise BadPrice("The maximum is below the fixed part.")
    if not (1 <= terms.step_minor <= STEP_MAX and _is_power_of_ten(terms.step_minor)):
        raise BadPrice("The percentage can be rounded to 1, 10, 100 and so on of the minor unit.")
    if terms.waived_below_minor is not None:
        _check_waiver(terms, Money(currency, terms.waived_below_minor))


def _check_waiver(terms: PriceTerms, threshold: Money) -> None:
    if not terms.fixed_minor:
        raise BadPrice("There is no fixed part that small amounts could be spared.")
    percent = threshold.percent(terms.percent, terms.step_minor).minor
    if terms.maximum_minor is not None and percent >= terms.maximum_minor:
        raise BadPrice(
            f"Nobody would ever pay the fixed part: from {threshold} on, the percentage alone "
            "reaches the maximum."
        )


def check_tax(name: str, tax: TaxTerms) -> None:
    if not _TAX.fullmatch(name):
        raise BadPrice("A tax's name has 2 to 30 of the characters a-z, 0-9 and _.")
    _check_currency(tax.currency)
    for minor in (tax.fixed_minor, tax.threshold_minor):
        _check_minor(minor)
    if tax.percent is not None:
        _check_percent(tax.percent)
    for is_wrong, why in _contradictions(tax):
        if is_wrong:
            raise BadPrice(why)


def _contradictions(tax: TaxTerms) -> Iterable[tuple[bool, str]]:
    is_paid_out = PriceDirection.PAYMENT not in tax.directions
    is_by_platform = tax.borne_by is TaxBearer.PLATFORM
    return (
        (not tax.directions, "Choose the transactions that are taxed."),
        (not set(tax.directions) <= {*price.TAXED}, "The fee of a dispute cannot be taxed."),
        (tax.percent is not None and tax.fixed_minor > 0, "Set a percentage or a fixed amount."),
        (
            tax.included and tax.base is not TaxBase.FEE,
            "Only a tax on the fee can be included in the fee.",
        ),
        (
            # Also not by one of the two: a payment's commission can be paid by the other one.
            tax.included and tax.borne_by is not TaxBearer.PAYER,
            "A tax in the fee is borne by whoever pays the fee.",
        ),
        (
            tax.borne_by is TaxBearer.CUSTOMER and tax.directions != (PriceDirection.PAYMENT,),
            "Only payments have a customer who can bear a tax.",
        ),
        (
            bool(tax.exempt) and not is_paid_out,
            "Only payouts and settlements have a purpose that can be exempt.",
        ),
        (
            not tax.returned and (tax.included or is_by_platform),
            "Only a tax on top of the fee can be kept when a transaction fails.",
        ),
    )


def check_new_rule(rules: Sequence[TaxRule], new: TaxRule, now: datetime) -> None:
    """Rejects a rule that would change what was booked, or that overlaps another rule."""
    if new.since <= now:
        raise BadPrice("The rule must start in the future: what was booked never changes.")
    if len({rule.name for rule in rules} | {new.name}) > TAXES_MAX:
        raise BadPrice(f"There can be at most {TAXES_MAX} taxes.")
    for rule in rules:
        if rule.name == new.name and _overlaps(rules, rule, new):
            raise BadPrice(
                f"Rule {rule.number} of this tax is for some of the same transactions. Start the "
                "new rule for exactly the same transactions, which replaces rule "
                f"{rule.number}, or first end that rule with an amount of 0."
            )


def _overlaps(rules: Sequence[TaxRule], rule: TaxRule, new: TaxRule) -> bool:
    one, other = rule.content, new.content
    if price.scope(one) == price.scope(other):
        return rule.since == new.since
    is_ended = any(
        later.name == rule.name
        and price.scope(later.content) == price.scope(one)
        and rule.since <= later.since <= new.since
        and not (later.content.percent or later.content.fixed_minor)
        for later in rules
    )
    return (
        not is_ended
        and one.currency == other.currency
        and bool(set(one.directions) & set(other.directions))
        and (one.environment is None or other.environment in (None, one.environment))
    )


def _check_currency(currency: str) -> None:
    if currency not in money.DECIMALS:
        raise BadPrice(f"{currency!r} is not an ISO 4217 currency.")


def _check_percent(percent: Decimal) -> None:
    if not (percent.is_finite() and 0 <= percent <= 100):
        raise BadPrice("The percentage must be between 0 and 100.")
    if percent != round(percent, 4):
        raise BadPrice("The percentage can have at most 4 decimals.")


def _check_minor(minor: int | None) -> None:
    if minor is not None and not 0 <= minor <= MINOR_MAX:
        raise BadPrice("An amount must not be negative, and not above 10¹⁵ minor units.")


def _is_power_of_ten(number: int) -> bool:
    return str(number).strip("0") == "1"
