"""Data for charts by day and by hour."""

import calendar
from collections.abc import Mapping, Sequence
from datetime import datetime, time

import msgspec

from manilla.kit import strict_json
from manilla.kit.display import money_symbol
from manilla.ledger.daily import DailyFigures


def volume(currency: str, paid_in: Sequence[DailyFigures], paid_out: Sequence[DailyFigures]) -> str:
    """Returns the data of a volume chart, for the chart script.

    Each day is placed at noon, so that it is the same day in every time zone.
    """
    noons = [calendar.timegm(datetime.combine(day.day, time(12)).timetuple()) for day in paid_in]
    series = [
        {"label": "Paid in", "values": [day.volume.amount for day in paid_in]},
        {"label": "Paid out", "values": [day.volume.amount for day in paid_out]},
    ]
    drawn = {"days": noons, "series": series, "money": money_symbol(currency)}
    return strict_json.encode(drawn).decode()


def share(days: Sequence[DailyFigures], word: str) -> str:
    """Returns `2 of 19 paid`.

    The volume counts only successful transactions; this is their share.
    """
    return f"{sum(day.succeeded for day in days):,} of {sum(day.count for day in days):,} {word}"


def success_rate(days: Sequence[DailyFigures]) -> str:
    succeeded = sum(day.succeeded for day in days)
    decided = succeeded + sum(day.failed for day in days)
    return f"{100 * succeeded / decided:.1f} %" if decided else "—"


def hourly(
    hours: Sequence[datetime],
    series: Mapping[str, Sequence[float | None]],
    *,
    unit: str = "",
    high: int | None = None,
) -> str:
    """Returns the data of a chart by hour. `high` is the end of the axis, if known."""
    drawn = {
        "days": [int(hour.timestamp()) for hour in hours],
        "hours": True,
        "series": [{"label": label, "values": values} for label, values in series.items()],
        "unit": unit,
        "high": high,
    }
    return msgspec.json.encode(drawn).decode()
