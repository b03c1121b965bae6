"""The charts on the pages: axis, comparison, empty state, and a point far above all others."""

import re

import pytest
from playwright.async_api import Browser, expect

from manilla.services import Services
from manilla.web.charts import Chart, ChartSeries, Values, money_unit, number_unit, usual_highest
from tests.dashboard.merchant_dashboard import new_dashboard
from tests.support.client import Site


def chart(values: Values, before: Values | None = None, *, is_bars: bool = True) -> Chart:
    names = [f"{number + 1} Nov" for number in range(len(values))]
    return Chart(
        title="Paid in by day",
        points=names,
        ticks=names,
        series=[ChartSeries("Paid in", values)],
        before=None if before is None else ChartSeries("Previous period", before),
        unit=money_unit("NGN"),
        is_bars=is_bars,
    )


def test_the_axis_has_round_values() -> None:
    assert chart([1_270_451_50, 300_000_00, 900_000_00]).scale == [
        *("₦1.6M", "₦1.2M", "₦800k", "₦400k", "₦0")
    ]
    assert chart([7]).scale[-1] == "₦0"


def test_one_large_day_does_not_flatten_the_rest() -> None:
    usual = [90_000_00, 110_000_00, 100_000_00] * 5
    drawn = chart([*usual, 9_000_000_00, *usual])
    assert drawn.scale[0] == "₦120k"
    assert drawn.plot.count("chart-cut") == 1
    assert ">₦9M</text>" in drawn.plot
    assert "Paid in at most ₦9,000,000.00" in drawn.description
    assert chart(usual).plot.count("chart-cut") == 0


@pytest.mark.parametrize(
    ("values", "highest"), [([], 0), ([5], 5), ([0, 0, 9], 9), ([1, 100, 1], 1), ([40, 60, 50], 60)]
)
def test_only_values_far_above_the_others_are_cut(values: list[float], highest: float) -> None:
    assert usual_highest(values) == highest


def test_a_chart_without_values_says_so() -> None:
    drawn = chart([0, 0, 0])
    assert "Nothing in this period" in drawn.plot
    assert "chart-point" not in drawn.plot
    assert drawn.description == "Paid in by day: Nothing in this period."


def test_each_point_names_its_value_and_that_of_the_period_before() -> None:
    drawn = chart([100, 250], [300])
    assert "1 Nov: ₦1.00, before ₦3.00" in drawn.plot
    assert "2 Nov: ₦2.50</text>" in drawn.plot
    assert 'class="chart-before"' in drawn.plot
    assert drawn.rows == [("2 Nov", ["₦2.50"]), ("1 Nov", ["₦1.00"])]


def test_lines_have_gaps_where_there_is_no_value() -> None:
    drawn = chart([1, None, 3, 4], is_bars=False)
    assert len(re.findall("<polyline", drawn.plot)) == 2
    assert number_unit(" %", top=100).short(75) == "75 %"


@pytest.mark.long
async def test_a_chart_is_read_with_the_keyboard(
    services: Services, site: Site, browser: Browser
) -> None:
    dashboard = await new_dashboard(services, site)
    await dashboard.pay_in(payment_amount=1500)
    context = await browser.new_context()
    await dashboard.owner.enter(context)
    page = await context.new_page()
    await page.goto(f"{services.base_url}/dashboard/sandbox?period=7days")
    plot = page.locator("svg.chart-plot")
    await plot.focus()
    await plot.press("End")
    await expect(page.locator(".chart-point.here .chart-readout")).to_contain_text("₦1,500.00")
    await expect(page.locator(".chart [aria-live]")).to_contain_text("₦1,500.00")
    await plot.press("ArrowLeft")
    await expect(page.locator(".chart-point.here .chart-readout")).to_contain_text("₦0.00")
    await context.close()
