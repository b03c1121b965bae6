"""A merchant's first days in the dashboard, from sign-up to the first sale, in a browser."""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyotp
import pytest
from manilla_simulator import demo
from manilla_simulator.shop.queries import ShopNotification
from manilla_simulator.shop.service import ARTICLES, Order
from playwright.async_api import Browser, Page, expect

from manilla.development import Demo
from manilla.kit.environment import Environment
from manilla.kit.jobs import claims
from manilla.kit.jobs.runner import Runner
from manilla.kit.money import Money
from manilla.merchants import checkout_origins, merchants
from manilla.merchants.credentials import NewCredentials
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate, NewMerchant
from manilla.notify.delivery import NotificationDelivery
from manilla.notify.outbox import DELIVER
from manilla.notify.queries import DueNotification
from manilla.services import Services
from manilla.web.embed import checkout_script
from tests.checkout.dialog import CLOSE, METHODS, SUCCESS, frame_of, press, sees
from tests.dashboard.merchant_dashboard import MerchantDashboard
from tests.notify.deliveries import Deliveries, delivery_worker
from tests.notify.receiver import answer, receiving
from tests.payments.orders import INITIATE, order
from tests.support.client import Merchant, Site, new_merchant
from tests.support.provider_simulator import running_simulator
from tests.support.waiting import until
from tests.web.http_browser import HttpBrowser
from tests.web.signed_in_user import PASSWORD, member

SITE_INFO = "/api/v1/site-info"


@contextlib.asynccontextmanager
async def _at_browser(browser: Browser, address: str) -> AsyncIterator[Page]:
    """Opens a separate browser for a user, and fails the test on any browser error."""
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    page = await context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on(
        "console",
        lambda said: (
            faults.append(said.text)
            if said.type in ("error", "warning") and "status of 4" not in said.text
            else None
        ),
    )
    try:
        await page.goto(address)
        yield page
        assert faults == []
    finally:
        await context.close()


async def _becomes(expected: Any, look: Callable[[], Awaitable[Any]]) -> None:
    async def is_equal() -> bool:
        return bool(await look() == expected)

    await until(is_equal)


async def _codes(page: Page, number: int) -> list[str]:
    """Returns the secrets on a page after the browser has loaded all of them."""
    found = page.locator(".secret code")
    await expect(found).to_have_count(number)
    return await found.all_inner_texts()


async def _sees(page: Page, text: str) -> None:
    await expect(page.locator(".notice")).to_contain_text(text)


async def _sign_in(page: Page, email: str) -> None:
    await page.get_by_label("Email").fill(email)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in", exact=True).click()


async def _sign_out(page: Page) -> None:
    await page.locator("details.drop summary").click()
    await page.get_by_role("button", name="Sign out").click()
    await _sees(page, "You have signed out.")


async def _statuses(site: Site, *keys: list[str]) -> list[int]:
    """Returns the API's response status for each of these credentials."""
    statuses = []
    for merchant_key, api_key, secret in keys:
        pair = NewCredentials(merchant_key, api_key, secret)
        new = NewMerchant(0, "", MerchantStatus.PENDING, sandbox=pair, production=pair)
        reply = await Merchant(site.from_new_ip(), new, Environment.SANDBOX).get(SITE_INFO)
        statuses.append(reply.status)
    return statuses


async def test_a_business_signs_up_and_signs_in_again(
    browser: Browser, site: Site, services: Services
) -> None:
    base, email = f"{services.base_url}/dashboard", f"ngozi-{time.time_ns()}@example.com"
    async with _at_browser(browser, f"{base}/sign-up") as page:
        await page.get_by_label("Business name").fill("Kobo & Sons")
        await page.get_by_label("Your name").fill("Ngozi Obi")
        await page.get_by_label("Email").fill(email)
        await page.get_by_label("Password").fill("short")
        await page.locator("form").evaluate("form => form.noValidate = true")
        await page.get_by_role("button", name="Create account").click()
        await _sees(page, "A password must have 12 to 256 characters.")
        await expect(page.get_by_label("Email")).to_have_value(email)
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Create account").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Welcome, Kobo & Sons")
        keys = await _codes(page, 4)  # only for the sandbox
        assert keys[3] == (
            f"export MANILLA_URL={services.base_url} MANILLA_MERCHANT_KEY={keys[0]}"
            f" MANILLA_API_KEY={keys[1]} MANILLA_API_SECRET={keys[2]}"
        )
        assert await _statuses(site, keys[:3]) == [200]
        await page.get_by_role("link", name="Go to dashboard").click()
        await expect(page.get_by_role("heading", name="Getting started")).to_be_visible()
        await expect(
            page.get_by_role("link", name="Take your first sandbox payment")
        ).to_be_visible()
        await _sign_out(page)
        await page.goto(f"{base}/sandbox/credentials")
        await _sign_in(page, email)
        await expect(page.get_by_role("heading", level=1)).to_have_text("Credentials")
        assert not [key for key in (keys[1], keys[2]) if key in await page.content()]
        await page.goto(f"{base}/production/credentials")
        await expect(page.get_by_text("when your business is approved")).to_be_visible()
        find = "UPDATE merchant SET status = 'approved' WHERE email = $1 RETURNING id"
        assert await services.db.value(find, email)
        await page.reload()
        await page.get_by_role("button", name="Create keys").click()
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_role("button", name="Confirm").click()
        real = await _codes(page, 5)
        assert not real[0].startswith("test_")


@pytest.mark.long
async def test_an_owner_secures_the_account_and_rotates_the_keys(
    browser: Browser, site: Site, services: Services
) -> None:
    merchant = await new_merchant(site, services.db, services.keyring)
    email = (await member(services, site, merchant.new.id)).email
    base = f"{services.base_url}/dashboard"
    old = merchant.credentials
    keys = [old.merchant_key, old.api_key, old.api_secret]
    async with _at_browser(browser, f"{base}/sign-in") as page:
        await _sign_in(page, email)
        await expect(page.get_by_role("heading", level=1)).to_have_text("Home")
        codes = await _protects_the_account(page, base, email)
        # Allow the authenticator's current code to be used again instead of waiting for a new one.
        await services.db.execute("UPDATE person SET totp_last_step = NULL WHERE email = $1", email)
        await page.goto(f"{base}/sandbox/credentials")
        await page.get_by_role("button", name="Rotate keys").click()
        await page.get_by_label("Code from your authenticator app").fill(codes.now())
        await page.get_by_role("button", name="Confirm").click()
        await expect(page.get_by_text("shown only once.")).to_be_visible()
        new = (await _codes(page, 5))[:3]
        # Every API process loads the new keys within a second.
        await _becomes([200, 200], lambda: _statuses(site, keys, new))
        assert await _statuses(site, [*new[:2], "test_secret_of_nobody"]) == [401]
        await page.get_by_role("link", name="Done").click()
        await expect(page.locator("tbody tr")).to_have_count(2)
        assert not [key for key in new[1:] if key in await page.content()]


async def _protects_the_account(page: Page, base: str, email: str) -> pyotp.TOTP:
    """Enrolls a second factor, then signs in with a code and with a recovery code."""
    await page.goto(f"{base}/account")
    await page.get_by_role("button", name="Set up").click()
    await page.get_by_label("Your password").fill(PASSWORD)
    await page.get_by_role("button", name="Confirm").click()
    secret = await page.locator(".copyable code").first.inner_text()
    await page.get_by_label("Code").fill("not a code")
    await page.get_by_role("button", name="Turn on").click()
    await _sees(page, "The code is wrong")
    assert await page.locator(".copyable code").first.inner_text() == secret
    totp = pyotp.TOTP(secret)
    await page.get_by_label("Code").fill(totp.now())
    await page.get_by_role("button", name="Turn on").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Recovery codes")
    recovery = await _codes(page, 10)
    for code in (totp.at(int(time.time()) + 30), recovery[0]):
        await _sign_out(page)
        await _sign_in(page, email)
        await page.get_by_label("Code").fill("000000")
        await page.get_by_role("button", name="Continue").click()
        await _sees(page, "The code is wrong")
        await page.get_by_label("Code").fill(code)
        await page.get_by_role("button", name="Continue").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Home")
    await page.goto(f"{base}/account")
    await page.get_by_text("9 recovery codes left").wait_for()
    return totp


@pytest.mark.long
async def test_a_merchant_configures_methods_notifications_and_members(
    browser: Browser, site: Site, services: Services
) -> None:
    merchant = await new_merchant(site, services.db, services.keyring)
    rate = MerchantUpdate(commission_percent=Decimal("1.5"))
    await merchants.change(services.db, services.keyring, merchant.new.id, rate)
    dashboard = MerchantDashboard(services, merchant, await member(services, site, merchant.new.id))
    async with (
        running_simulator(services),
        dashboard.open_page(browser, "/sandbox/gateways", width=1280) as page,
    ):
        await _chooses_gateways(page, merchant)
        await _chooses_who_bears_the_commission(page, merchant)
        await page.get_by_role("link", name="Balance").click()
        await page.get_by_role("link", name="Statement").first.click()
        before = await dashboard.balance()
        await page.get_by_text("Top up").click()
        await page.get_by_label("Test money").fill("2,500.50")
        await page.get_by_role("button", name="Add test money").click()
        await _sees(page, "Test money added.")
        assert await dashboard.balance() == before + 250_050
        await page.get_by_text("Top up").click()
        await page.get_by_label("Test money").fill("-1")
        await page.get_by_role("button", name="Add test money").click()
        await expect(page.locator(".notice-danger")).to_be_visible()
        assert await dashboard.balance() == before + 250_050
        await _has_a_notification_sent_again(page, dashboard)
        await _invites_a_colleague(browser, page, merchant)


async def _chooses_gateways(page: Page, merchant: Merchant) -> None:
    async def offered() -> list[str]:
        reply = await merchant.post(INITIATE, order())
        codes: list[str] = reply.json["info"]["merchant_payment_method_codes"]
        return sorted(codes)

    everything = await offered()
    assert len(everything) > 2
    assert await page.locator("input[name=gateway]:checked").count() == len(everything)
    for code in everything[2:]:
        await page.locator(f'input[value="{code}"]').uncheck()
    await expect(page.get_by_label("Selected gateways")).to_be_checked()
    await page.get_by_role("button", name="Save", exact=True).click()
    await _sees(page, "Checkout now offers the selected gateways.")
    # The page shows the value that was just saved, not a cached value.
    assert await page.locator("input[name=gateway]:checked").count() == 2
    not_selected = page.get_by_text("You have not selected this method.")
    assert await not_selected.count() == len(everything) - 2
    await _becomes(everything[:2], offered)
    await page.locator('input[value="all"]').check()
    await page.get_by_role("button", name="Save", exact=True).click()
    await _sees(page, "Checkout now offers all available gateways.")
    await _becomes(everything, offered)
    await _moves_a_gateway(page)
    await _becomes(everything, offered)


async def _moves_a_gateway(page: Page) -> None:
    async def shown() -> list[str | None]:
        boxes = await page.locator("input[name=gateway]").all()
        return [await box.get_attribute("value") for box in boxes]

    first, second, *others = await shown()
    await page.get_by_role("button", name=re.compile("^Move .* down$")).first.click()
    await _sees(page, "Checkout now uses this order.")
    assert await shown() == [second, first, *others]
    await page.get_by_role("button", name=re.compile("^Move .* up$")).nth(1).click()
    # Wait for the new order, because the page shows the same message after both moves.
    await expect(page.locator("input[name=gateway]").first).to_have_attribute("value", first or "")
    assert await shown() == [first, second, *others]
    await expect(page.get_by_role("button", name=re.compile("^Move .* up$")).first).to_be_disabled()


async def _chooses_who_bears_the_commission(page: Page, merchant: Merchant) -> None:
    async def customer_pays() -> float:
        reply = await merchant.post(INITIATE, order())
        amount: float = reply.json["info"]["customer_pays"]
        return amount

    await page.get_by_role("link", name="API commission").click()
    await page.get_by_label("Payment amount, NGN").fill("20000")
    await expect(page.locator("#example")).to_contain_text("₦20,000.00")
    await page.get_by_label("Payment amount, NGN").fill("nothing")
    await expect(page.locator("#example")).to_contain_text("₦10,000.00")
    assert await customer_pays() == 1015
    await page.get_by_label("My business").check()
    await page.get_by_role("button", name="Save", exact=True).click()
    await page.get_by_label("Your password").fill(PASSWORD)
    await page.get_by_role("button", name="Confirm").click()
    await _sees(page, "Your business now pays the commission.")
    await _becomes(1000, customer_pays)


async def _has_a_notification_sent_again(page: Page, dashboard: MerchantDashboard) -> None:
    async with receiving() as receiver, delivery_worker(dashboard.services) as delivering:
        deliveries = Deliveries(dashboard.services, dashboard.merchant, receiver, delivering)
        receiver.answers = [answer(500, b"<b>out of order</b>")]
        trx_id = await deliveries.finish_payment()
        await deliveries.deliver()
        link = page.get_by_role("link", name="Notifications")
        if not await link.is_visible():  # a failed notification opens the group
            await page.get_by_text("Developers", exact=True).click()
        await link.click()
        await page.get_by_role("searchbox", name="Search").fill(trx_id)
        await page.get_by_role("searchbox", name="Search").press("Enter")
        await expect(page.locator("tbody tr")).to_have_count(1)
        await page.locator("a.row-link").click()
        await expect(page.get_by_text("Attempt 1: HTTP 500")).to_be_visible()
        await page.get_by_role("button", name="Resend").click()
        await _sees(page, "The notification is being sent again under the same id.")
        await deliveries.deliver()
        await page.reload()
        await expect(page.get_by_text("Attempt 2: HTTP 200")).to_be_visible()
        first, second = receiver.received
        assert first.body == second.body
        assert first.headers["webhook-id"] == second.headers["webhook-id"]


async def _invites_a_colleague(browser: Browser, page: Page, merchant: Merchant) -> None:
    email = f"uche-{merchant.new.id}@example.com"
    await page.get_by_text("Business", exact=True).click()
    await page.get_by_role("link", name="Team").click()
    await page.get_by_label("Email").fill(email)
    await page.get_by_label("Role", exact=True).select_option("finance")
    await page.get_by_role("button", name="Invite").click()
    link = await page.locator(".secret code").inner_text()
    async with _at_browser(browser, link) as theirs:
        await theirs.get_by_label("Your name").fill("Uche")
        await theirs.get_by_label("Choose a password").fill("four loud cedi notes")
        await theirs.get_by_role("button", name="Join").click()
        await expect(theirs.get_by_role("heading", level=1)).to_have_text("Home")
        await expect(theirs.get_by_role("link", name="New payout")).to_be_visible()
        await expect(theirs.get_by_role("link", name="Credentials")).to_have_count(0)
        await theirs.goto(link)
        await expect(theirs.get_by_role("heading", level=1)).to_have_text("Page not found")
    await page.reload()
    await expect(page.get_by_role("rowheader", name=email)).to_be_visible()


@pytest.fixture(scope="module")
async def store(services: Services) -> Demo:
    found = await demo.ensure(
        services.db, services.keyring, services.base_url, "http://127.0.0.1:1"
    )
    assert found is not None
    return found


@pytest.mark.long
async def test_the_demo_shows_a_complete_sale(
    browser: Browser, site: Site, services: Services, store: Demo
) -> None:
    base_url = services.base_url
    async with (
        running_simulator(services),
        delivery_worker(services) as delivering,
        _at_browser(browser, f"{base_url}/dashboard/") as owner,
    ):
        await owner.get_by_role("button", name="Continue as the demo merchant's owner").click()
        await owner.goto(f"{base_url}/dashboard/sandbox")
        figure = owner.locator(".figure").first
        before = await figure.inner_text()
        async with _at_browser(browser, f"{base_url}/shop") as customer:
            await customer.get_by_role("button", name="Buy A calabash lamp").click()
            await sees(frame_of(customer), METHODS)
            await press(frame_of(customer), "Bank transfer")
            await press(frame_of(customer), "Send a test transfer")
            await sees(frame_of(customer), SUCCESS)
            await press(customer, CLOSE)
            await customer.wait_for_url(f"{base_url}/shop/orders/*")
            await expect(customer.get_by_text("Waiting for the notification")).to_be_visible()
            await _deliver(services, delivering, store.merchant_id)
            await expect(customer.get_by_text("A notification arrived")).to_be_visible()
            await expect(customer.get_by_text("Paid. What next?")).to_be_visible()
            await customer.goto(f"{base_url}/shop")
            await expect(customer.locator("tbody tr").first).to_contain_text("Completed")
        await owner.reload()
        await expect(figure).not_to_have_text(before)
        await expect(owner.get_by_text("1 of 1 paid")).to_be_visible()


async def _deliver(
    services: Services, delivering: NotificationDelivery[DueNotification], merchant_id: int
) -> None:
    claimed, _ = await claims.claim_fairly(services.db, DELIVER, 100, merchant_id - 1)
    mine = [job for job in claimed if job.merchant_id == merchant_id]
    runner = Runner(services.db, delivering.job_handlers())
    await asyncio.gather(*(runner._do(job) for job in mine))


def _notification(event: str, status: str, **data: object) -> ShopNotification:
    body = json.dumps({"event": event, "data": {"currency_code": "NGN", **data}})
    return ShopNotification("SHOP-1", status, "A message", body, datetime.now(UTC))


def test_a_refund_in_the_demo_shop_does_not_make_an_unpaid_order_paid() -> None:
    failed = _notification("payment", "failed", amount_received=1600.5)
    returned = _notification("refund", "completed", amount_received=1600.5, refund_amount=1600.5)
    article = ARTICLES["coffee"]
    order = Order("SHOP-1", article, "TXN1", "http://x", datetime.now(UTC), [failed, returned])
    assert order.status == "failed"
    amount = Money.of("1600.50", "NGN")
    assert (failed.received, failed.refunded, returned.refunded) == (amount, None, amount)


async def test_the_demo_shop_may_show_its_checkout_in_a_dialog(
    site: Site, services: Services, store: Demo
) -> None:
    page = await site.send("GET", "/shop")
    assert "frame-src 'self'" in page.headers["content-security-policy"]
    assert checkout_script.integrity() in page.body.decode()
    allowed = await checkout_origins.read(services.db, store.merchant_id, Environment.SANDBOX)
    assert allowed == (services.base_url,)
    # A later start on the same port does not add the origin again.
    await demo.ensure(services.db, services.keyring, services.base_url, "http://127.0.0.1:1")
    assert allowed == await checkout_origins.read(
        services.db, store.merchant_id, Environment.SANDBOX
    )


async def test_each_demo_user_signs_in_with_one_click(site: Site, store: Demo) -> None:
    async with HttpBrowser.of(site) as visitor:
        await visitor.post("/sign-in/demo", {"next": "", "second": "on"})
        assert "Demo Finance" in (await visitor.get("/sandbox")).text
        await visitor.post("/sign-in/demo", {"next": "", "csrf": (await visitor.get("/team")).csrf})
        team = (await visitor.get("/team")).text
    assert "Demo Owner" in team
    assert "Can approve from" not in team  # the second person can approve at once


async def test_the_demo_shop_rejects_unsigned_notifications(site: Site) -> None:
    forged = await site.send("POST", "/shop/ipn", {"Content-Type": "application/json"}, b"{}")
    assert forged.status == 400
    elsewhere = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Sec-Fetch-Site": "cross-site",
    }
    assert (await site.send("POST", "/shop/buy", elsewhere, b"article=lamp")).status == 403
    assert (await site.send("POST", "/shop/buy", body=b"article=moon")).status == 404
    assert (await site.send("GET", "/shop/orders/none/news")).status == 404
