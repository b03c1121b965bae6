"""Statistics of a rail's payouts to a bank, and the decision whether the rail is failing."""

import bisect
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from manilla.kit.clock import LAGOS

# Upper limits of the duration histogram's slots. The last slot also counts longer durations.
BOUNDS_SECONDS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 86_400, 604_800)
ERROR_LENGTH_MAX = 200
FAILING_WINDOW = timedelta(minutes=30)
FAILURES_MIN = 3
ALL_RAILS = "all rails"

RailBank = tuple[str, str]  # a provider account's name, and the bank's code in the registry


class Outcomes(msgspec.Struct):
    """Counts of delivered and failed payouts."""

    delivered: int = 0
    failed: int = 0
    durations: list[int] = msgspec.field(default_factory=lambda: [0] * len(BOUNDS_SECONDS))
    last_error: str | None = None
    last_error_at: datetime | None = None

    def add_delivery(self, seconds: float) -> None:
        self.delivered += 1
        self.durations[slot(seconds)] += 1

    def add_failure(self, error: str, at: datetime) -> None:
        self.failed += 1
        self.last_error, self.last_error_at = error[:ERROR_LENGTH_MAX], at

    def add(self, later: "Outcomes") -> None:
        self.delivered += later.delivered
        self.failed += later.failed
        self.durations = [a + b for a, b in zip(self.durations, later.durations, strict=True)]
        if later.last_error_at is not None:
            self.last_error, self.last_error_at = later.last_error, later.last_error_at

    @property
    def success_share(self) -> float | None:
        ended = self.delivered + self.failed
        return self.delivered / ended if ended else None


class MinuteOutcomes(msgspec.Struct, frozen=True):
    minute: datetime
    delivered: int
    failed: int


def slot(seconds: float) -> int:
    """Returns the index of the histogram slot for a duration."""
    return min(bisect.bisect_left(BOUNDS_SECONDS, seconds), len(BOUNDS_SECONDS) - 1)


def quantile_seconds(durations: Sequence[int], share: float) -> int | None:
    """Returns the time within which this share of payouts was delivered, or None if none was."""
    wanted, counted = share * sum(durations), 0
    for bound, number in zip(BOUNDS_SECONDS, durations, strict=True):
        counted += number
        if number and counted >= wanted:
            return bound
    return None


def failing_since(minutes: Iterable[MinuteOutcomes], now: datetime) -> datetime | None:
    """Returns since when a rail's payouts to a bank have failed, or None if they do not fail.

    A rail is failing if at least three payouts failed and fewer than half were delivered in the
    last 30 minutes. The start is the earliest failure for which the same is true from that failure
    until now. Failures before a pause of 30 minutes are ignored.
    """
    newest_first = sorted(minutes, key=lambda each: each.minute, reverse=True)
    recent = [each for each in newest_first if now - each.minute < FAILING_WINDOW]
    if not _is_failing(sum(m.delivered for m in recent), sum(m.failed for m in recent)):
        return None
    delivered = failed = 0
    since = last_failure = now
    for each in newest_first:
        if last_failure - each.minute >= FAILING_WINDOW:
            break
        delivered, failed = delivered + each.delivered, failed + each.failed
        if each.failed:
            last_failure = each.minute
            since = each.minute if _is_failing(delivered, failed) else since
    return since


def _is_failing(delivered: int, failed: int) -> bool:
    return failed >= FAILURES_MIN and delivered < failed


def all_failing_since(
    rails: Sequence[str], bank: str, failing: Mapping[RailBank, datetime]
) -> datetime | None:
    """Returns the time since which all these rails have failed, or None if one is not failing."""
    since = [failing[rail, bank] for rail in rails if (rail, bank) in failing]
    return max(since) if since and len(since) == len(rails) else None


def warning(bank_name: str, where: str, since: datetime, now: datetime) -> str:
    """Returns the warning for merchants. Its time is in Lagos time, like all times on the pages."""
    at, today = since.astimezone(LAGOS), now.astimezone(LAGOS).date()
    shown = f"{at:%H:%M}" if at.date() == today else f"{at.day} {at:%b, %H:%M}"
    return f"Transfers to {bank_name} have been failing on {where} since {shown}."
