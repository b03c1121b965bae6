"""The console's lists are not cut off on a phone or a laptop."""

import pytest
from playwright.async_api import Browser

from manilla.services import Services
from manilla.web.routes import Route
from tests.console.conftest import PopulatedConsole
from tests.web.layout import LIST_WIDTHS, check_nothing_is_cut_off
from tests.web.route_urls import address
from tests.web.test_record_lists import CONSOLE_LISTS


async def test_no_list_cuts_off_names_money_buttons_or_statuses(
    browser: Browser, services: Services, populated: PopulatedConsole
) -> None:
    urls = [f"{services.base_url}/console{path}" for path in CONSOLE_LISTS]
    await check_nothing_is_cut_off(browser, populated.administrator, urls, LIST_WIDTHS)


@pytest.mark.long
async def test_no_page_cuts_off_money_buttons_or_statuses(
    browser: Browser, services: Services, populated: PopulatedConsole, table: list[Route]
) -> None:
    routes = [route for route in table if route.method == "GET" and route.is_page]
    paths = [address(route, populated.samples) for route in routes]
    urls = [f"{services.base_url}/console{path}" for path in paths]
    await check_nothing_is_cut_off(browser, populated.administrator, urls)
