"""How pages display times, statuses and numbers."""

import hashlib
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from playwright.async_api import Browser

from manilla.kit.clock import LAGOS
from manilla.kit.display import with_symbols
from manilla.kit.money import Money, claimed_text
from manilla.ledger.daily import DailyFigures
from manilla.services import Services
from manilla.web import charts, display
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.support.client import Site


@pytest.fixture(scope="module")
async def dashboard(services: Services, site: Site) -> MerchantDashboard:
    return await new_dashboard(services, site)


def test_a_time_is_shown_in_lagos_time_and_stored_in_utc() -> None:
    shown = display.moment(datetime(2026, 1, 31, 23, 30, 5, tzinfo=UTC))
    assert "1 Feb 2026, 00:30" in shown
    assert 'datetime="2026-01-31T23:30:05.000Z"' in shown
    assert "9999" in display.moment(datetime.max.replace(tzinfo=UTC))


def test_stored_amounts_and_times_are_shown_as_on_all_pages() -> None:
    entry = {
        "ledger": "-1189870.10 NGN",
        "effective_at": "2026-01-31T23:30:05.000000Z",
        "day": "2026-01-31",
        "note": "2026-99-99",
        "currency": "USD",
        "fee": {"before": {"fixed_minor": 5000}, "after": {"fixed_minor": None}},
    }
    assert display.describe_changes(entry) == [
        "Ledger: -₦1,189,870.10",
        "Effective at: 1 Feb 2026, 00:30",
        "Day: 31 Jan 2026",
        "Note: 2026-99-99",
        "Currency: USD",
        "Fee: fixed US$50.00 → fixed none",
    ]
    change = {"min_minor": {"before": 100, "after": 250_050}}
    assert display.describe_changes(change, "NGN") == ["Min: ₦1.00 → ₦2,500.50"]


def test_digests_are_hidden_in_the_changes_of_an_entry() -> None:
    digest = hashlib.sha256(b"account").hexdigest()
    entry = {
        "destination": f"sha256:{digest}",
        "manifest_sha256": digest,
        "chain_head": f"7:{digest}",
        "heads": [digest],
        "changed": {
            "first": {"before": None, "after": digest},
            "last": {"before": digest, "after": None},
            "fee": {"before": {"of": digest, "fixed": "1"}, "after": None},
        },
        "label": digest[:40],
    }
    assert display.describe_changes(entry) == ["Fee: fixed 1 → none", f"Label: {digest[:40]}"]


def test_amounts_in_texts_are_shown_as_amounts_alone() -> None:
    assert f"{Money.of('9600', 'NGN')}" == display.money(Money.of("9600", "NGN")) == "₦9,600.00"
    assert claimed_text(Decimal(9600), "NGN") == "₦9,600.00"
    assert claimed_text(Decimal("9600.125"), "NGN") == "9,600.125 NGN"
    assert claimed_text(Decimal(7), None) == "7"


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        ("9,250.00 NGN was paid; 18,500.00 NGN is due.", "₦9,250.00 was paid; ₦18,500.00 is due."),
        ("our ledger has -7.00 NGN", "our ledger has -₦7.00"),
        ("TXN1, 1600.50 NGN: Damaged", "TXN1, ₦1,600.50: Damaged"),
        ("100 JPY, 5.00 USD", "¥100, US$5.00".replace("¥", display.money(Money("JPY", 1))[:-1])),
        ("Order 12.345.00 NGN, NGN 5, 5 NGNX", "Order 12.345.00 NGN, NGN 5, 5 NGNX"),
        ("1.005 NGN", "1.005 NGN"),
        ("9" * 30 + " NGN", "9" * 30 + " NGN"),
    ],
)
def test_amounts_in_stored_texts_are_shown_with_their_symbols(stored: str, shown: str) -> None:
    assert with_symbols(stored) == shown


def test_a_tile_counts_paid_payments_out_of_all() -> None:
    days = [DailyFigures(date(2026, 1, day), "NGN", 10 - day, day, 1, 1500_00) for day in (1, 2)]
    assert charts.share(days, "paid") == "3 of 17 paid"


async def test_the_home_page_counts_paid_payments_and_names_its_time_zone(
    services: Services, site: Site
) -> None:
    dashboard = await new_dashboard(services, site)
    await dashboard.pay_in()
    home = (await dashboard.owner.get("/sandbox")).body.decode()
    assert "1 of 1 paid" in home
    page = (await dashboard.owner.get("/sandbox/payments")).body.decode()
    assert page.count("Africa/Lagos") == 1


@pytest.mark.long
async def test_times_do_not_depend_on_the_browser(
    dashboard: MerchantDashboard, services: Services, browser: Browser
) -> None:
    await dashboard.pay_in()
    context = await browser.new_context(timezone_id="America/New_York", locale="en-US")
    await dashboard.owner.enter(context)
    page = await context.new_page()
    await page.goto(f"{services.base_url}/dashboard/sandbox/payments")
    time = page.locator("main time").first
    at = datetime.fromisoformat(await time.get_attribute("datetime") or "")
    assert await time.inner_text() == at.astimezone(LAGOS).strftime("%-d %b, %H:%M")
    await context.close()


@pytest.mark.long
async def test_the_menu_button_stays_in_place_on_a_phone(
    dashboard: MerchantDashboard, services: Services, browser: Browser
) -> None:
    context = await browser.new_context(viewport={"width": 390, "height": 844})
    await dashboard.owner.enter(context)
    page = await context.new_page()
    await page.goto(f"{services.base_url}/dashboard/sandbox/payments")
    button, heading = page.get_by_text("Menu", exact=True), page.locator("main h1")
    before = await button.bounding_box(), await heading.bounding_box()
    await button.click()
    await page.get_by_role("link", name="Balance").wait_for()
    assert (await button.bounding_box(), await heading.bounding_box()) == before
    await context.close()


async def test_refund_is_not_the_primary_action_of_a_payment(
    dashboard: MerchantDashboard,
) -> None:
    trx_id = await dashboard.pay_in()
    page = (await dashboard.owner.get(f"/sandbox/payments/{trx_id}")).body.decode()
    assert f'<a class="btn" href="/dashboard/sandbox/payments/{trx_id}/refund">' in page


async def test_a_manual_payout_waits_for_an_administrator(dashboard: MerchantDashboard) -> None:
    fields = {
        "method": str(await dashboard.method_id("platform")),
        "bank_code": "GTBank",
        "account_number": "0123456789",
        "amount": "1000",
        "once": "MANUAL-1",
    }
    reply = await dashboard.owner.post("/sandbox/payouts", fields)
    page = await dashboard.owner.follow(reply)
    assert "Awaiting manual payment" in page
    assert "on its way" not in page
    assert (
        "Awaiting manual payment" in (await dashboard.owner.get("/sandbox/payouts")).body.decode()
    )
