"""The overview of rails: the order of banks and rails, and the open payouts."""

import itertools
from datetime import UTC, datetime

from manilla.routing import deliveries
from manilla.routing.outcomes import Outcomes
from manilla.routing.overview import BankReport, RailReport, overview
from manilla.services import Services
from tests.payouts.routing.routed import GTBANK, RoutedPayouts
from tests.support.provider_simulator import forget_outcomes

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def bank(code: str, delivered: int = 0, failed: int = 0, failing: bool = False) -> BankReport:
    outcomes = Outcomes(delivered=delivered, failed=failed)
    return BankReport(code, outcomes, 0, NOW if failing else None)


def rail(name: str, share: float, **state: bool) -> RailReport:
    delivered = round(10 * share)
    total = BankReport(None, Outcomes(delivered=delivered, failed=10 - delivered), 0)
    down, drained = (NOW if state.get(key) else None for key in ("down", "drained"))
    banks = [bank(GTBANK, 0, 3, failing=True)] if state.get("failing") else []
    return RailReport(name, down, None, drained, total, banks)


def test_banks_that_fail_come_first_then_those_with_the_smallest_share() -> None:
    expected = [
        bank("058", 4, 5, failing=True),
        bank("044", 1, 9),
        bank("057", 9, 1),
        bank("011", 10, 0),
        bank("", 0, 0),
    ]
    for shuffled in itertools.permutations(expected):
        assert sorted(shuffled, key=lambda each: each.rank) == expected
    assert expected[-1].name == "Unknown bank"


def test_rails_that_are_down_come_first_then_failing_ones_then_drained_ones() -> None:
    expected = [
        rail("f", 1, down=True),
        rail("e", 1, failing=True),
        rail("d", 1, drained=True),
        rail("c", 0.5),
        rail("a", 0.9),
        rail("b", 0.9),
    ]
    for shuffled in itertools.permutations(expected):
        assert sorted(shuffled, key=lambda each: each.rank) == expected


async def test_a_rail_whose_payouts_to_several_banks_fail_is_failing(
    routed: RoutedPayouts,
) -> None:
    """Each bank has too few failures to count alone, but the rail has no deliveries at all."""
    services = routed.services
    for code in ("058", "044", "057"):
        key = "providera", code
        outcomes = Outcomes()
        outcomes.add_failure("Not enabled", datetime.now(UTC))
        await deliveries._add(services.db, key, outcomes)
    reports = await overview(services.db, [], services.deliveries.bank_code)
    [report] = [each for each in reports if each.provider == "providera"]
    assert (report.total.outcomes.delivered, report.total.outcomes.failed) == (0, 3)
    assert report.total.failing_since is not None
    assert report.failing == []
    assert reports[0] is report


async def test_open_payouts_are_counted_by_rail_and_bank(routed: RoutedPayouts) -> None:
    before = await _open(routed.services)
    for _ in range(2):
        await routed.pay_out()
    await routed.payer.pay_out("a")
    assert await _open(routed.services) - before == 3


async def test_the_sum_of_a_rail_has_its_latest_error(services: Services) -> None:
    await forget_outcomes(services)
    for code, hour in (("044", 2), ("058", 1)):
        at = NOW.replace(hour=hour)
        outcomes = Outcomes(failed=1, last_error=code, last_error_at=at)
        await deliveries._add(services.db, ("providera", code), outcomes)
    found = await overview(services.db, [], services.deliveries.bank_code)
    [total] = [rail.total.outcomes for rail in found if rail.provider == "providera"]
    assert (total.failed, total.last_error) == (2, "044")
    await forget_outcomes(services)


async def _open(services: Services) -> int:
    found = await overview(services.db, ["providera"], services.deliveries.bank_code)
    return sum(
        bank.open
        for rail in found
        if rail.provider == "providera"
        for bank in rail.banks
        if bank.bank == GTBANK
    )
