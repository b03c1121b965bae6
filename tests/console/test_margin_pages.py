"""The console's margin pages: figures, losses, providers' fees, and a plan to try."""

import csv
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from playwright.async_api import Browser

from manilla.kit.clock import last_days
from manilla.kit.price import PriceTerms
from manilla.merchants.merchants import CommissionBearer
from manilla.people.roles import ConsoleRole
from manilla.prices import store
from manilla.services import Services
from tests.checkout.page_checks import accessibility_violations
from tests.margin.conftest import production, shop, simulator, trading
from tests.margin.test_runs import line, plan
from tests.margin.trading import Trading
from tests.support.client import Site
from tests.web.signed_in_user import SignedInUser, administrator

__all__ = ["production", "shop", "simulator", "trading"]

PLAN = plan(line(PriceTerms(2500)))
PASTED = msgspec.json.encode(PLAN.content).decode()


@pytest.fixture
async def reader(trading: Trading, services: Services, site: Site) -> SignedInUser:
    """A user of the console who may only view it, and a merchant that lost money."""
    await trading.charge("0", CommissionBearer.MERCHANT)
    await trading.pay(1000)
    await trading.pay_out(1000)
    await trading.count()
    email = f"margin-{trading.merchant_id}@example.com"
    return await administrator(services, site, email, ConsoleRole.SUPPORT)


def of(trading: Trading, **query: Any) -> str:
    return urlencode({"merchant": trading.merchant_id, **query})


async def page_of(user: SignedInUser, path: str) -> str:
    reply = await user.get(path)
    assert reply.status == 200, reply.body
    return reply.body.decode()


def rows_in(chunked: str) -> list[dict[str, str]]:
    """Returns the rows of a CSV file, which is sent in chunks with their sizes."""
    lines = [line for line in chunked.splitlines() if "," in line]
    return list(csv.DictReader(lines))


async def rows_of(user: SignedInUser, path: str) -> list[dict[str, str]]:
    return rows_in(await page_of(user, path))


async def test_the_figures_and_the_export_are_those_of_the_ledger(
    trading: Trading, reader: SignedInUser
) -> None:
    earned, paid = await trading.in_ledger()
    rows = await rows_of(reader, f"/margin?{of(trading, format='csv')}")
    assert sum(round(100 * float(row["earned"])) for row in rows) == earned
    assert sum(round(100 * float(row["paid"])) for row in rows) == paid
    assert {row["day"] for row in rows} == {last_days(1)[0].isoformat()}
    for by in ("way", "provider", "merchant", "day"):
        page = await page_of(reader, f"/margin?{of(trading, by=by)}")
        assert f"₦{paid / 100:,.2f}" in page
        assert "Loss" in page if by == "way" else True


async def test_losses_are_listed_and_exported(trading: Trading, reader: SignedInUser) -> None:
    page = await page_of(reader, f"/margin/losses?{of(trading)}")
    assert "No losses" not in page
    [row] = await rows_of(reader, f"/margin/losses?{of(trading, format='csv')}")
    assert (row["kind"], row["charged"]) == ("payment", "0.00")
    assert float(row["taken"]) == -float(row["left"]) > 0


async def test_a_plan_is_tried_from_its_text_or_its_name(
    trading: Trading, reader: SignedInUser
) -> None:
    name = f"try-{trading.merchant_id}"
    async with trading.db.transaction() as connection:
        await store.add_version(connection, msgspec.structs.replace(PLAN, plan=name), "somebody")
    for fields in ({"text": PASTED}, {"plan": f"{name}/1"}):
        given = {"merchant": str(trading.merchant_id), **fields}
        reply = await reader.post("/margin/try", given)
        assert reply.status == 200, reply.body
        assert "₦25.00" in reply.body.decode()
        exported = await reader.post("/margin/try?format=csv", given)
        rows = {row["kind"]: row for row in rows_in(exported.body.decode())}
        assert (rows["payment"]["charged"], rows["payment"]["planned"]) == ("0.00", "25.00")
        assert rows["payout"]["unknown"] == "1"


@pytest.mark.parametrize(
    "fields",
    [
        {"text": "{"},
        {"text": "x" * 20_001},
        {"plan": "unknown/1"},
        {},
        {"text": PASTED, "since": "2026-02-01", "until": "2026-01-01"},
        {"text": PASTED, "since": "yesterday"},
    ],
)
async def test_a_wrong_form_is_rejected(
    trading: Trading, reader: SignedInUser, fields: dict[str, str]
) -> None:
    reply = await reader.post("/margin/try", fields)
    assert 400 <= reply.status < 500


async def test_expected_provider_fees_come_from_the_providers_plan(
    trading: Trading, reader: SignedInUser
) -> None:
    page = await page_of(reader, f"/margin/fees?{of(trading)}")
    assert "Not known" in page
    assert "provider-paystack" in page
    rows = await rows_of(reader, f"/margin/fees?{of(trading, format='csv')}")
    assert {(row["kind"], row["unknown"]) for row in rows} == {("payment", "1"), ("payout", "1")}


@pytest.mark.parametrize("width", [390, 1280])
async def test_the_pages_fit_phones_and_are_accessible(
    trading: Trading, reader: SignedInUser, site: Site, browser: Browser, width: int
) -> None:
    context = await browser.new_context(viewport={"width": width, "height": 900})
    try:
        await reader.enter(context)
        page = await context.new_page()
        for path in ("/margin", "/margin/losses", "/margin/fees", "/margin/try"):
            await page.goto(f"{trading.services.base_url}/console{path}?{of(trading)}")
            if path == "/margin/try":
                await page.get_by_label("Pasted plan", exact=False).last.fill(PASTED)
                await page.get_by_role("button", name="Run").click()
                await page.get_by_text("By the plan").first.wait_for()
            assert await accessibility_violations(page) == []
            wide = "document.documentElement.scrollWidth > innerWidth"
            assert not await page.evaluate(wide)
    finally:
        await context.close()
