"""Formats timestamps as in the API, and computes calendar days in the merchants' time zone."""

import re
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

_MONTH = re.compile(r"[0-9]{4}-[0-9]{2}")
LAGOS = ZoneInfo("Africa/Lagos")  # the time zone in which merchants' days start and end
# PostgreSQL omits trailing zeros of fractional seconds, so timestamps can be shorter than this.
_LENGTH_WITH_ALL_DECIMALS = len("2026-01-02 03:04:05.678901+00")


def iso(moment: datetime) -> str:
    """Formats a time as `2026-01-02T03:04:05.678901Z`, always in UTC with six decimals."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def iso_of_sql(text: str) -> str:
    """Converts PostgreSQL's text form of a UTC time to the format that `iso` returns."""
    if len(text) == _LENGTH_WITH_ALL_DECIMALS:
        return text.replace(" ", "T").replace("+00", "Z")
    seconds, _, decimals = text[11:-3].partition(".")
    return f"{text[:10]}T{seconds}.{decimals:0<6}Z"


def start_of_day(day: date) -> datetime:
    return datetime.combine(day, time(), LAGOS).astimezone(UTC)


def parse_month(text: str) -> date:
    """Parses a month such as `2026-11`. Returns its first day, or raises a ValueError."""
    if _MONTH.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a month")
    return date.fromisoformat(f"{text}-01")


def next_month(month: date) -> date:
    """Returns the first day of the month after the month that starts on this day."""
    return (month + timedelta(days=31)).replace(day=1)


def last_days(count: int) -> list[date]:
    """Returns the last `count` days including today, oldest first."""
    today = datetime.now(LAGOS).date()
    return [today - timedelta(days=ago) for ago in range(count - 1, -1, -1)]
