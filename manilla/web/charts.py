"""Data for charts by day and by hour."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from manilla.ledger.daily import DailyFigures


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
