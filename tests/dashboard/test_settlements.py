"""The settlement pages: the plan, manual settlements, and the statement of a settlement."""

from collections.abc import AsyncIterator

import pytest
from manilla_simulator import names
from playwright.async_api import Browser

from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.ledger.scope import Tenant
from manilla.merchants import merchants, wallets
from manilla.people.roles import Role
from manilla.services import Services
from manilla.settlements import plans
from tests.checkout.page_checks import accessibility_violations
from tests.dashboard.bulk_upload import GTBANK
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.dashboard.settlement_form import settle
from tests.payouts.payout_merchant import new_account
from tests.support.client import Site
from tests.support.provider_simulator import running_simulator
from tests.web.signed_in_user import member

PAGE = "/sandbox/settlements"
HOLDER = "SANDBOX BENEFICIARY"


@pytest.fixture(scope="module")
async def simulated(services: Services) -> AsyncIterator[None]:
    async with running_simulator(services):
        yield


@pytest.fixture
async def dashboard(services: Services, site: Site, simulated: None) -> MerchantDashboard:
    made = await new_dashboard(services, site)
    form = {
        "method": str(await made.method_id()),
        "bank_code": GTBANK,
        "account_number": new_account(),
        "confirmed_name": HOLDER,
    }
    assert (await made.owner.post("/sandbox/settlement-account", form)).status == 303
    return made


async def _text(dashboard: MerchantDashboard, path: str = PAGE) -> str:
    return (await dashboard.owner.get(path)).body.decode()


async def test_settling_manually_pays_the_balance_and_keeps_a_statement(
    dashboard: MerchantDashboard,
) -> None:
    await dashboard.pay_in(ref_trx="ORDER-7", customer_name="Ada Obi")
    assert (await settle(dashboard.owner)).status == 303
    await dashboard.run_jobs()
    assert await dashboard.balance() == 0
    page = await _text(dashboard)
    assert "Paid" in page
    number: int = await dashboard.services.db.value(
        "SELECT id FROM settlement WHERE merchant_id = $1", dashboard.merchant.new.id
    )
    statement = await _text(dashboard, f"{PAGE}/{number}")
    assert statement.count("Payment") >= 1
    assert all(text in statement for text in ("ORDER-7", "Ada Obi", "Closing balance"))
    await settle(dashboard.owner)
    assert await dashboard.count("settlement") == 1, "an empty balance was settled"


async def test_a_settlement_is_reviewed_first_and_offered_once(
    dashboard: MerchantDashboard,
) -> None:
    assert "Settle ₦" in await _text(dashboard)
    review = await _text(dashboard, f"{PAGE}/new?currency=NGN")
    assert HOLDER in review
    assert "Balance after" in review
    incomplete = await dashboard.owner.post(PAGE, {"currency": "NGN"})
    assert (incomplete.status, await dashboard.count("settlement")) == (400, 0)
    assert (await settle(dashboard.owner)).status == 303
    page = await _text(dashboard)
    assert "Pending" in page
    assert "Settle ₦" not in page, "the same money was offered twice"
    await dashboard.run_jobs()
    page = await _text(dashboard)
    assert "Paid" in page
    assert "Pending" not in page.split("Past settlements")[0]


async def test_another_name_than_the_business_must_be_confirmed(
    dashboard: MerchantDashboard, services: Services
) -> None:
    """In production, the bank reports that the account holder is not the merchant."""
    merchant_id, page, account = dashboard.merchant.new.id, "/production/settlements", new_account()
    amount = Money.of("5000", "NGN")
    await wallets.fund(services.db, merchant_id, Environment.PRODUCTION, amount, "for a test")
    form = {
        "method": str(await dashboard.method_id()),
        "bank_code": GTBANK,
        "account_number": account,
        "confirmed_name": names.holder_of(account),
    }
    saved = await dashboard.owner.post("/production/settlement-account", form)
    assert saved.status == 303, saved.body
    merchant = await merchants.get(services.db, merchant_id)
    review = await _text(dashboard, f"{page}/new?currency=NGN")
    assert names.holder_of(account) in review
    assert merchant.name in review
    refused = await settle(dashboard.owner, page)
    assert "The account name differs from your legal name." in refused.body.decode()
    assert await dashboard.count("settlement") == 0
    assert (await settle(dashboard.owner, page, name="yes")).status == 303
    assert await dashboard.count("settlement") == 1


async def test_a_plan_is_saved_with_its_reserve(dashboard: MerchantDashboard) -> None:
    form = {"currency": "NGN", "mode": "weekly", "weekday": "fri", "reserve": "5,000.50"}
    assert (await dashboard.owner.post(f"{PAGE}/plan", form)).status == 303
    tenant = Tenant(dashboard.merchant.new.id, Environment.SANDBOX)
    plan = await plans.find(dashboard.services.db, tenant, "NGN")
    assert (plan.mode, plan.weekday, plan.reserve_minor) == ("weekly", 4, 500_050)
    assert "Every Friday" in await _text(dashboard)


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "hourly"},
        {"mode": "above", "above": ""},
        {"mode": "above", "above": "0"},
        {"mode": "weekly", "weekday": "day"},
        {"mode": "daily", "reserve": "1500,50"},
        {"mode": "daily", "reserve": "-1"},
        {"mode": "daily", "currency": "XXX"},
    ],
)
async def test_a_plan_that_makes_no_sense_is_refused(
    dashboard: MerchantDashboard, wrong: dict[str, str]
) -> None:
    form = {"currency": "NGN", "weekday": "mon", "reserve": "0", **wrong}
    reply = await dashboard.owner.post(f"{PAGE}/plan", form)
    assert reply.status in (303, 400, 422)
    tenant = Tenant(dashboard.merchant.new.id, Environment.SANDBOX)
    assert (await plans.find(dashboard.services.db, tenant, "NGN")).set_at is None
    assert await dashboard.count("settlement_plan") == 0


async def test_another_merchants_settlement_is_not_shown(
    dashboard: MerchantDashboard, services: Services, site: Site
) -> None:
    await settle(dashboard.owner)
    number: int = await services.db.value(
        "SELECT id FROM settlement WHERE merchant_id = $1", dashboard.merchant.new.id
    )
    other = await new_dashboard(services, site)
    assert (await other.owner.get(f"{PAGE}/{number}")).status == 404
    assert (await dashboard.owner.get(f"/production/settlements/{number}")).status == 404
    assert (await dashboard.owner.get(f"{PAGE}/none")).status == 404


async def test_a_viewer_sees_settlements_and_cannot_start_them(
    dashboard: MerchantDashboard, services: Services, site: Site
) -> None:
    viewer = await member(services, site, dashboard.merchant.new.id, Role.VIEWER)
    assert (await viewer.get(PAGE)).status == 200
    assert (await viewer.post(PAGE, {"currency": "NGN"})).status == 403
    assert (await viewer.post(f"{PAGE}/plan", {"currency": "NGN", "mode": "daily"})).status == 403


@pytest.mark.long
@pytest.mark.parametrize("width", [1280, 390])
async def test_the_pages_are_accessible(
    dashboard: MerchantDashboard, browser: Browser, width: int
) -> None:
    async with dashboard.open_page(browser, f"{PAGE}/new?currency=NGN", width=width) as page:
        await page.get_by_role("heading", name="Review settlement").wait_for()
        assert await accessibility_violations(page) == []
    await dashboard.owner.step_up(dashboard.services)
    await settle(dashboard.owner)
    await dashboard.run_jobs()
    async with dashboard.open_page(browser, PAGE, width=width) as page:
        await page.get_by_text("Change plan").click()
        assert await accessibility_violations(page) == []
        await page.get_by_role("link", name="Statement").first.click()
        await page.wait_for_load_state()
        assert await accessibility_violations(page) == []
