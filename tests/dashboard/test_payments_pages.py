"""Payments in the dashboard: the list, the details with timeline, the export, and refunds."""

import io
import re
import zipfile
from urllib.parse import urlencode

import pytest
from playwright.async_api import Browser, expect

from manilla.cases import cases
from manilla.cases.cases import CaseKind
from manilla.kit.environment import Environment
from manilla.services import Services
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard, unchunked
from tests.payments.orders import INITIATE, order
from tests.support.client import Site
from tests.web.signed_in_user import PASSWORD

PAYMENTS = "/sandbox/payments"


@pytest.fixture(scope="module")
async def dashboard(services: Services, site: Site) -> MerchantDashboard:
    return await new_dashboard(services, site)


async def test_an_export_has_exactly_the_rows_of_the_filtered_list(
    dashboard: MerchantDashboard,
) -> None:
    evil = '=HYPERLINK("http://evil.example")'
    paid = await dashboard.pay_in(
        ref_trx=evil, customer_name="+2348012345678", payment_amount=1234.5
    )
    other = await dashboard.pay_in(customer_name="Chidi Okeke")
    pending = await dashboard.merchant.post(INITIATE, order())
    assert pending.status == 200

    everything = await dashboard.rows(PAYMENTS)
    assert {row[0] for row in everything} >= {paid, other}
    assert len(everything) == await dashboard.count("payment")
    assert [row[0] for row in await dashboard.rows(PAYMENTS, q="chidi", status="success")] == [
        other
    ]
    assert await dashboard.rows(PAYMENTS, q="chidi", status="failed") == []
    assert await dashboard.rows(PAYMENTS, until="2020-01-01") == []

    [row] = await dashboard.rows(PAYMENTS, q=paid)
    assert row[1] == f"'{evil}"  # Without the apostrophe, a spreadsheet would run the formula.
    assert row[5] == "1234.50"
    assert "'+2348012345678" in row
    shown = await dashboard.owner.get(f"{PAYMENTS}?q={paid}")
    assert paid.encode() in shown.body
    assert other.encode() not in shown.body

    by_own_name = (await dashboard.owner.get(f"/sandbox/wallets/NGN?{urlencode({'q': evil})}")).body
    assert paid.encode() in by_own_name
    assert other.encode() not in by_own_name
    notifications = (
        await dashboard.owner.get(f"/sandbox/notifications?{urlencode({'q': evil})}")
    ).body
    assert paid.encode() in notifications
    assert other.encode() not in notifications

    book = unchunked(await dashboard.owner.get(f"{PAYMENTS}?q={paid}&format=xlsx"))
    sheets = zipfile.ZipFile(io.BytesIO(book))
    sheet = sheets.read("xl/worksheets/sheet1.xml").decode()
    assert "<f>" not in sheet
    assert "1234.5" in sheet
    assert other not in sheet


async def test_a_payment_is_shown_with_its_history_only_to_its_merchant(
    dashboard: MerchantDashboard, services: Services, site: Site
) -> None:
    trx_id = await dashboard.pay_in(description="Two books", customer_name="Ngozi")
    page = (await dashboard.owner.get(f"{PAYMENTS}/{trx_id}")).body.decode()
    for part in ("Two books", "Ngozi", "paid by", "Customer paid", "Fee", "Net, in your wallet"):
        assert part in page
    story = page[page.index("Timeline") :]
    for part in (
        "Paid: pending → success",
        "Payment credited to the wallet",
        "Notification created",
    ):
        assert part in story
    assert "clearing" not in story  # Merchants do not see the platform's own accounts.

    other_merchant = await new_dashboard(services, site)
    theirs = await other_merchant.owner.get(f"{PAYMENTS}/{trx_id}")
    unknown = await other_merchant.owner.get(f"{PAYMENTS}/TXN0000000000000000")
    elsewhere = await dashboard.owner.get(f"/production/payments/{trx_id}")
    assert (theirs.status, unknown.status, elsewhere.status) == (404, 404, 404)
    refund = await other_merchant.owner.post(
        f"{PAYMENTS}/{trx_id}/refund", {"reason": "mine", "refunded_before": "0"}
    )
    assert refund.status == 404


async def test_a_refund_form_sent_twice_creates_one_refund(dashboard: MerchantDashboard) -> None:
    trx_id = await dashboard.pay_in(payment_amount=1000)
    before = await dashboard.balance()
    address = f"{PAYMENTS}/{trx_id}/refund"
    fields = {"amount": "400", "reason": "Too many", "refunded_before": "0"}
    first = await dashboard.owner.post(address, fields)
    second = await dashboard.owner.post(address, fields)
    assert (first.status, second.status) == (303, 303)
    assert await dashboard.balance() == before - 400_00
    page = await dashboard.owner.get(f"{PAYMENTS}/{trx_id}")
    assert page.body.count(b"Too many") >= 1

    too_much = await dashboard.owner.post(
        address, {"amount": "600.01", "reason": "More", "refunded_before": "40000"}
    )
    assert too_much.status == 422
    assert "At most ₦600.00 of this payment can be refunded" in too_much.body.decode()
    for amount in ("-1", "abc", "1e400"):
        bad = await dashboard.owner.post(
            address, {"amount": amount, "reason": "More", "refunded_before": "40000"}
        )
        assert bad.status in (400, 422), amount
    await dashboard.run_jobs()
    assert await dashboard.balance() == before - 400_00


async def test_a_pending_refund_is_not_shown_as_refunded(dashboard: MerchantDashboard) -> None:
    async def shown(state: str) -> bool:
        page = await dashboard.owner.get(f"{PAYMENTS}?q={trx_id}&status={state}")
        return b"1 payment<" in page.body

    trx_id = await dashboard.pay_in(payment_amount=1000)
    address = f"{PAYMENTS}/{trx_id}"
    for amount, before, is_whole in (("400", "0", False), ("600", "40000", True)):
        fields = {"amount": amount, "reason": "Too many", "refunded_before": before}
        assert (await dashboard.owner.post(f"{address}/refund", fields)).status == 303
        pending = (await dashboard.owner.get(address)).body.decode()
        assert "Refund pending" in pending
        assert "₦1,000.00 refunded" not in pending
        receipt = (await dashboard.owner.get(f"{address}/receipt")).body.decode()
        assert ("partly refunded" in receipt) is is_whole
        await dashboard.run_jobs()
        assert "Refund pending" not in (await dashboard.owner.get(address)).body.decode()
        assert (await shown("refunded"), await shown("partly_refunded")) == (is_whole, not is_whole)
    assert "Refunded</span>" in (await dashboard.owner.get(address)).body.decode()


async def test_a_payment_with_an_open_case_is_under_review(
    dashboard: MerchantDashboard, services: Services
) -> None:
    trx_id = await dashboard.pay_in()
    await cases.open_case(
        *(services.db, CaseKind.CONTRADICTION, trx_id, "A test."),
        merchant_id=dashboard.merchant.new.id,
        environment=Environment.SANDBOX,
        trx_id=trx_id,
    )
    home = (await dashboard.owner.get("/sandbox")).body.decode()
    link = re.search(r'href="([^"]*)">1 payment is under review', home)
    assert link is not None
    page = (await dashboard.owner.get(link[1].removeprefix("/dashboard"))).body.decode()
    assert trx_id in page
    assert "1 payment<" in page
    assert page.count("Under review</span>") == 1
    about = (await dashboard.owner.get(f"{PAYMENTS}/{trx_id}")).body.decode()
    assert "Under review</span>" in about


async def test_technical_events_of_a_payment_are_folded(dashboard: MerchantDashboard) -> None:
    trx_id = await dashboard.pay_in()
    page = (await dashboard.owner.get(f"{PAYMENTS}/{trx_id}")).body.decode()
    main, _, folded = page[page.index("Timeline") :].partition('<details class="more technical">')
    assert "Payment credited to the wallet" in main
    assert "Notification created" not in main
    assert "Notification created" in folded


async def test_a_refund_is_reviewed_before_it_moves_money(dashboard: MerchantDashboard) -> None:
    trx_id = await dashboard.pay_in(payment_amount=500)
    address, before = f"{PAYMENTS}/{trx_id}/refund", await dashboard.balance()
    form = (await dashboard.owner.get(address)).body.decode()
    assert 'name="amount" type="text" autocomplete="off" value="500.00"' in form
    given = {"amount": "125.5", "reason": "One was broken", "refunded_before": "0"}
    review = (await dashboard.owner.post(f"{address}/review", given)).body.decode()
    assert "Refund ₦125.50</button>" in review
    assert "₦374.50" in review
    assert '<input type="hidden" name="amount" value="125.50">' in review
    too_much = await dashboard.owner.post(f"{address}/review", {**given, "amount": "501"})
    assert too_much.status == 422
    assert "At most ₦500.00" in too_much.body.decode()
    assert await dashboard.balance() == before


@pytest.mark.long
async def test_a_user_refunds_a_part_on_a_phone(
    dashboard: MerchantDashboard, browser: Browser
) -> None:
    trx_id = await dashboard.pay_in(payment_amount=500, customer_name="Bola")
    async with dashboard.open_page(browser, f"{PAYMENTS}/{trx_id}", width=390) as page:
        await page.get_by_role("link", name="Refund").click()
        await expect(page.get_by_label("Amount")).to_have_value("500.00")
        await page.get_by_label("Amount").fill("125.50")
        await page.get_by_label("Reason").fill("One was broken")
        await page.get_by_role("button", name="Review refund").click()
        await page.get_by_text("₦374.50").wait_for()
        await page.get_by_role("button", name="Refund ₦125.50").click()
        await page.get_by_label("Your password").fill(PASSWORD)
        await page.get_by_role("button", name="Confirm").click()
        await page.get_by_text("Refund of ₦125.50 started.").wait_for()
        await page.get_by_text("One was broken").first.wait_for()
        assert "₦125.50" in await page.inner_text("main")
