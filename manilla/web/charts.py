"""The chart that all pages use, drawn as SVG on the server.

A chart has an axis and a grid, shows each point's values on hover and by keyboard, and can compare
a period with the previous one. If one point is much larger than the others, its bar is cut off at
the top of the axis and labeled with its value. Each chart comes with a table of its figures.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import msgspec
from markupsafe import Markup

from manilla.kit.display import money, percentage
from manilla.kit.money import DECIMALS, Money, symbol_of
from manilla.ledger.daily import DailyFigures

INTERVALS = 4  # the number of intervals on the value axis
# An interval on the value axis is one of these numbers times a power of ten.
STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
# The percentage of the plot's height that is reserved for labels.
HEADROOM = 100 / 12.5 * 1.5
# A bar is cut off if its value is more than this many times the next lower value.
OUTLIER_FACTOR = 2
# At most this fraction of a chart's bars is cut off.
OUTLIER_SHARE = 0.1
TICKS_MAX = 7
BAR_SHARE = 0.7  # a bar's width, as a fraction of the space for it
COMPACT = ((1_000_000_000, "B"), (1_000_000, "M"), (1_000, "k"))

Values = Sequence[float | None]  # None if a point has no value


class ChartUnit(msgspec.Struct, frozen=True):
    """Formats a chart's values."""

    exact: Callable[[float], str]
    short: Callable[[float], str]  # shorter text for the axis
    top: float | None = None  # the highest axis value, or None to compute it


class ChartSeries(msgspec.Struct, frozen=True):
    label: str
    values: Values


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    title: str
    points: Sequence[str]  # the name of each point, such as `Tue, 3 Nov`
    ticks: Sequence[str]  # the labels below the axis, such as `3 Nov`
    series: Sequence[ChartSeries]
    unit: ChartUnit
    before: ChartSeries | None = None  # values of the previous period, which may be shorter
    is_bars: bool = True
    nothing: str = "Nothing in this period"  # the text of an empty chart

    @property
    def is_empty(self) -> bool:
        return not any(value for each in self.series for value in each.values)

    @property
    def rows(self) -> list[tuple[str, list[str]]]:
        """The rows of the table below the chart, newest first: each point's name and values."""
        rows = [
            (point, [self._exact(each.values[place]) for each in self._all if self._has(each)])
            for place, point in enumerate(self.points)
        ]
        return rows[::-1]

    @property
    def columns(self) -> list[str]:
        return [each.label for each in self._all if self._has(each)]

    @property
    def scale(self) -> list[str]:
        """The labels of the grid lines, from top to bottom."""
        step = self.top / INTERVALS
        return [self.unit.short(step * place) for place in range(INTERVALS, -1, -1)]

    @property
    def top(self) -> float:
        """The highest value on the axis."""
        if self.unit.top is not None:
            return self.unit.top
        drawn = [*self.series, self.before] if self.before else self.series
        values = [value or 0 for each in drawn for value in each.values]
        return _round_up(usual_highest(values))

    @property
    def description(self) -> str:
        if self.is_empty:
            return f"{self.title}: {self.nothing}."
        highest = [
            f"{each.label} at most {self._exact(max(value or 0 for value in each.values))}"
            for each in self.series
        ]
        return f"{self.title}, {self.points[0]} to {self.points[-1]}: {', '.join(highest)}."

    @property
    def plot(self) -> Markup:
        """The content of the chart's <svg> element. Positions are percentages of its size."""
        if self.is_empty:
            none = Markup(
                '<text class="chart-none" x="50%" y="48%" text-anchor="middle">{}</text>'
            ).format(self.nothing)
            return self._grid + none
        lines = Markup("").join(self._lines())
        points = Markup("").join(map(self._point, range(len(self.points))))
        beyond = Markup("").join(self._beyond())
        return self._grid + points + lines + beyond

    @property
    def days(self) -> Markup:
        """The content of the <svg> element below the chart: the labels of the horizontal axis."""
        count = len(self.points)
        every = max(1, -(-count // TICKS_MAX))
        shown = range((count - 1) % every, count, every)
        texts = []
        for number, place in enumerate(reversed(shown)):
            middle = self._middle(place)
            anchor = "end" if middle > 94 else "start" if middle < 6 else "middle"
            at = 100 if anchor == "end" else 0 if anchor == "start" else middle
            texts.append(
                Markup('<text x="{:.2f}%" y="16" text-anchor="{}"{}>{}</text>').format(
                    at, anchor, Markup(' class="some"') if number % 2 else "", self.ticks[place]
                )
            )
        return Markup("").join(texts)

    @property
    def _all(self) -> list[ChartSeries]:
        return [*self.series, self.before] if self.before else list(self.series)

    def _has(self, series: ChartSeries) -> bool:
        return len(series.values) == len(self.points)

    def _exact(self, value: float | None) -> str:
        return "—" if value is None else self.unit.exact(value)

    def _middle(self, place: int) -> float:
        return 100 * (place + 0.5) / len(self.points)

    def _y(self, value: float) -> float:
        """Returns the vertical position of a value, in percent from the top of the chart."""
        return HEADROOM + (100 - HEADROOM) * (1 - max(0, min(value / self.top, 1)))

    @property
    def _grid(self) -> Markup:
        step = self.top / INTERVALS
        lines = (self._y(step * place) for place in range(INTERVALS + 1))
        return Markup("").join(
            Markup(
                '<line class="chart-grid" x1="0" x2="100%" y1="{0:.2f}%" y2="{0:.2f}%"/>'
            ).format(y)
            for y in lines
        )

    def _point(self, place: int) -> Markup:
        """Returns the SVG shapes of a point: its bar or dots, its hover area, and its values."""
        width = 100 / len(self.points)
        middle = self._middle(place)
        shapes = Markup('<rect class="chart-hit" x="{:.2f}%" y="0" width="{:.2f}%" height="100%"/>')
        shapes = shapes.format(width * place, width)
        if self.is_bars:
            shapes += self._bar(place, width)
        else:
            shapes += self._dots(place, middle)
        return Markup(
            '<g class="chart-point">{}<text class="chart-readout" x="{}" y="14"'
            ' text-anchor="{}">{}</text></g>'
        ).format(
            shapes, *(("0", "start") if middle < 50 else ("100%", "end")), self._readout(place)
        )

    def _readout(self, place: int) -> str:
        values = [(each.label, each.values[place]) for each in self.series]
        if len(values) == 1:
            texts = [self._exact(values[0][1])]
        else:
            texts = [f"{label} {self._exact(value)}" for label, value in values]
        if self.before is not None and place < len(self.before.values):
            texts.append(f"before {self._exact(self.before.values[place])}")
        return f"{self.points[place]}: {', '.join(texts)}"

    def _bar(self, place: int, width: float) -> Markup:
        value = self.series[0].values[place] or 0
        if not value:
            return Markup("")
        y = self._y(value)
        left = width * (place + (1 - BAR_SHARE) / 2)
        bar = Markup(
            '<rect class="chart-bar" x="{:.2f}%" y="{:.2f}%" width="{:.2f}%" height="{:.2f}%"'
            ' rx="2"/>'
        ).format(left, y, width * BAR_SHARE, 100 - y)
        if value <= self.top:
            return bar
        cut = HEADROOM + (100 - HEADROOM) * 0.12
        return bar + Markup(
            '<line class="chart-cut" x1="{:.2f}%" x2="{:.2f}%" y1="{:.2f}%" y2="{:.2f}%"/>'
        ).format(left - width * 0.05, left + width * (BAR_SHARE + 0.05), cut + 2, cut - 2)

    def _dots(self, place: int, middle: float) -> Markup:
        dots = [
            Markup(
                '<circle class="chart-dot chart-dot-{}" cx="{:.2f}%" cy="{:.2f}%" r="2.5"/>'
            ).format(number, middle, self._y(value))
            for number, each in enumerate(self.series, start=1)
            if (value := each.values[place]) is not None
        ]
        return Markup("").join(dots)

    def _lines(self) -> Iterator[Markup]:
        """Yields the chart's lines, in a nested <svg> element that fills the chart."""
        drawn = [] if self.is_bars else list(enumerate(self.series, start=1))
        lines = [(f"chart-line chart-line-{number}", each) for number, each in drawn]
        if self.before is not None:
            lines.append(("chart-before", self.before))
        if not lines:
            return
        yield Markup('<svg viewBox="0 0 100 100" preserveAspectRatio="none">')
        for name, each in lines:
            for points in self._runs(each.values):
                yield Markup('<polyline class="{}" points="{}"/>').format(name, points)
        yield Markup("</svg>")

    def _runs(self, values: Values) -> Iterator[str]:
        """Yields the coordinates of each part of a line. A missing value interrupts the line."""
        places = list(enumerate(values[: len(self.points)]))
        for has_value, run in groupby(places, key=lambda pair: pair[1] is not None):
            if has_value:
                yield " ".join(
                    f"{self._middle(place):.2f},{self._y(value or 0):.2f}" for place, value in run
                )

    def _beyond(self) -> Iterator[Markup]:
        """Yields a label for each bar that is cut off at the top of the axis."""
        if not self.is_bars:
            return
        for place, value in enumerate(self.series[0].values):
            if value is not None and value > self.top:
                middle = self._middle(place)
                anchor = "end" if middle > 90 else "start" if middle < 10 else "middle"
                yield Markup(
                    '<text class="chart-beyond" x="{:.2f}%" y="{:.2f}%" dy="-5" text-anchor="{}">'
                    "{}</text>"
                ).format(middle, HEADROOM, anchor, self.unit.short(value))


def usual_highest(values: Sequence[float]) -> float:
    """Returns the highest value, ignoring a few values that are much larger than all others."""
    ordered = sorted(values, reverse=True)
    for cut in range(1, max(1, int(len(ordered) * OUTLIER_SHARE)) + 1):
        if cut < len(ordered) and 0 < ordered[cut] * OUTLIER_FACTOR < ordered[cut - 1]:
            return ordered[cut]
    return ordered[0] if ordered else 0


def _round_up(value: float) -> float:
    """Rounds up the highest value of the axis, so that the grid lines have round numbers."""
    if value <= 0:
        return float(INTERVALS)
    size = 10.0 ** (len(str(int(max(value / INTERVALS, 1)))) - 1)
    return next(INTERVALS * step * size for step in STEPS if INTERVALS * step * size >= value)


def money_unit(currency: str) -> ChartUnit:
    """Returns the format of chart values that are amounts in the currency's minor units."""
    factor, symbol = 10 ** DECIMALS[currency], symbol_of(currency)
    return ChartUnit(
        lambda value: money(Money(currency, int(value))),
        lambda value: symbol + compact(value / factor),
    )


def number_unit(suffix: str = "", *, top: float | None = None) -> ChartUnit:
    return ChartUnit(
        lambda value: f"{value:,.10g}{suffix}", lambda value: f"{compact(value)}{suffix}", top
    )


def compact(value: float) -> str:
    """Formats 1250000 as `1.25M`."""
    for size, letter in COMPACT:
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def share(days: Sequence[DailyFigures], word: str) -> str:
    """Returns how many of the transactions succeeded, such as `2 of 19 paid`."""
    return f"{sum(day.succeeded for day in days):,} of {sum(day.count for day in days):,} {word}"


def success_rate(days: Sequence[DailyFigures]) -> str:
    succeeded = sum(day.succeeded for day in days)
    decided = succeeded + sum(day.failed for day in days)
    return percentage(succeeded / decided if decided else None)
