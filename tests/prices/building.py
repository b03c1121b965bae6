"""Plans and taxes for tests."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from manilla.kit.money import Money
from manilla.kit.price import PriceTerms
from manilla.prices.price import (
    PlanTerms,
    PlanVersion,
    PriceDirection,
    PriceLine,
    Purpose,
    TaxBase,
    TaxBearer,
    TaxRule,
    TaxTerms,
)

# Local cards as the market sells them: 1.5 % + 100, the 100 waived below 2,500, at most 2,000.
CARD = PriceTerms(100_00, Decimal("1.5"), maximum_minor=2_000_00, waived_below_minor=2_500_00)
ACCOUNT = PriceTerms(percent=Decimal(1), maximum_minor=300_00)
FREE = PriceTerms()
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def naira(text: str) -> Money:
    return Money.of(text, "NGN")


def line(terms: PriceTerms, **for_what: Any) -> PriceLine:
    return PriceLine(
        terms=terms, **{"direction": PriceDirection.PAYMENT, "currency": "NGN", **for_what}
    )


def plan(*lines: PriceLine, returns_commission: bool = False, **columns: Any) -> PlanVersion:
    content = PlanTerms(title="Standard", lines=lines, returns_commission=returns_commission)
    about: dict[str, Any] = {"plan": "standard", "version": 1, "starts_at": NOON, **columns}
    return PlanVersion(content=content, **about)


def tax(name: str = "vat", number: int = 1, since: datetime = NOON, **terms: Any) -> TaxRule:
    given = {
        "directions": (PriceDirection.PAYMENT, PriceDirection.PAYOUT),
        "currency": "NGN",
        "base": TaxBase.FEE,
        "percent": Decimal("7.5"),
        **terms,
    }
    return TaxRule(name, number, since, TaxTerms(**given))


STAMP_DUTY = tax(
    "stamp_duty",
    2,
    directions=(PriceDirection.PAYOUT, PriceDirection.SETTLEMENT),
    base=TaxBase.TRANSFER,
    percent=None,
    fixed_minor=50_00,
    threshold_minor=10_000_00,
    borne_by=TaxBearer.MERCHANT,
    exempt=(Purpose.SALARY, Purpose.OWN_ACCOUNT),
)
