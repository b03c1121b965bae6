"""The dashboard's page with the merchant's prices."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser

from manilla.methods.method import MethodKind
from manilla.prices.store import OWN, Prices
from manilla.services import Services
from tests.checkout.page_checks import accessibility_violations, opened
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.prices.building import ACCOUNT, CARD, STAMP_DUTY, line, plan, tax
from tests.support.client import Site


@pytest.fixture
async def dashboard(services: Services, site: Site) -> AsyncIterator[MerchantDashboard]:
    yield await new_dashboard(services, site)
    services.prices.use(Prices())


async def test_without_a_plan_the_percentage_is_shown(dashboard: MerchantDashboard) -> None:
    page = (await dashboard.owner.get("/sandbox/prices")).body.decode()

    assert "Payments: 0 % of the amount." in page
    assert "Taxes</h3>" not in page


async def test_a_line_for_a_method_has_the_methods_name(
    dashboard: MerchantDashboard, services: Services
) -> None:
    own = line(CARD, method="providera-ngn")
    version = plan(own, plan=OWN, merchant_id=dashboard.merchant.new.id)
    services.prices.use(Prices(versions=(version,)))

    page = (await dashboard.owner.get("/sandbox/prices")).body.decode()

    name = services.methods.names(MethodKind.DEPOSIT)["providera-ngn"]
    assert f"Payments, {name}, NGN" in page
    assert "providera-ngn" not in page


@pytest.mark.parametrize("width", [390, 1280])
async def test_a_merchant_sees_its_lines_with_worked_amounts_and_the_taxes(
    dashboard: MerchantDashboard, services: Services, browser: Browser, width: int
) -> None:
    merchant_id = dashboard.merchant.new.id
    own = plan(line(CARD), line(ACCOUNT, way="bank_transfer"), plan=OWN, merchant_id=merchant_id)
    services.prices.use(Prices(versions=(own,), rules=(tax(), STAMP_DUTY)))
    base = services.base_url + "/dashboard"

    async with opened(browser, f"{base}/sign-in", width=width) as page:
        await dashboard.owner.enter(page.context)
        await page.goto(f"{base}/sandbox/prices")
        await page.get_by_role("cell", name="₦2,000.00").wait_for()
        await page.get_by_text("Stamp duty").wait_for()
        assert await accessibility_violations(page) == []
