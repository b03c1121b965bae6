"""Volume by day over a chosen period, compared with the period before, and its chart as SVG.

A few days are drawn as bars and many as lines. The chart contains no text, so that it can have any
width: the page shows the dates and the highest value around it, and all figures in a table.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Any

import msgspec
from markupsafe import Markup

from manilla.kit.clock import LAGOS, last_days
from manilla.kit.db import Database
from manilla.kit.display import money
from manilla.kit.money import Money
from manilla.ledger.daily import DailyFigures
from manilla.ledger.scope import Scope
from manilla.payments import figures as payments
from manilla.payouts import figures as payouts
from manilla.web import charts

PERIODS = {"7days": "7 days", "30days": "30 days", "90days": "90 days", "month": "This month"}
LENGTHS = {"7days": 7, "30days": 30, "90days": 90}
DEFAULT = "30days"
BARS_MAX = 14  # more days than this are drawn as lines
WIDTH, HEIGHT = 720, 200
BAR_SHARE = 0.38  # width of a bar as a share of its day


class ComparedVolume(msgspec.Struct, frozen=True):
    """Successful transactions of a period, and of the period before it."""

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
        """Compares the totals in words and figures: `12 % more than before (₦1,000.00)`."""
        now, before = self.total.minor, self.total_before.minor
        if not before:
            return "Nothing in the period before" if now else "Also nothing in the period before"
        if now == before:
            return f"As much as in the period before ({money(self.total_before)})"
        percent = round(100 * abs(now - before) / before)
        word = "more" if now > before else "less"
        return f"{percent:,} % {word} than in the period before ({money(self.total_before)})"


class Volume(msgspec.Struct, frozen=True):
    period: str
    paid_in: ComparedVolume
    paid_out: ComparedVolume

    @property
    def days(self) -> list[tuple[DailyFigures, DailyFigures]]:
        return list(zip(self.paid_in.days, self.paid_out.days, strict=True))

    @property
    def highest(self) -> Money:
        volumes = [day.volume_minor for pair in self.days for day in pair]
        return Money(self.paid_in.currency, max(volumes))

    @property
    def chart(self) -> Markup:
        drawn = _bars if len(self.days) <= BARS_MAX else _lines
        shapes = Markup("").join(
            drawn([day.volume_minor for day in each.days], self.highest.minor or 1, place)
            for place, each in enumerate((self.paid_in, self.paid_out))
        )
        return Markup(
            '<svg class="volume" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img"'
            ' aria-label="{}">{}</svg>'
        ).format(WIDTH, HEIGHT, self._description, shapes)

    @property
    def _description(self) -> str:
        first, last = self.paid_in.days[0].day, self.paid_in.days[-1].day
        return (
            f"Volume by day from {first:%-d %B} to {last:%-d %B}:"
            f" {money(self.paid_in.total)} paid in, {money(self.paid_out.total)} paid out,"
            f" at most {money(self.highest)} on a day."
        )


def chosen(text: str) -> str:
    return text if text in PERIODS else DEFAULT


async def volume(db: Database, scope: Scope, currency: str, period: str) -> Volume:
    days, before = _days(period)

    async def compared(daily: Callable[..., Awaitable[Any]]) -> ComparedVolume:
        found = await daily(db, scope, currency, [*before, *days])
        return ComparedVolume(currency, found[len(before) :], found[: len(before)])

    return Volume(period, await compared(payments.daily), await compared(payouts.daily))


def _days(period: str) -> tuple[list[date], list[date]]:
    """Returns the days of the period and, of the same number, those of the period before."""
    if period in LENGTHS:
        days = last_days(2 * LENGTHS[period])
        return days[LENGTHS[period] :], days[: LENGTHS[period]]
    today = datetime.now(LAGOS).date()
    days = last_days(today.day)
    first = (days[0] - timedelta(days=1)).replace(day=1)
    before = [first + timedelta(days=number) for number in range(len(days))]
    return days, [day for day in before if day < days[0]]


def _bars(volumes: Sequence[int], highest: int, place: int) -> Markup:
    step = WIDTH / len(volumes)
    bars = [
        Markup(
            '<rect class="series-{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>'
        ).format(
            *(
                place + 1,
                step * (number + 0.1 + BAR_SHARE * place),
                HEIGHT * (1 - volume / highest),
            ),
            *(step * BAR_SHARE, HEIGHT * volume / highest),
        )
        for number, volume in enumerate(volumes)
    ]
    return Markup("").join(bars)


def _lines(volumes: Sequence[int], highest: int, place: int) -> Markup:
    step = WIDTH / (len(volumes) - 1)
    points = " ".join(
        f"{step * number:.1f},{HEIGHT * (1 - volume / highest):.1f}"
        for number, volume in enumerate(volumes)
    )
    line = Markup('<polyline class="line series-{}" points="{}"/>').format(place + 1, points)
    area = Markup('<polygon class="area series-{}" points="0,{} {} {},{}"/>').format(
        *(place + 1, HEIGHT, points, WIDTH, HEIGHT)
    )
    return line if place else area + line
