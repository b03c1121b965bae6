"""The console's pages for price plans and taxes."""

from collections.abc import AsyncIterator
from decimal import Decimal

import pytest
from playwright.async_api import Browser

from manilla.kit.database.connections import Database
from manilla.prices import store
from manilla.prices.price import Purpose, TaxBearer, Way
from manilla.services import Services
from tests.checkout.page_checks import accessibility_violations, opened
from tests.console.conftest import PopulatedConsole
from tests.web.signed_in_user import SignedInUser

LINES = (
    "direction,currency,way,percent,fixed,waived_below,maximum\n"
    "payment,NGN,,1.5,100,2500,2000\n"
    "payment,NGN,bank_transfer,1,,,300\n"
)
PLAN = {"title": "Standard", "after": "0", "lines": LINES, "starts_at": ""}
TAX = {
    "name": "stamp_duty",
    "payout": "on",
    "currency": "NGN",
    "environment": "",
    "base": "transfer",
    "threshold": "10,000",
    "percent": "",
    "fixed": "50",
    "borne_by": "merchant",
    "collected_by": "us",
    "returned": "on",
    "salary": "on",
    "since": "",
}


@pytest.fixture
async def visitor(
    services: Services, populated: PopulatedConsole, owner: Database
) -> AsyncIterator[SignedInUser]:
    """An administrator whose session has just been stepped up. Deletes plans and taxes."""
    await populated.administrator.step_up(services)
    yield populated.administrator
    for table in ("price_version", "price_withdrawal", "merchant_plan", "tax_rule"):
        await owner.execute(f"DELETE FROM {table}")
    services.prices.use(store.Prices())


async def test_a_plan_is_added_changed_and_assigned(
    services: Services, visitor: SignedInUser, populated: PopulatedConsole
) -> None:
    added = await visitor.post("/prices", {"plan": "standard"})
    assert added.location.endswith("/prices/plans/standard")
    assert (await visitor.post("/prices/plans/standard", PLAN)).status == 303
    assert (await visitor.post("/prices/plans/standard", {**PLAN, "after": "1"})).status == 303
    merchant_id = populated.merchant.new.id
    own = {**PLAN, "lines": "direction,currency,percent\npayment,NGN,0.5"}
    assert (await visitor.post(f"/merchants/{merchant_id}/prices", own)).status == 303
    chosen = {"assigned": "standard", "starts_at": ""}
    assert (await visitor.post(f"/merchants/{merchant_id}/prices/plan", chosen)).status == 303
    assert (await visitor.post("/prices/default", chosen)).status == 303

    prices = await store.load(services.db)

    assert [(each.merchant_id, each.plan, each.version) for each in prices.versions] == [
        (0, "standard", 1),
        (0, "standard", 2),
        (merchant_id, "own", 1),
    ]
    assert prices.versions[0].content.lines[1].way is Way.BANK_TRANSFER
    assert [each.merchant_id for each in prices.assignments] == [0, merchant_id]
    for path in ("/prices", "/prices/plans/standard", f"/merchants/{merchant_id}/prices"):
        assert "standard" in (await visitor.get(path)).body.decode(), path


async def test_a_planned_version_is_withdrawn(services: Services, visitor: SignedInUser) -> None:
    plan = "/prices/plans/standard"
    await visitor.post(plan, {**PLAN, "starts_at": "2028-01-01T00:00"})
    assert "Withdraw version 1" in (await visitor.get(plan)).body.decode()
    await visitor.post(f"{plan}/withdraw", {"version": "1"})
    page = (await visitor.get(plan)).body.decode()
    assert "Withdrawn" in page
    assert "Withdraw version 1" not in page
    assert (await store.load(services.db)).versions[0].is_withdrawn


@pytest.mark.parametrize(
    ("name", "wrong", "why"),
    [
        ("lines", "direction,currency,percent\npayment,NGN,101", "between 0 and 100"),
        ("lines", "direction,currency,maximum,minimum\npayment,NGN,1,2", "below the minimum"),
        ("starts_at", "2020-01-01T00:00", "in the future"),
        ("starts_at", "soon", "Write the start such as"),
        ("after", "7", "Somebody else has changed these prices"),
        ("title", "", "required"),
    ],
)
async def test_a_plan_that_is_not_valid_is_shown_again_with_the_reason(
    visitor: SignedInUser, name: str, wrong: str, why: str
) -> None:
    reply = await visitor.post("/prices/plans/standard", {**PLAN, name: wrong})

    assert reply.status == 400
    assert why in reply.body.decode()


async def test_a_tax_is_added_and_one_that_overlaps_is_rejected(
    services: Services, visitor: SignedInUser
) -> None:
    assert (await visitor.post("/taxes", TAX)).status == 303

    overlapping = await visitor.post("/taxes", {**TAX, "settlement": "on"})

    assert overlapping.status == 400
    assert "for some of the same transactions" in overlapping.body.decode()
    [rule] = (await store.load(services.db)).rules
    assert (rule.name, rule.content.fixed_minor) == ("stamp_duty", 50_00)
    assert (rule.content.threshold_minor, rule.content.borne_by) == (10_000_00, TaxBearer.MERCHANT)
    assert rule.content.exempt == (Purpose.SALARY,)
    assert "stamp_duty" in (await visitor.get("/taxes")).body.decode()


async def test_worked_amounts_follow_the_lines_while_they_are_typed(
    services: Services, visitor: SignedInUser, browser: Browser
) -> None:
    base = services.base_url + "/console"
    async with opened(browser, f"{base}/sign-in") as page:
        await visitor.enter(page.context)
        await page.goto(f"{base}/prices/plans/standard")
        await page.get_by_label("Lines").fill(LINES)
        await page.locator("#worked td").get_by_text("₦2,000.00").wait_for()
        await page.get_by_label("Lines").fill(LINES.replace("1.5", "200"))
        await page.locator("#worked").get_by_text("between 0 and 100").wait_for()
        await page.get_by_label("Lines").fill(LINES)
        await page.get_by_label("Title").fill("Standard")
        assert await accessibility_violations(page) == []
        await page.get_by_role("button", name="Save new version").click()
        await page.get_by_text("The new version is saved.").wait_for()
        assert await accessibility_violations(page) == []
        await page.goto(f"{base}/taxes")
        assert await accessibility_violations(page) == []
    [version] = (await store.load(services.db)).versions
    assert version.content.lines[0].terms.percent == Decimal("1.5")
