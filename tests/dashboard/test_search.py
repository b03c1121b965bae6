"""The dashboard's search: what it finds, isolation between merchants, and keyboard use."""

from urllib.parse import urlencode

import pytest
from playwright.async_api import Browser, expect

from manilla.people.roles import Role
from manilla.refunds import initiate
from manilla.services import Services
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.dashboard.sample_data import create_sample_data
from tests.payments.orders import new_reference
from tests.payouts.payout_merchant import ACCOUNT
from tests.support.client import Site
from tests.web.signed_in_user import member

SESSION = "000015260101120000123456789012"
# Changes the search text while a result has the focus, so that new results arrive as if late.
CHANGE_TEXT = """(text) => {
    const field = document.getElementById("search-text");
    field.value = text;
    field.dispatchEvent(new Event("input", { bubbles: true }));
}"""


@pytest.fixture(scope="module")
async def dashboard(services: Services, site: Site) -> MerchantDashboard:
    return await new_dashboard(services, site)


async def results(dashboard: MerchantDashboard, text: str, *, environment: str = "sandbox") -> str:
    reply = await dashboard.owner.get(f"/{environment}/search/results?{urlencode({'q': text})}")
    assert reply.status == 200, reply.body
    return reply.body.decode()


async def test_a_payment_is_found_by_reference_id_email_and_amount(
    dashboard: MerchantDashboard,
) -> None:
    reference, email = new_reference(), f"ada.{new_reference()}@example.com"
    trx_id = await dashboard.pay_in(ref_trx=reference, customer_email=email, payment_amount=7654.32)
    searches = {
        trx_id: "Transaction ID",
        reference: "Reference",
        reference[:-2]: "Reference",
        email.upper(): "Email",
        email[:-14].upper(): "Email",
        email[4:-4]: "Email",
        "7,654.32": "Amount",
        "7654.32": "Amount",
    }
    for text, field in searches.items():
        page = await results(dashboard, text)
        assert f"/dashboard/sandbox/payments/{trx_id}" in page, text
        assert f"{field}: " in page, text
    assert "No results" in await results(dashboard, "nothing-has-this-reference")


async def test_names_and_beginnings_of_ids_are_found(dashboard: MerchantDashboard) -> None:
    trx_id = await dashboard.pay_in(customer_name="Ngozi Okafor-Bello")
    for text, field in (
        ("okafor", "Name: Ngozi Okafor-Bello"),
        (trx_id[:-4], "Transaction ID: "),
        (trx_id[:-4].lower(), "Transaction ID: "),
    ):
        page = await results(dashboard, text)
        assert f"/dashboard/sandbox/payments/{trx_id}" in page, text
        assert field in page, text


async def test_pages_and_actions_are_found_by_their_words(
    services: Services, site: Site, dashboard: MerchantDashboard
) -> None:
    page = await results(dashboard, "webh")
    assert "<h2>Pages</h2>" in page
    assert 'href="/dashboard/sandbox/webhooks"' in page
    assert 'href="/dashboard/sandbox/payouts/new"' in await results(dashboard, "payout send")
    viewer = await member(services, site, dashboard.merchant.new.id, Role.VIEWER)
    reply = await viewer.get("/sandbox/search/results?q=payout")
    assert b"/dashboard/sandbox/payouts/new" not in reply.body
    assert b'href="/dashboard/sandbox/payouts"' in reply.body


async def test_payouts_and_refunds_are_found(
    dashboard: MerchantDashboard, services: Services
) -> None:
    samples = await create_sample_data(services, dashboard.merchant, "Ada")
    payout = samples["payout"]
    await services.db.execute(
        "UPDATE payout SET session_id = $2 WHERE trx_id = $1", payout, SESSION
    )
    refund = await initiate.start(services.db, samples["trx_id"], "1", "Returned goods")
    assert f"/payouts/{payout}" in await results(dashboard, payout)
    assert "Session ID: " in await results(dashboard, SESSION)
    by_account = await results(dashboard, ACCOUNT)
    assert "Account number: " in by_account
    assert f"/payouts/{payout}" in by_account
    found = await results(dashboard, refund.trx_id)
    assert "<h2>Refunds</h2>" in found
    assert f"/dashboard/sandbox/refunds/{refund.trx_id}" in found
    assert 'href="/dashboard/sandbox/refunds"' in await results(dashboard, "refund")
    assert samples["notification"] in await results(dashboard, samples["notification"])


async def test_search_never_finds_rows_of_another_merchant_or_environment(
    dashboard: MerchantDashboard, services: Services, site: Site
) -> None:
    other = await new_dashboard(services, site)
    reference, email = new_reference(), f"ada.{new_reference()}@example.com"
    trx_id = await other.pay_in(ref_trx=reference, customer_email=email, payment_amount=8765.43)
    samples = await create_sample_data(services, other.merchant, "Obi")
    await services.db.execute(
        "UPDATE payout SET session_id = 'S8765' WHERE trx_id = $1", samples["payout"]
    )
    parts = (email[:-12], email[4:])
    texts = (trx_id, reference, email, *parts, "8765.43", samples["payout"], "S8765")
    for text in (*texts, samples["notification"], other.owner.email):
        assert "No results" in await results(dashboard, text), text
        assert "No results" not in await results(other, text), text
    for text in texts:
        assert "No results" in await results(other, text, environment="production"), text


async def test_the_search_page_opens_the_only_result(dashboard: MerchantDashboard) -> None:
    reference = new_reference()
    trx_id = await dashboard.pay_in(ref_trx=reference)
    found = await dashboard.owner.get(f"/sandbox/search?q={reference}")
    assert found.status == 303
    assert found.headers["location"].endswith(trx_id.lower())
    empty = await dashboard.owner.get("/sandbox/search?q=nothing-has-this")
    assert b"No results" in empty.body


async def test_search_opens_by_key_and_enter_opens_the_first_result(
    dashboard: MerchantDashboard, browser: Browser
) -> None:
    reference = new_reference()
    trx_id = await dashboard.pay_in(ref_trx=reference)
    async with dashboard.open_page(browser, "/sandbox/payments", width=1280) as page:
        dialog = page.get_by_role("dialog", name="Search")
        await page.keyboard.press("/")
        await expect(dialog).to_be_visible()
        await page.keyboard.type(reference)
        await expect(dialog.locator(f'[data-results="{reference}"]')).to_be_visible()
        await page.keyboard.press("ArrowDown")
        await expect(dialog.get_by_role("link", name=reference)).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(dialog).to_be_hidden()

        field = page.get_by_role("searchbox", name="Search")
        await field.press("/")  # Typing a slash into a text field does not open the search.
        await expect(field).to_have_value("/")
        await expect(dialog).to_be_hidden()
        await field.press("Control+k")
        await expect(dialog).to_be_visible()
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"**/payments/{trx_id}")


@pytest.mark.long
async def test_new_results_keep_the_focus_on_the_same_result(
    dashboard: MerchantDashboard, browser: Browser
) -> None:
    reference = new_reference()
    await dashboard.pay_in(ref_trx=reference)
    async with dashboard.open_page(browser, "/sandbox/payments", width=1280) as page:
        dialog = page.get_by_role("dialog", name="Search")
        result = dialog.get_by_role("link", name=reference)
        await page.keyboard.press("/")
        await page.keyboard.type(reference)
        await expect(dialog.locator(f'[data-results="{reference}"]')).to_be_visible()
        await page.keyboard.press("ArrowDown")
        await expect(result).to_be_focused()
        for text, focused in (
            (reference[:-1], result),
            ("nothing", dialog.get_by_role("searchbox")),
        ):
            await page.evaluate(CHANGE_TEXT, text)
            await expect(dialog.locator(f'[data-results="{text}"]')).to_be_visible()
            await expect(focused).to_be_focused()


@pytest.mark.long
async def test_search_works_without_javascript(
    dashboard: MerchantDashboard, browser: Browser
) -> None:
    reference = new_reference()
    trx_id = await dashboard.pay_in(ref_trx=reference)
    context = await browser.new_context(java_script_enabled=False)
    await dashboard.owner.enter(context)
    page = await context.new_page()
    await page.goto(f"{dashboard.services.base_url}/dashboard/sandbox/payments")
    await page.get_by_role("link", name="Search").click()
    await page.get_by_role("searchbox", name="Search").fill(reference)
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**/payments/{trx_id}")
    await context.close()
