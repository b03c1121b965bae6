"""Time as the wire wants it."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

LAGOS = ZoneInfo("Africa/Lagos")  # whose days the merchants' days are


def iso(moment: datetime) -> str:
    """`2026-01-02T03:04:05.678901Z`: always UTC, always six digits."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def start_of_day(day: date) -> datetime:
    return datetime.combine(day, time(), LAGOS).astimezone(UTC)


def last_days(count: int) -> list[date]:
    """So many, oldest first; the last is today."""
    today = datetime.now(LAGOS).date()
    return [today - timedelta(days=ago) for ago in range(count - 1, -1, -1)]
