"""The payout form's bank field finds banks by name, alias or code, and works with the keyboard."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from manilla.services import Services
from tests.checkout.page_checks import accessibility_violations
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.support.client import Site
from tests.support.provider_simulator import running_simulator

GTBANK, GTBANK_TEXT = "058", "Guaranty Trust Bank (058)"


@pytest.fixture(scope="module")
async def dashboard(services: Services, site: Site) -> AsyncIterator[MerchantDashboard]:
    async with running_simulator(services):
        yield await new_dashboard(services, site)


async def _form(dashboard: MerchantDashboard, path: str = "payouts/new") -> str:
    return f"/sandbox/{path}?method={await dashboard.method_id()}"


async def _chosen(page: Page) -> str:
    return str(await page.evaluate("document.querySelector('[name=bank_code]').value"))


@pytest.mark.parametrize(
    ("width", "path"),
    [
        (390, "payouts/new"),
        pytest.param(390, "accounts/new", marks=pytest.mark.long),
        pytest.param(1280, "payouts/new", marks=pytest.mark.long),
        pytest.param(1280, "accounts/new", marks=pytest.mark.long),
    ],
)
async def test_a_bank_is_found_by_a_part_of_its_name_and_chosen_by_a_click(
    dashboard: MerchantDashboard, browser: Browser, width: int, path: str
) -> None:
    async with dashboard.open_page(browser, await _form(dashboard, path), width=width) as page:
        field, results = page.get_by_role("combobox", name="Bank"), page.get_by_role("option")
        await field.press_sequentially("trust")
        await expect(results.filter(has_text=GTBANK_TEXT)).to_be_visible()
        assert not await accessibility_violations(page)
        await results.filter(has_text=GTBANK_TEXT).click()
        await expect(field).to_have_value(GTBANK_TEXT)
        assert await _chosen(page) == GTBANK
        await expect(results.first).to_be_hidden()
        beyond = await page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert beyond <= 0


@pytest.mark.parametrize(
    "typed",
    ["GT bank", *(pytest.param(text, marks=pytest.mark.long) for text in ("gtb", "058", "000013"))],
)
async def test_a_bank_is_found_by_alias_and_code_and_chosen_with_the_keyboard(
    dashboard: MerchantDashboard, browser: Browser, typed: str
) -> None:
    async with dashboard.open_page(browser, await _form(dashboard), width=390) as page:
        field = page.get_by_role("combobox", name="Bank")
        await field.press_sequentially(typed)
        await expect(field).to_have_attribute("aria-expanded", "true")
        active = await field.get_attribute("aria-activedescendant")
        assert await page.locator(f"#{active}").inner_text() == GTBANK_TEXT
        await field.press("Enter")
        await expect(field).to_have_value(GTBANK_TEXT)
        assert await _chosen(page) == GTBANK
        # The page shows the account name, as it does with an ordinary select element.
        await page.get_by_label("Account number").press_sequentially("0123456789")
        await page.get_by_text("SANDBOX BENEFICIARY").wait_for()


@pytest.mark.long
async def test_arrows_move_through_the_results_and_escape_closes_them(
    dashboard: MerchantDashboard, browser: Browser
) -> None:
    async with dashboard.open_page(browser, await _form(dashboard), width=1280) as page:
        field, results = page.get_by_role("combobox", name="Bank"), page.get_by_role("option")
        await field.press("ArrowDown")
        await field.press("ArrowDown")
        await field.press("ArrowDown")
        await field.press("ArrowUp")
        second = await results.nth(0).inner_text()
        await expect(results.nth(0)).to_have_attribute("aria-selected", "true")
        await field.press("Escape")
        await expect(results.first).to_be_hidden()
        assert await _chosen(page) == ""
        await field.press("ArrowDown")
        await field.press("ArrowDown")
        await field.press("Enter")
        await expect(field).to_have_value(second)


@pytest.mark.long
async def test_text_that_is_no_bank_chooses_nothing_and_is_not_sent(
    dashboard: MerchantDashboard, browser: Browser
) -> None:
    async with dashboard.open_page(browser, await _form(dashboard), width=390) as page:
        field = page.get_by_role("combobox", name="Bank")
        await field.fill(GTBANK)
        await field.press("Tab")
        # Typing an exact bank code selects the bank.
        await expect(field).to_have_value(GTBANK_TEXT)
        # Typing a part of a bank's name does not select the bank.
        await field.fill("Guaranty Trust")
        await page.get_by_label("Account number").fill("0123456789")
        await page.get_by_label("Amount").fill("1000")
        assert await _chosen(page) == ""
        await page.get_by_role("button", name="Review payout").click()
        message = await field.evaluate("element => element.validationMessage")
        assert message == "Choose an entry from the list."
        await field.fill("no such bank")
        await expect(page.get_by_text("No results.")).to_be_visible()
        assert not await accessibility_violations(page)


@contextlib.asynccontextmanager
async def _page(
    dashboard: MerchantDashboard, browser: Browser, **options: Any
) -> AsyncIterator[Page]:
    context = await browser.new_context(**options)
    await dashboard.owner.enter(context)
    page = await context.new_page()
    await page.goto(f"{dashboard.services.base_url}/dashboard{await _form(dashboard)}")
    yield page
    await context.close()


@pytest.mark.long
async def test_a_rejected_form_shows_the_chosen_bank_again(
    dashboard: MerchantDashboard, browser: Browser
) -> None:
    async with _page(dashboard, browser) as page:
        field = page.get_by_role("combobox", name="Bank")
        await field.fill(GTBANK)
        await page.get_by_label("Account number").fill("0123456789")
        await page.get_by_label("Amount").fill("1")
        await page.get_by_role("button", name="Review payout").click()
        await page.locator("#h-amount").wait_for()
        await expect(field).to_have_value(GTBANK_TEXT)
        assert await _chosen(page) == GTBANK


@pytest.mark.long
async def test_without_scripts_the_bank_is_an_ordinary_select(
    dashboard: MerchantDashboard, browser: Browser
) -> None:
    async with _page(dashboard, browser, java_script_enabled=False) as page:
        await page.get_by_label("Bank", exact=True).select_option(GTBANK)
        await page.get_by_label("Account number").fill("0123456789")
        await page.get_by_label("Amount").fill("1000")
        await page.get_by_role("button", name="Review payout").click()
        await expect(page.get_by_text(GTBANK_TEXT)).to_be_visible()
