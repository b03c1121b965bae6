"""The simulator's pages in a browser, where customers pay and developers control a provider."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, Page, Request, expect

from tests.simulator.merchant_platform import Platform

# `make test` runs one combination of width and color scheme. The other combinations are long tests.
looks = pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (390, "light"),
        pytest.param(390, "dark", marks=pytest.mark.long),
        pytest.param(1280, "light", marks=pytest.mark.long),
        pytest.param(1280, "dark", marks=pytest.mark.long),
    ],
)
every_provider = pytest.mark.parametrize(
    "key",
    ["a", pytest.param("b", marks=pytest.mark.long), pytest.param("c", marks=pytest.mark.long)],
)


@asynccontextmanager
async def opened(
    browser: Browser, address: str, width: int = 390, scheme: str = "light"
) -> AsyncIterator[Page]:
    """Opens a page. The page must fit the screen's width and must cause no browser message."""
    page = await browser.new_page(
        viewport={"width": width, "height": 844},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("requestfailed", lambda request: _note_failure(problems, request))
    await page.goto(address)
    yield page
    assert await page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    assert not problems
    await page.close()


def _note_failure(problems: list[str], request: Request) -> None:
    """Records a failed request, unless it was aborted because the user left the page."""
    if request.failure != "net::ERR_ABORTED":
        problems.append(request.url)


@looks
@every_provider
async def test_a_customer_pays_and_comes_back(
    platform: Platform, browser: Browser, key: str, width: int, scheme: str
) -> None:
    address = await platform.open_hosted(key, "TXN1-1", amount="1015.00")
    async with opened(browser, address, width, scheme) as page:
        await expect(page.get_by_role("heading", level=1)).to_contain_text("₦1,015.00")
        await page.get_by_role("button", name="Pay ₦1,015.00").click()
        await expect(page.get_by_role("heading", name="Payment successful")).to_be_visible()
        await page.get_by_role("link", name="Return to the shop").click()
        await expect(page).to_have_title("The shop")
        query = {"c": "tx_ref=TXN1-1&status=successful"}.get(key, "reference=TXN1-1")
        assert page.url == f"{platform.url}/back?order=7&{query}"
    await platform.webhooks(1)


@pytest.mark.long
async def test_a_customer_is_redirected_back_automatically(
    platform: Platform, browser: Browser
) -> None:
    async with opened(browser, await platform.open_hosted("a", "TXN1-1")) as page:
        await page.get_by_role("button", name="Pay ₦").click()
        await page.wait_for_url(f"{platform.url}/back?order=7&reference=TXN1-1")


@pytest.mark.long
@pytest.mark.parametrize(
    ("card", "heading", "reason"),
    [
        ("The bank declines", "Payment declined", "declined"),
        ("Insufficient funds", "Insufficient funds", "insufficient_funds"),
    ],
)
async def test_a_bank_declines_a_payment(
    platform: Platform, browser: Browser, card: str, heading: str, reason: str
) -> None:
    async with opened(browser, await platform.open_hosted("a", "TXN1-1")) as page:
        await page.get_by_text(card).click()
        await page.get_by_role("button", name="Pay ₦").click()
        await expect(page.get_by_role("heading", name=heading)).to_be_visible()
    charge = await platform.charge_status("a", "TXN1-1")
    assert (charge["status"], charge["reason"]) == ("failed", reason)


@pytest.mark.long
@every_provider
async def test_a_customer_cancels_and_the_charge_stays_open(
    platform: Platform, browser: Browser, key: str
) -> None:
    address = await platform.open_hosted(key, "TXN1-1")
    async with opened(browser, address) as page:
        await page.get_by_role("button", name="Cancel payment").click()
        await expect(page.get_by_role("heading", name="Payment canceled")).to_be_visible()
        await page.get_by_role("link", name="Return to the shop").click()
        name = "tx_ref" if key == "c" else "reference"
        assert page.url.endswith(f"{name}=TXN1-1&status=cancelled")
    status = (await platform.charge_status(key, "TXN1-1"))["status"]
    assert status == {"a": "processing", "b": "PENDING", "c": "pending"}[key]
    assert not platform.received


@pytest.mark.long
async def test_a_payment_page_works_once(platform: Platform, browser: Browser) -> None:
    address = await platform.open_hosted("a", "TXN1-1")
    await platform.control("a/charges/TXN1-1/pay", {})
    async with opened(browser, address) as page:
        await expect(page.get_by_role("heading", name="Payment successful")).to_be_visible()
    await platform.open_hosted("a", "TXN1-2")
    await platform.control("a/charges/TXN1-2/expire", {})
    listed = await platform.control("a/charges?reference=TXN1-2")
    token = listed["charges"][0]["token"]
    async with opened(browser, f"{platform.simulator}/a/checkout/{token}") as page:
        await expect(page.get_by_role("heading", name="This page has expired")).to_be_visible()


async def test_an_unknown_payment_shows_an_error_page(platform: Platform) -> None:
    reply = await platform.send("GET", "/a/checkout/nothing")
    assert reply.status == 404
    assert b"Payment not found" in reply.body


@pytest.mark.long
@looks
async def test_money_is_transferred_to_a_virtual_account(
    platform: Platform, browser: Browser, width: int, scheme: str
) -> None:
    account = await platform.open_account("a", "TXN1-1")
    await platform.open_account("b", "TXN2-1")
    async with opened(browser, f"{platform.simulator}/bank", width, scheme) as page:
        await expect(page.get_by_role("listitem")).to_have_count(2)
        await page.get_by_label("Account number").fill(account)
        await page.get_by_role("button", name="Continue").click()
        await page.get_by_role("button", name="Transfer money").click()
        await expect(page.get_by_role("heading", name="Transfer sent")).to_be_visible()
    assert (await platform.charge_status("a", "TXN1-1"))["amount_paid"] == 1000


@pytest.mark.long
@pytest.mark.parametrize(
    ("choice", "paid"),
    [("Less than expected", 900), ("More than expected", 1100), ("Another amount", 1234.5)],
)
async def test_provider_a_accepts_any_amount(
    platform: Platform, browser: Browser, choice: str, paid: float
) -> None:
    account = await platform.open_account("a", "TXN1-1")
    async with opened(browser, f"{platform.simulator}/bank?account={account}") as page:
        await page.get_by_text(choice, exact=True).click()
        if choice == "Another amount":
            await page.get_by_label("Another amount, in naira").fill("1,234.50")
        await page.get_by_role("button", name="Transfer money").click()
        await expect(page.get_by_role("heading", name="Transfer sent")).to_be_visible()
    charge = await platform.charge_status("a", "TXN1-1")
    assert (charge["status"], charge["amount"], charge["amount_paid"]) == ("success", 1000, paid)
    assert (await platform.webhooks(1))[0].json["data"]["amount"] == paid


async def test_provider_b_accepts_only_the_exact_amount(platform: Platform) -> None:
    account = await platform.open_account("b", "TXN1-1")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for choice in (b"choice=less", b"choice=more", b"choice=other&amount=1"):
        reply = await platform.send("POST", f"/bank/{account}", choice, form)
        assert reply.status == 422
        assert b"Transfer returned" in reply.body
    assert (await platform.charge_status("b", "TXN1-1"))["status"] == "PENDING"
    reply = await platform.send("POST", f"/bank/{account}", b"choice=exact", form)
    assert reply.status == 200
    assert (await platform.charge_status("b", "TXN1-1"))["status"] == "SUCCESS"
    again = await platform.send("POST", f"/bank/{account}", b"choice=exact", form)
    assert b"accepts no more money" in again.body
    assert len(await platform.webhooks(1)) == 1


@pytest.mark.parametrize(("key", "status"), [("a", "success"), ("b", "SUCCESS")])
async def test_a_late_payment_still_sends_a_webhook(
    platform: Platform, key: str, status: str
) -> None:
    account = await platform.open_account(key, "TXN1-1")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    reply = await platform.send("POST", f"/bank/{account}", b"choice=late", form)
    assert reply.status == 200
    assert (await platform.charge_status(key, "TXN1-1"))["status"] == status
    await platform.webhooks(1)


@pytest.mark.long
@looks
async def test_the_control_page_controls_a_provider(
    platform: Platform, browser: Browser, width: int, scheme: str
) -> None:
    await platform.open_hosted("a", "TXN0-1", amount="1015.00")
    await platform.open_account("a", "TXN0-2", amount="250000.00")
    await platform.transfer("a", "TXN1", "0000000003")
    async with opened(browser, f"{platform.simulator}/control", width, scheme) as page:
        await page.get_by_role("button", name="Delivered").click()
        await page.get_by_role("button", name="Reversed").click()
        await page.get_by_role("button", name="Paid").first.click()
        await page.get_by_label("Latency, seconds").fill("0.1")
        await page.get_by_role("combobox", name="Webhooks").select_option("hold")
        await page.get_by_role("button", name="Save").click()
        await page.get_by_label("Fault", exact=True).select_option("refuse")
        await page.get_by_label("Message when refused").fill("Invalid bank provided.")
        await page.get_by_label("Times").fill("always")
        await page.get_by_role("button", name="Add").click()
        await expect(page.get_by_text("Invalid bank provided.", exact=False)).to_be_visible()
    assert await platform.transfer_status("a", "TXN1") == "reversed"
    state = (await platform.control("state"))["a"]
    assert state["faults"]["webhooks"]["mode"] == "hold"
    assert state["faults"]["next"][0]["times"] is None


async def test_the_control_page_shows_errors(platform: Platform) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    reply = await platform.send("POST", "/control/a/balance", b"available=lots", form)
    assert reply.status == 400
    assert b'role="alert"' in reply.body


async def test_pages_run_no_script_and_escape_what_was_sent(platform: Platform) -> None:
    await platform.transfer("a", "TXN1")
    evil = {"outcome": "failed", "reason": "<script>alert(1)</script>"}
    await platform.open_hosted("a", "TXN1-1")
    await platform.control("a/charges/TXN1-1/pay", evil)
    reply = await platform.send("GET", "/control/a")
    assert b"<script" not in reply.body
    assert b"&lt;script&gt;" in reply.body
