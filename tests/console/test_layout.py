"""The console's lists are not cut off on a phone or a laptop."""

import pytest
from playwright.async_api import Browser

from manilla.services import Services
from manilla.web.routes import Route
from tests.console.conftest import PopulatedConsole
from tests.web.layout import LAPTOPS, LIST_WIDTHS, PHONE, TABLET, check_nothing_is_cut_off
from tests.web.route_urls import address
from tests.web.test_record_lists import CONSOLE_LISTS


async def test_no_list_cuts_off_names_money_buttons_or_statuses(
    browser: Browser, services: Services, populated: PopulatedConsole
) -> None:
    urls = [f"{services.base_url}/console{path}" for path in CONSOLE_LISTS]
    await check_nothing_is_cut_off(browser, populated.administrator, urls, LIST_WIDTHS)


# The script writes counts of one to four digits, and returns those that need more than one line.
BROKEN = """() => {
  const broken = [];
  for (const count of document.querySelectorAll(".count, .nav-count"))
    for (const text of ["1", "17", "222", "8888"]) {
      count.textContent = text;
      const range = document.createRange();
      range.selectNodeContents(count);
      if (count.getBoundingClientRect().height > 24 || range.getClientRects().length > 1)
        broken.push(`${count.className} ${text}`);
    }
  return broken;
}"""


async def test_a_count_of_up_to_four_digits_stays_on_one_line(
    browser: Browser, services: Services, populated: PopulatedConsole
) -> None:
    context = await browser.new_context()
    await populated.administrator.enter(context)
    page = await context.new_page()
    await page.goto(f"{services.base_url}/console/")
    # Without a longer title, every count has enough space.
    await page.evaluate(
        "document.querySelectorAll('.line > :first-child').forEach("
        "(title) => { title.textContent = 'Failed notifications '.repeat(9); })"
    )
    assert await page.locator(".tasks .count").count()
    for width in (PHONE, TABLET, *LAPTOPS):
        await page.set_viewport_size({"width": width, "height": 844})
        assert await page.evaluate(BROKEN) == [], width
    await context.close()


@pytest.mark.long
async def test_no_page_cuts_off_money_buttons_or_statuses(
    browser: Browser, services: Services, populated: PopulatedConsole, table: list[Route]
) -> None:
    routes = [route for route in table if route.method == "GET" and route.is_page]
    paths = [address(route, populated.samples) for route in routes]
    urls = [f"{services.base_url}/console{path}" for path in paths]
    await check_nothing_is_cut_off(browser, populated.administrator, urls)
