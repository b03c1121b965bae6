"""The texts and times in warnings about rails that are failing."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from manilla.routing.outcomes import all_failing_since, warning

NOW = datetime(2026, 1, 31, 13, 10, tzinfo=UTC)
RAILS = ("a", "b", "c")


def test_a_bank_is_failing_only_if_every_rail_of_the_method_fails() -> None:
    for count in range(4):
        for failing in itertools.combinations(RAILS, count):
            known = {
                (rail, "058"): NOW - timedelta(minutes=RAILS.index(rail)) for rail in failing
            } | {("a", "044"): NOW}
            expected = NOW if count == len(RAILS) else None
            assert all_failing_since(RAILS, "058", known) == expected
            alone = known.get(("b", "058"))
            assert all_failing_since(["b"], "058", known) == alone
    assert all_failing_since([], "058", {}) is None


@pytest.mark.parametrize(
    ("since", "shown"),
    [
        (NOW - timedelta(minutes=5), "14:05"),
        (datetime(2026, 1, 30, 23, 0, tzinfo=UTC), "00:00"),  # midnight in Lagos
        (datetime(2026, 1, 30, 22, 59, tzinfo=UTC), "30 Jan, 23:59"),
    ],
)
def test_the_time_is_that_of_lagos_with_the_day_unless_it_is_today(
    since: datetime, shown: str
) -> None:
    expected = f"Transfers to Example Bank have been failing on all rails since {shown}."
    assert warning("Example Bank", "all rails", since, NOW) == expected
