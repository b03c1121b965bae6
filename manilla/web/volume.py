"""The daily volume in a period and its chart, compared with the previous period."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Any

import msgspec

from manilla.kit.clock import LAGOS, last_days
from manilla.kit.database.rows import Reads
from manilla.kit.display import money
from manilla.kit.money import Money
from manilla.ledger.daily import DailyFigures
from manilla.ledger.scope import Scope
from manilla.payments import figures as payments
from manilla.payouts import figures as payouts
from manilla.web import charts
from manilla.web.charts import Chart, ChartSeries, money_unit, number_unit

PERIODS = {"7days": "7 days", "30days": "30 days", "90days": "90 days", "month": "This month"}
LENGTHS = {"7days": 7, "30days": 30, "90days": 90}
DEFAULT = "30days"


class ComparedVolume(msgspec.Struct, frozen=True):
    """The daily figures of a period and, for comparison, of the previous period."""

    currency: str
    days: Sequence[DailyFigures]
    before: Sequence[DailyFigures]

    @property
    def total(self) -> Money:
        return Money(self.currency, sum(day.volume_minor for day in self.days))

    @property
    def total_before(self) -> Money:
        return Money(self.currency, sum(day.volume_minor for day in self.before))

    @property
    def share(self) -> str:
        return charts.share(self.days, "paid")

    @property
    def count(self) -> int:
        return sum(day.count for day in self.days)

    @property
    def success_rate(self) -> str:
        return charts.success_rate(self.days)

    @property
    def success_rate_before(self) -> str:
        return charts.success_rate(self.before)

    @property
    def change(self) -> str:
        """The change of the total as text, such as `12 % more than before (₦1,000.00)`."""
        now, before = self.total.minor, self.total_before.minor
        if not before:
            period = "in the previous period"
            return f"No volume {period}" if now else f"No volume, as {period}"
        if now == before:
            return f"Same as before ({money(self.total_before)})"
        percent = round(100 * abs(now - before) / before)
        word = "more" if now > before else "less"
        return f"{percent:,} % {word} than before ({money(self.total_before)})"


class Measure(msgspec.Struct, frozen=True):
    """A daily figure that users can select for the chart, such as the success rate."""

    label: str
    value: Callable[[DailyFigures], float | None]


MEASURES = {
    "paid_in": Measure("Paid in", lambda day: day.volume_minor),
    "paid_out": Measure("Paid out", lambda day: day.volume_minor),
    "success_rate": Measure(
        "Success rate",
        lambda day: None if day.success_rate is None else round(100 * day.success_rate, 1),
    ),
}


class Volume(msgspec.Struct, frozen=True):
    period: str
    paid_in: ComparedVolume
    paid_out: ComparedVolume

    def chart(self, measure: str) -> Chart:
        """Returns the chart of one measure by day, compared with the previous period."""
        compared = self.paid_out if measure == "paid_out" else self.paid_in
        shown, is_rate = MEASURES[measure], measure == "success_rate"
        before = [shown.value(day) for day in compared.before]
        return Chart(
            title=f"{shown.label} by day",
            points=[f"{day.day:%a, %-d %b}" for day in compared.days],
            ticks=[f"{day.day:%-d %b}" for day in compared.days],
            series=[ChartSeries(shown.label, [shown.value(day) for day in compared.days])],
            before=ChartSeries("Previous period", before) if any(before) else None,
            unit=number_unit(" %", top=100) if is_rate else money_unit(compared.currency),
            is_bars=not is_rate,
        )


def chosen_period(text: str) -> str:
    return text if text in PERIODS else DEFAULT


def measure(text: str) -> str:
    return text if text in MEASURES else "paid_in"


async def volume(db: Reads, scope: Scope, currency: str, period: str) -> Volume:
    days, before = _days(period)

    async def compared(daily: Callable[..., Awaitable[Any]]) -> ComparedVolume:
        found = await daily(db, scope, currency, [*before, *days])
        return ComparedVolume(currency, found[len(before) :], found[: len(before)])

    return Volume(period, await compared(payments.daily), await compared(payouts.daily))


def _days(period: str) -> tuple[list[date], list[date]]:
    """Returns the days of a period, and the days of the previous period."""
    if period in LENGTHS:
        days = last_days(2 * LENGTHS[period])
        return days[LENGTHS[period] :], days[: LENGTHS[period]]
    today = datetime.now(LAGOS).date()
    days = last_days(today.day)
    first = (days[0] - timedelta(days=1)).replace(day=1)
    before = [first + timedelta(days=number) for number in range(len(days))]
    return days, [day for day in before if day < days[0]]
