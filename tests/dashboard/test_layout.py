"""Nothing on a list is cut off, on a phone or a laptop."""

import pytest
from playwright.async_api import Browser

from manilla.services import Services
from manilla.web.routes import Route
from tests.dashboard.conftest import PopulatedMerchant
from tests.web.layout import cut_off
from tests.web.route_urls import address
from tests.web.test_record_lists import DASHBOARD_LISTS


async def test_no_list_cuts_off_money_buttons_or_statuses(
    browser: Browser, services: Services, populated: PopulatedMerchant
) -> None:
    context = await browser.new_context()
    await populated.owner.enter(context)
    urls = [f"{services.base_url}/dashboard{path}" for path in DASHBOARD_LISTS]
    found = await cut_off(await context.new_page(), urls)
    await context.close()
    assert not found, "\n".join(found)


@pytest.mark.long
async def test_no_page_cuts_off_money_buttons_or_statuses(
    browser: Browser, services: Services, populated: PopulatedMerchant, table: list[Route]
) -> None:
    context = await browser.new_context()
    await populated.owner.enter(context)
    routes = [route for route in table if route.method == "GET" and route.is_page]
    paths = [address(route, populated.samples) for route in routes]
    urls = [f"{services.base_url}/dashboard{path}" for path in paths]
    found = await cut_off(await context.new_page(), urls)
    await context.close()
    assert not found, "\n".join(found)
