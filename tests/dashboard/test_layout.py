"""The dashboard's lists are not cut off on a phone or a laptop."""

import pytest
from playwright.async_api import Browser, expect

from manilla.services import Services
from manilla.web.routes import Route
from tests.dashboard.conftest import PopulatedMerchant
from tests.web.layout import LIST_WIDTHS, check_nothing_is_cut_off
from tests.web.route_urls import address
from tests.web.test_record_lists import DASHBOARD_LISTS


async def test_no_list_cuts_off_names_money_buttons_or_statuses(
    browser: Browser, services: Services, populated: PopulatedMerchant
) -> None:
    urls = [f"{services.base_url}/dashboard{path}" for path in DASHBOARD_LISTS]
    await check_nothing_is_cut_off(browser, populated.owner, urls, LIST_WIDTHS)


async def test_daily_pages_are_in_the_menu_without_a_click_and_open_groups_are_remembered(
    browser: Browser, services: Services, populated: PopulatedMerchant
) -> None:
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    await populated.owner.enter(context)
    page = await context.new_page()
    await page.goto(f"{services.base_url}/dashboard/sandbox")
    menu = page.get_by_role("navigation", name="Main")
    for title in ("Payments", "Payouts", "Balance", "Settlements", "Webhooks"):
        await expect(menu.get_by_role("link", name=title, exact=True)).to_be_in_viewport()
    # Business is open, because a payout in it awaits approval.
    for group in ("Business", "Developers"):
        await menu.locator("summary", has_text=group).click()
    page = await context.new_page()
    await page.goto(f"{services.base_url}/dashboard/sandbox/payments")
    menu = page.get_by_role("navigation", name="Main")
    await expect(menu.get_by_role("link", name="Team")).to_be_hidden()
    await expect(menu.get_by_role("link", name="Webhooks")).to_be_hidden()
    await menu.locator("summary", has_text="Business").click()
    await page.reload()
    await expect(menu.get_by_role("link", name="Team")).to_be_visible()
    await context.close()


@pytest.mark.long
async def test_menus_filters_and_charts_work_without_javascript(
    browser: Browser, services: Services, populated: PopulatedMerchant
) -> None:
    context = await browser.new_context(java_script_enabled=False)
    await populated.owner.enter(context)
    page = await context.new_page()
    for width in (390, 1280):
        await page.set_viewport_size({"width": width, "height": 844})
        await page.goto(f"{services.base_url}/dashboard/sandbox/payments")
        if width == 390:
            await page.get_by_text("Menu", exact=True).click()
        await expect(page.get_by_role("link", name="Payment links")).to_be_visible()
        await page.goto(f"{services.base_url}/dashboard/sandbox/payments")
        await page.get_by_text("Filters", exact=True).click()
        await page.locator("#q-status").select_option("failed")
        await page.get_by_role("button", name="Apply").click()
        await expect(page.get_by_text("Status: Failed")).to_be_visible()
        await page.goto(f"{services.base_url}/dashboard/sandbox")
        await page.locator(".chart-bar").last.hover()
        await expect(page.locator(".chart-readout").last).to_be_visible()
    await context.close()


@pytest.mark.long
async def test_menus_stay_inside_the_screen_of_a_phone(
    browser: Browser, services: Services, populated: PopulatedMerchant
) -> None:
    context = await browser.new_context(viewport={"width": 390, "height": 844})
    await populated.owner.enter(context)
    page = await context.new_page()
    for path in DASHBOARD_LISTS:
        await page.goto(f"{services.base_url}/dashboard{path}")
        await page.get_by_text("Filters", exact=True).click()
        sheet = await page.locator(".filter-fields").bounding_box()
        assert sheet, path
        assert sheet["x"] >= 0, path
        assert sheet["x"] + sheet["width"] <= 390, path
        assert sheet["y"] + sheet["height"] <= 844, path
        await page.mouse.click(195, 20)  # outside the sheet
        await expect(page.locator(".filter-fields")).to_be_hidden()
    await context.close()


@pytest.mark.long
async def test_the_current_entry_of_the_menu_is_in_view(
    browser: Browser, services: Services, populated: PopulatedMerchant
) -> None:
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    await populated.owner.enter(context)
    page = await context.new_page()
    for path in ("/sandbox", "/sandbox/settlements", "/sandbox/commission", "/profile"):
        await page.goto(f"{services.base_url}/dashboard{path}")
        await expect(page.locator("nav [aria-current=page]")).to_be_in_viewport()
    await context.close()


@pytest.mark.long
async def test_no_page_cuts_off_money_buttons_or_statuses(
    browser: Browser, services: Services, populated: PopulatedMerchant, table: list[Route]
) -> None:
    routes = [route for route in table if route.method == "GET" and route.is_page]
    paths = [address(route, populated.samples) for route in routes]
    urls = [f"{services.base_url}/dashboard{path}" for path in paths]
    await check_nothing_is_cut_off(browser, populated.owner, urls)
