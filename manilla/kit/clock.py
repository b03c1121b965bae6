"""Formats timestamps as in the API, and computes days as merchants count them."""

from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

LAGOS = ZoneInfo("Africa/Lagos")  # the time zone of merchants' days
# PostgreSQL omits decimals that are zero at the end.
_LENGTH_WITH_ALL_DECIMALS = len("2026-01-02 03:04:05.678901+00")


def iso(moment: datetime) -> str:
    """Formats a time as `2026-01-02T03:04:05.678901Z`: always UTC, always six decimals."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def iso_of_sql(text: str) -> str:
    """Formats a time that SQL has cast to text as `iso` does; the sessions' time zone is UTC."""
    if len(text) == _LENGTH_WITH_ALL_DECIMALS:
        return text.replace(" ", "T").replace("+00", "Z")
    seconds, _, decimals = text[11:-3].partition(".")
    return f"{text[:10]}T{seconds}.{decimals:0<6}Z"


def start_of_day(day: date) -> datetime:
    return datetime.combine(day, time(), LAGOS).astimezone(UTC)


def last_days(count: int) -> list[date]:
    """Returns the last `count` days, oldest first; the last one is today."""
    today = datetime.now(LAGOS).date()
    return [today - timedelta(days=ago) for ago in range(count - 1, -1, -1)]
