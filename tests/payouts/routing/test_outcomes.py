"""The rules for when a rail counts as failing, and the duration of deliveries."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from manilla.routing.outcomes import (
    BOUNDS_SECONDS,
    MinuteOutcomes,
    Outcomes,
    failing_since,
    quantile_seconds,
    slot,
)

NOW = datetime(2026, 1, 31, 14, 30, 40, tzinfo=UTC)


def minute(ago: int, delivered: int = 0, failed: int = 0) -> MinuteOutcomes:
    at = NOW.replace(second=0) - timedelta(minutes=ago)
    return MinuteOutcomes(at, delivered, failed)


def minutes_ago(since: datetime | None) -> int | None:
    return None if since is None else int((NOW - since).total_seconds() // 60)


def test_a_rail_fails_with_three_failures_and_fewer_than_half_delivered() -> None:
    for delivered, failed in itertools.product(range(8), repeat=2):
        since = failing_since([minute(5, delivered, failed)], NOW)
        is_failing = failed >= 3 and delivered / (delivered + failed) < 0.5
        assert (since is not None) is is_failing, (delivered, failed)


@pytest.mark.parametrize(
    ("minutes", "since"),
    [
        ([], None),
        ([minute(29, failed=3)], 29),
        ([minute(30, failed=3)], None),  # the failures are too old
        ([minute(30, failed=1), minute(3, failed=2)], None),
        ([minute(2, failed=1), minute(9, failed=1), minute(20, failed=1)], 20),
        # Older failures also count if there was no pause of 30 minutes after them.
        ([minute(n, failed=1) for n in range(0, 90, 10)], 80),
        ([minute(5, failed=3), minute(34, failed=9)], 34),
        ([minute(5, failed=3), minute(35, failed=9)], 5),
        # The rail delivered payouts until 20 minutes ago.
        ([minute(5, failed=3), minute(20, delivered=2), minute(25, failed=1)], 25),
        ([minute(5, failed=3), minute(40, delivered=50), minute(50, failed=2)], 5),
        # Many deliveries in the last 30 minutes outweigh the failures.
        ([minute(5, failed=3), minute(20, delivered=3)], None),
    ],
)
def test_it_is_known_since_when_a_rail_fails(
    minutes: list[MinuteOutcomes], since: int | None
) -> None:
    for ordered in (minutes, minutes[::-1]):
        assert minutes_ago(failing_since(ordered, NOW)) == since


def test_failures_of_exactly_30_minutes_ago_are_too_old() -> None:
    on_the_minute = NOW.replace(second=0)
    assert failing_since([minute(30, failed=3)], on_the_minute) is None
    assert failing_since([minute(29, failed=3)], on_the_minute) is not None


def test_the_bounds_stay_as_they_are_because_stored_counts_refer_to_them() -> None:
    minutes, hours, days = (60, 120, 300, 600, 1800), (3600,), (86_400, 604_800)
    assert (1, 2, 5, 10, 20, 30, *minutes, *hours, *days) == BOUNDS_SECONDS


def test_each_duration_has_one_slot_whose_bound_it_does_not_exceed() -> None:
    for number, bound in enumerate(BOUNDS_SECONDS):
        assert slot(bound) == number
        assert slot(bound - 0.5) == number
    assert slot(0) == 0
    assert slot(BOUNDS_SECONDS[-1] * 2) == len(BOUNDS_SECONDS) - 1


@pytest.mark.parametrize(
    ("seconds", "share", "expected"),
    [
        ([], 0.5, None),
        ([3], 0.5, 5),
        ([3], 0.95, 5),
        ([1, 3, 50], 0.5, 5),
        ([1, 3, 50], 0.95, 60),
        ([1] * 19 + [4000], 0.95, 1),
        ([1] * 18 + [4000] * 2, 0.95, 86_400),
    ],
)
def test_a_quantile_is_an_upper_bound(
    seconds: list[float], share: float, expected: int | None
) -> None:
    outcomes = Outcomes()
    for each in seconds:
        outcomes.add_delivery(each)
    assert quantile_seconds(outcomes.durations, share) == expected
    assert outcomes.delivered == len(seconds)


def test_counts_are_added_and_the_later_error_is_kept() -> None:
    first, second = Outcomes(), Outcomes()
    first.add_failure("early", NOW)
    first.add_delivery(3)
    second.add_failure("late" * 100, NOW + timedelta(seconds=1))
    second.add_delivery(3)
    first.add(second)
    first.add(Outcomes())
    assert (first.delivered, first.failed, first.success_share) == (2, 2, 0.5)
    assert (first.durations[slot(3)], sum(first.durations)) == (2, 2)
    assert first.last_error == ("late" * 100)[:200]
    assert Outcomes().success_share is None
