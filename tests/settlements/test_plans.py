"""When a settlement plan is due, and how much money one payout can settle."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.kit.price import PriceTerms
from manilla.methods.method import Method, MethodKind
from manilla.platform import settings as platform
from manilla.platform.settings import BadSetting, PlatformSettings
from manilla.settlements import amounts
from manilla.settlements.plans import SettlementMode, SettlementPlan

MONDAY = date(2026, 11, 16)
SET_AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


def _plan(mode: SettlementMode, **changed: object) -> SettlementPlan:
    fields: dict[str, object] = {"set_at": SET_AT, "weekday": 0, **changed}
    return SettlementPlan(
        merchant_id=1,
        environment=Environment.PRODUCTION,
        currency="NGN",
        mode=mode,
        **fields,  # type: ignore[arg-type]
    )


def _method(fee: PriceTerms, *, minimum: int = 100, maximum: int | None = None) -> Method:
    return Method(
        kind=MethodKind.WITHDRAW,
        id=1,
        code="x",
        name="X",
        provider="x",
        flow=None,
        currency="NGN",
        active=True,
        position=1,
        min_minor=minimum,
        max_minor=maximum,
        fee=fee,
    )


def _days(plan: SettlementPlan, first: date, last: date | None, count: int = 7) -> list[int]:
    days = (first + timedelta(days=each) for each in range(count))
    return [each for each, day in enumerate(days) if plan.is_due(day, last)]


def test_a_manual_plan_is_never_due() -> None:
    assert _days(_plan(SettlementMode.MANUAL), MONDAY, None) == []


def test_a_daily_plan_is_due_once_a_day() -> None:
    plan = _plan(SettlementMode.DAILY)
    assert plan.is_due(MONDAY, None)
    assert plan.is_due(MONDAY, MONDAY - timedelta(days=1))
    assert not plan.is_due(MONDAY, MONDAY)


def test_a_plan_applies_from_the_day_after_it_was_set() -> None:
    # 23:30 UTC on Sunday is already Monday in Lagos.
    plan = _plan(SettlementMode.DAILY, set_at=datetime(2026, 11, 15, 23, 30, tzinfo=UTC))
    assert _days(plan, MONDAY, None, 2) == [1]


def test_a_weekly_plan_is_made_up_for_until_it_was_settled() -> None:
    plan = _plan(SettlementMode.WEEKLY)
    assert _days(plan, MONDAY, MONDAY - timedelta(days=7)) == [0, 1, 2, 3, 4, 5, 6]
    assert _days(plan, MONDAY, MONDAY + timedelta(days=1), 9) == [7, 8]


def test_a_weekly_plan_does_not_settle_for_days_before_it_was_set() -> None:
    wednesday = datetime(2026, 11, 18, 12, tzinfo=UTC)
    plan = _plan(SettlementMode.WEEKLY, set_at=wednesday)
    assert _days(plan, MONDAY, None, 10) == [7, 8, 9]


@pytest.mark.parametrize(
    "fee",
    [
        PriceTerms(),
        PriceTerms(fixed_minor=5_000),
        PriceTerms(percent=Decimal("1.5"), fixed_minor=2_500),
        PriceTerms(percent=Decimal(2), minimum_minor=10_000, maximum_minor=200_000),
    ],
)
@pytest.mark.parametrize("available", [20_001, 100_000, 1_234_567, 90_000_019])
def test_the_largest_amount_uses_all_that_is_available(fee: PriceTerms, available: int) -> None:
    method = _method(fee)
    amount = amounts.largest(method, Money("NGN", available))
    assert amount is not None

    def cost(minor: int) -> int:
        return minor + fee.of(Money("NGN", minor)).minor

    assert cost(amount.minor) <= available < cost(amount.minor + 1)


def test_the_largest_amount_obeys_the_limits_of_the_method() -> None:
    fee = PriceTerms(fixed_minor=5_000)
    limited = _method(fee, minimum=10_000, maximum=50_000)
    assert amounts.largest(limited, Money("NGN", 900_000)) == Money("NGN", 50_000)
    assert amounts.largest(limited, Money("NGN", 15_000)) == Money("NGN", 10_000)
    assert amounts.largest(limited, Money("NGN", 14_999)) is None
    assert amounts.largest(limited, Money("NGN", -1)) is None


def test_holidays_and_days_without_payouts_are_no_settlement_days() -> None:
    holidays = platform.parse("holidays", " 2026-12-26, 2026-11-16,2026-11-16")
    assert holidays == "2026-11-16,2026-12-26"
    settings = PlatformSettings(holidays=holidays, payout_days="mon,tue")
    days = [MONDAY + timedelta(days=each) for each in range(3)]
    assert [settings.is_settlement_day(day) for day in days] == [False, True, False]


@pytest.mark.parametrize("text", ["25/12/2026", "2026-13-01", "christmas", "20261"])
def test_a_holiday_that_is_no_day_is_refused(text: str) -> None:
    with pytest.raises(BadSetting):
        platform.parse("holidays", text)
