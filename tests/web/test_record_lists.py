"""Lists of records: periods, filters, order, totals, columns and large numbers of rows."""

import re
from urllib.parse import urlencode

import pytest
from playwright.async_api import Browser, expect

from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.merchants import wallets
from manilla.services import Services
from tests.checkout.page_checks import accessibility_violations
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.dashboard.sample_data import create_sample_data
from tests.support.client import Site
from tests.web.signed_in_user import administrator

PAYMENTS, PAYOUTS = "/sandbox/payments", "/sandbox/payouts"


@pytest.fixture(scope="module")
async def shop(services: Services, site: Site) -> MerchantDashboard:
    """A merchant with three payments of different amounts."""
    dashboard = await new_dashboard(services, site)
    for amount in (1500, 300, 20_000):
        await dashboard.pay_in(ref_trx=f"ref-{amount}", payment_amount=amount)
    return dashboard


# Maps each of the dashboard's lists to the noun that its summary counts.
DASHBOARD_LISTS = {
    PAYMENTS: "payment",
    PAYOUTS: "payout",
    "/sandbox/refunds": "refund",
    "/sandbox/disputes?show=all": "dispute",
    "/sandbox/disputes": "dispute",
    "/sandbox/shares": "share",
    "/sandbox/wallets/NGN": "entr",
    "/sandbox/notifications": "notification",
    "/sandbox/requests": "request",
    "/sandbox/settlements": "settlement",
    "/sandbox/payouts/bulk": "file",
}
CONSOLE_LISTS = {
    "/transactions?kind=payment&environment=sandbox": "payment",
    "/transactions?kind=payout&environment=sandbox": "payout",
    "/transactions?kind=refund&environment=sandbox": "refund",
    "/refunds?environment=sandbox": "refund",
    "/transactions?kind=dispute&environment=sandbox": "dispute",
    "/disputes?environment=sandbox": "dispute",
    "/transactions?kind=split&environment=sandbox": "share",
    "/disputes?show=answers&environment=sandbox": "dispute",
    "/payouts?environment=sandbox": "payout",
    "/cases?environment=sandbox": "case",
    "/approvals?status=refused": "approval",
    "/notifications?state=all": "notification",
    "/mail?state=all": "email",
    "/audit?action=merchant": "entr",
    "/merchants?status=approved": "merchant",
    "/customers?environment=sandbox": "customer",
    "/jobs?kind=nothing": "job",
}


async def page_of(dashboard: MerchantDashboard, path: str, **query: str) -> str:
    reply = await dashboard.owner.get(f"{path}?{urlencode(query)}")
    assert reply.status == 200, reply.body
    return reply.body.decode()


def order_of(page: str, *texts: str) -> list[str]:
    return sorted(texts, key=page.index)


def outcomes_of(page: str) -> dict[str, str]:
    """Returns the count and the total amount that a list shows for each outcome."""
    found = re.findall(r'<span class="dot [^>]*></span>(.*?)</a>', page)
    texts = [re.sub("<[^>]*>", "", each).split(" ", 1) for each in found]
    return dict(texts)


async def test_the_total_and_count_are_those_of_the_filtered_rows(shop: MerchantDashboard) -> None:
    async def shown(**query: str) -> tuple[bool, dict[str, str]]:
        page = await page_of(shop, PAYMENTS, **query)
        return "3 payments" in page, outcomes_of(page)

    assert await shown() == (True, {"Paid": "3 ₦21,800.00"})
    assert await shown(min="1,000") == (False, {"Paid": "2 ₦21,500.00"})
    between = await shown(min="301", max="20000", status="success")
    assert between == (False, {"Paid": "2 ₦21,500.00"})
    assert await shown(q="ref-300") == (False, {"Paid": "1 ₦300.00"})
    failed = await page_of(shop, PAYMENTS, status="failed")
    assert "0 payments" in failed
    assert outcomes_of(failed) == {"Paid": "3 ₦21,800.00", "Failed": "0"}


async def test_what_was_not_paid_is_not_in_the_total(services: Services, site: Site) -> None:
    shop = await new_dashboard(services, site)
    await shop.pay_in(payment_amount=1500)
    change = "UPDATE payment SET status = $2, error_code = $3 WHERE trx_id = $1"
    failed = await shop.pay_in(payment_amount=200)
    pending = await shop.pay_in(payment_amount=70)
    await services.db.execute(change, failed, "failed", "PAYMENT_DECLINED")
    await services.db.execute(change, pending, "pending", None)
    page = await page_of(shop, PAYMENTS)
    assert "3 payments" in page
    assert "1,770" not in page
    assert outcomes_of(page) == {
        "Paid": "1 ₦1,500.00",
        "Pending": "1 ₦70.00",
        "Failed": "1 ₦200.00",
    }
    alone = await page_of(shop, PAYMENTS, status="failed")
    assert "1 payment<" in alone
    assert outcomes_of(alone) == outcomes_of(page)
    for trx_id in (failed, pending):
        await services.db.execute(change, trx_id, "success", None)


async def test_the_console_starts_in_production_and_never_adds_the_sandbox(
    shop: MerchantDashboard, services: Services, site: Site
) -> None:
    visitor = await administrator(services, site, f"both-{shop.merchant.new.id}@example.com")
    query = f"merchant={shop.merchant.new.id}"
    for given in ("", "&environment=production", "&environment="):
        page = (await visitor.get(f"/transactions?{query}{given}")).body.decode()
        assert "0 payments" in page
        assert "₦21,800.00" not in page
    sandbox = (await visitor.get(f"/transactions?{query}&environment=sandbox")).body.decode()
    assert outcomes_of(sandbox) == {"Paid": "3 ₦21,800.00"}


async def test_rows_are_sorted_by_amount_time_and_status(shop: MerchantDashboard) -> None:
    names = ("ref-1500", "ref-300", "ref-20000")
    orders = {
        "largest": ["ref-20000", "ref-1500", "ref-300"],
        "smallest": ["ref-300", "ref-1500", "ref-20000"],
        "oldest": ["ref-1500", "ref-300", "ref-20000"],
        "newest": ["ref-20000", "ref-300", "ref-1500"],
        "status": ["ref-20000", "ref-300", "ref-1500"],
    }
    for sort, expected in orders.items():
        page = await page_of(shop, PAYMENTS, sort=sort)
        assert order_of(page, *names) == expected, sort


async def test_too_many_rows_are_neither_counted_nor_sorted(
    shop: MerchantDashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("manilla.kit.listing.sorting", "manilla.web.record_list"):
        monkeypatch.setattr(f"{module}.ROWS_MAX", 2)
    page = await page_of(shop, PAYMENTS, sort="smallest")
    assert "More than 2 payments" in page
    assert "too many payments to sort in this order" in page
    assert order_of(page, "ref-300", "ref-20000") == ["ref-20000", "ref-300"]


async def test_periods_select_the_days_in_lagos(
    shop: MerchantDashboard, services: Services, site: Site
) -> None:
    for period in ("today", "7days", "month"):
        page = await page_of(shop, PAYMENTS, period=period)
        assert "3 payments" in page
        assert 'aria-current="true"' in page
    assert "0 payments" in await page_of(shop, PAYMENTS, period="today", until="2020-01-01")


async def test_payments_are_filtered_by_method_and_payouts_by_bank(
    services: Services, site: Site
) -> None:
    shop = await new_dashboard(services, site)
    await create_sample_data(services, shop.merchant, "Ada")
    assert "0 payments" in await page_of(shop, PAYMENTS, method="providera-ngn")
    assert "1 payout" in await page_of(shop, PAYOUTS)
    assert "0 payouts" in await page_of(shop, PAYOUTS, bank="Access Bank")
    assert "0 payouts" in await page_of(shop, PAYOUTS, method="providera_ngn_transfer")
    unknown = await shop.owner.get(f"{PAYOUTS}?bank=Nowhere+Bank")
    assert unknown.status == 400


async def test_chosen_columns_are_kept_for_the_person(shop: MerchantDashboard) -> None:
    def has_column(page: str, title: str) -> bool:
        return f'data-label="{title}"' in page

    assert not has_column(await page_of(shop, PAYMENTS), "Email")
    await shop.owner.post(
        "/lists/payments/columns",
        {"column": "email", "next": "/dashboard/sandbox/payments"},
    )
    page = await page_of(shop, PAYMENTS)
    assert has_column(page, "Email")
    assert not has_column(page, "Amount")
    await shop.owner.post("/lists/payments/columns", {"default": "on"})
    assert has_column(await page_of(shop, PAYMENTS), "Amount")


@pytest.mark.long
@pytest.mark.parametrize("width", [390, pytest.param(1280, marks=pytest.mark.long)])
async def test_a_merchant_is_picked_by_its_name_with_the_keyboard(
    services: Services, site: Site, browser: Browser, width: int
) -> None:
    dashboard = await new_dashboard(services, site)
    merchant_id = dashboard.merchant.new.id
    name = f"Okoro Bakery {merchant_id}"
    await services.db.execute("UPDATE merchant SET name = $2 WHERE id = $1", merchant_id, name)
    visitor = await administrator(services, site, f"picks-{width}-{merchant_id}@example.com")
    context = await browser.new_context(viewport={"width": width, "height": 844})
    await visitor.enter(context)
    page = await context.new_page()
    await page.goto(f"{services.base_url}/console/cases")
    await page.get_by_text("Filters", exact=True).click()
    field = page.get_by_role("combobox", name="Merchant")
    await field.press_sequentially(f"bakery {merchant_id}")
    await expect(page.locator(".picker li")).to_have_text([f"{name} ({merchant_id})"])
    assert not await accessibility_violations(page)
    await field.press("Enter")
    await expect(field).to_have_value(f"{name} ({merchant_id})")
    await expect(page.locator(".picker li")).to_be_hidden()
    await field.press("Enter")
    await expect(page.get_by_text("0 cases")).to_be_visible()
    assert f"%28{merchant_id}%29" in page.url
    await context.close()


async def test_the_console_filters_by_a_merchant_chosen_by_name(
    shop: MerchantDashboard, services: Services, site: Site
) -> None:
    visitor = await administrator(services, site, f"lists-{shop.merchant.new.id}@example.com")
    merchant_id = shop.merchant.new.id
    await services.db.execute(
        "UPDATE merchant SET name = 'Balogun Market' WHERE id = $1", merchant_id
    )
    names = (await visitor.get("/merchants/names?q=logun")).body.decode()
    assert f'value="Balogun Market ({merchant_id})"' in names
    chosen = {"merchant": f"Balogun Market ({merchant_id})", "max": "300"}
    query = urlencode({**chosen, "environment": "sandbox"})
    page = (await visitor.get(f"/transactions?{query}")).body.decode()
    assert outcomes_of(page) == {"Paid": "1 ₦300.00"}
    assert (await visitor.get("/transactions?merchant=Balogun")).status == 400


async def test_every_list_counts_its_rows_for_a_period_and_keeps_the_chosen_order(
    shop: MerchantDashboard, services: Services, site: Site
) -> None:
    visitor = await administrator(services, site, f"every-{shop.merchant.new.id}@example.com")
    pages = [(shop.owner, path, noun) for path, noun in DASHBOARD_LISTS.items()]
    pages += [(visitor, path, noun) for path, noun in CONSOLE_LISTS.items()]
    for user, path, noun in pages:
        start = path + ("&" if "?" in path else "?")
        for query in ("period=7days&sort=oldest", "since=2020-01-01&until=2020-01-02"):
            reply = await user.get(start + query)
            body = reply.body.decode()
            assert reply.status == 200, (path, query, body)
            assert re.search(rf'class="list-total">[\d,]+ {noun}', body), (path, query)
        assert 'aria-label="Period"' in body
        assert "0 " + noun in body, path
        assert (await user.get(start + "sort=upwards")).status == 400, path
        export = await user.get(start + "format=csv&period=today")
        assert export.headers["content-type"].startswith("text/csv"), path


async def test_the_statement_sums_credits_and_debits_of_the_wanted_size(
    services: Services, site: Site
) -> None:
    dashboard = await new_dashboard(services, site)
    merchant_id = dashboard.merchant.new.id
    for naira in (200, 50, -80):
        await wallets.adjust(
            services.db, merchant_id, Environment.SANDBOX, Money("NGN", naira * 100), "Correction"
        )
    path = "/sandbox/wallets/NGN"
    ours = {"kind": "adjustment"}
    assert "3 entries, total ₦170.00" in await page_of(dashboard, path, **ours)
    assert "2 entries, total ₦120.00" in await page_of(dashboard, path, **ours, min="60")
    assert "2 entries, total -₦30.00" in await page_of(dashboard, path, **ours, max="100")
    assert "0 entries" in await page_of(dashboard, path, kind="payment", period="today")


@pytest.mark.long
async def test_fifteen_rows_fit_on_a_laptop_screen(
    services: Services, site: Site, browser: Browser
) -> None:
    dashboard = await new_dashboard(services, site)
    for _ in range(20):
        await dashboard.pay_in()
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    await dashboard.owner.enter(context)
    page = await context.new_page()
    await page.goto(f"{services.base_url}/dashboard{PAYMENTS}")
    rows = await page.evaluate(
        "[...document.querySelectorAll('tbody tr')]"
        ".filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length"
    )
    await context.close()
    assert rows >= 15
