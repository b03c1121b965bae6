"""Checkout in a dialog on the page of a shop on another site, in a browser."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from playwright.async_api import Browser, Page, Request, Route, expect
from playwright.async_api import Error as PlaywrightError

from manilla.kit.environment import Environment
from manilla.payments.payment import PaymentStatus
from tests.checkout.dialog import (
    CLOSE,
    METHODS,
    SUCCESS,
    TRANSFER,
    WAITING,
    frame_of,
    press,
    sees,
)
from tests.checkout.embedding_shop import OPEN, EmbeddingShop, serving_shop
from tests.checkout.page_checks import accessibility_violations, overflow
from tests.checkout.shop import Shop
from tests.support.waiting import until


@pytest.fixture(scope="module")
async def serving(shop: Shop) -> AsyncIterator[EmbeddingShop]:
    async with serving_shop(shop) as serving:
        yield serving


async def choose_card(page: Page) -> Page:
    """Chooses to pay by card in the dialog. Returns the window with the provider's page."""
    async with page.expect_popup() as opening:
        await press(frame_of(page), "Card")
    window = await opening.value
    await window.wait_for_url("**/sandbox?**")
    return window


async def is_closed(page: Page) -> None:
    await expect(page.locator("iframe")).to_have_count(0)


async def test_a_customer_pays_by_card_and_the_shop_verifies_the_payment(
    serving: EmbeddingShop, browser: Browser
) -> None:
    async with serving.page(browser) as page:
        await press(page, "Pay")
        window = await choose_card(page)
        assert await window.evaluate("window.opener") is None
        await sees(frame_of(page), WAITING)
        await press(window, "Pay ₦1,015.00")
        await sees(window, SUCCESS)
        await sees(frame_of(page), SUCCESS)
        await expect(page.get_by_text("Thank you for your order.")).to_be_visible()
        async with window.expect_event("close"):
            # The window may close before Playwright knows that the click has ended.
            with contextlib.suppress(PlaywrightError):
                await press(window, "Close this window")
        await frame_of(page).get_by_role("link", name="Return to Ada Stores").click()
        await is_closed(page)


@pytest.mark.long
async def test_a_customer_pays_by_bank_transfer_without_leaving_the_dialog(
    serving: EmbeddingShop, browser: Browser
) -> None:
    async with serving.page(browser) as page:
        checkout = await serving.open_dialog(page)
        await press(frame_of(page), "Bank transfer")
        await press(frame_of(page), "Send a test transfer")
        await sees(frame_of(page), SUCCESS)
        await press(page, CLOSE)
        called = [["success", checkout.trx_id, "success"], ["close", checkout.trx_id, "success"]]
        assert await page.evaluate("calls") == called
        assert len(page.context.pages) == 1


@pytest.mark.long
async def test_checkout_works_if_the_browser_blocks_third_party_cookies(
    serving: EmbeddingShop, browser: Browser
) -> None:
    # Routes of Playwright would disable the restriction, so this page has no routes.
    async with page_with_messages(browser, serving.cookie_url) as (page, _):
        await page.goto(serving.origin)
        assert await cookies_of_frame(serving, page) == {"probe=1"}
        session = await page.context.new_cdp_session(page)
        await session.send("Network.enable")
        restricted = {"enableThirdPartyCookieRestriction": True}
        await session.send("Network.setCookieControls", restricted)
        await page.reload()
        assert await cookies_of_frame(serving, page) == {""}
        await press(frame_of(page), "Bank transfer")
        await press(frame_of(page), "Send a test transfer")
        await sees(frame_of(page), SUCCESS)
        assert [each["name"] for each in await page.context.cookies()] == ["probe"]


async def cookies_of_frame(serving: EmbeddingShop, page: Page) -> set[str]:
    """Opens checkout, and returns the Cookie headers of the requests for the frame's pages."""
    requests: list[Request] = []

    def note(request: Request) -> None:
        if "/checkout/TXN" in request.url:
            requests.append(request)

    page.on("request", note)
    await serving.open_dialog(page)
    await sees(frame_of(page), METHODS)
    assert requests
    return {(await each.all_headers()).get("cookie", "") for each in requests}


@pytest.mark.long
async def test_a_blocked_window_leaves_a_button_that_uses_the_same_window(
    serving: EmbeddingShop, browser: Browser
) -> None:
    async with page_with_messages(browser, f"{serving.origin}/no-windows") as (page, _):
        checkout = await serving.open_dialog(page)
        await press(frame_of(page), "Card")
        await frame_of(page).get_by_role("link", name="Continue to").click()
        alert = frame_of(page).get_by_role("alert")
        await expect(alert).to_have_text("Your browser blocked the new window.")
        await frame_of(page).get_by_role("link", name="Continue in this window").click()
        await page.wait_for_url("**/sandbox?**")
        await press(page, "Pay ₦1,015.00")
        await sees(page, SUCCESS)
        assert page.url == checkout.url


@contextlib.asynccontextmanager
async def page_with_messages(browser: Browser, url: str) -> AsyncIterator[tuple[Page, list[str]]]:
    """Opens a page on which the browser reports what it has blocked. Returns the messages too."""
    context = await browser.new_context()
    page = await context.new_page()
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    await page.goto(url)
    yield page, messages
    await context.close()


async def leave_while_loading(page: Page) -> None:
    await expect(page.get_by_text("Opening checkout…")).to_be_visible()


async def leave_at_methods(page: Page) -> None:
    await sees(frame_of(page), METHODS)


async def leave_at_transfer(page: Page) -> None:
    await press(frame_of(page), "Bank transfer")
    await sees(frame_of(page), TRANSFER)


async def leave_at_provider(page: Page) -> None:
    await choose_card(page)
    await sees(frame_of(page), WAITING)


async def leave_after_success(page: Page) -> None:
    await leave_at_transfer(page)
    await press(frame_of(page), "Send a test transfer")
    await sees(frame_of(page), SUCCESS)


async def leave_after_cancel(page: Page) -> None:
    await press(frame_of(page), "Cancel and go back")
    await sees(frame_of(page), "Payment canceled")


async def with_button(page: Page) -> None:
    await press(page, CLOSE)


async def with_escape_in_the_frame(page: Page) -> None:
    # The dialog moves the focus into the frame when the frame's page has been loaded.
    focused = "document.activeElement.shadowRoot?.activeElement?.tagName"
    # Playwright's own waiting evaluates text within the page, which the CSP forbids.
    await until(lambda: page.evaluate(f"{focused} === 'IFRAME'"))
    await page.keyboard.press("Escape")


async def with_escape_in_the_page(page: Page) -> None:
    await page.get_by_role("button", name=CLOSE).focus()
    await page.keyboard.press("Escape")


async def with_the_returned_function(page: Page) -> None:
    await page.evaluate("dialog.close()")


Leaving = Callable[[Page], Awaitable[None]]
long = pytest.mark.long


@pytest.mark.parametrize(
    ("step", "leave", "status"),
    [
        pytest.param(leave_while_loading, with_escape_in_the_page, "pending", marks=long),
        (leave_at_methods, with_escape_in_the_frame, "pending"),
        pytest.param(leave_at_transfer, with_button, "pending", marks=long),
        pytest.param(leave_at_provider, with_the_returned_function, "pending", marks=long),
        pytest.param(leave_after_success, with_escape_in_the_frame, "success", marks=long),
        pytest.param(leave_after_cancel, with_button, "failed", marks=long),
    ],
)
async def test_a_dialog_closed_at_any_step_reports_once_and_can_be_opened_again(
    serving: EmbeddingShop, browser: Browser, step: Leaving, leave: Leaving, status: str
) -> None:
    async with serving.page(browser) as page:
        answer = asyncio.Event()
        if step is leave_while_loading:
            await page.route("**/checkout/TXN*", lambda route: _answer_later(route, answer))
        await page.get_by_role("button", name="Pay").focus()
        checkout = await serving.open_dialog(page)
        await step(page)
        assert await page.evaluate(_OVERFLOW) == "hidden"
        await leave(page)
        await is_closed(page)
        answer.set()
        successes = [["success", checkout.trx_id, status]] if status == "success" else []
        assert await page.evaluate("calls") == [*successes, ["close", checkout.trx_id, status]]
        assert await page.evaluate(_OVERFLOW) == "visible"
        assert await page.evaluate("document.activeElement.id") == "pay"
        payment = await serving.shop.payment(checkout)
        assert payment.status is PaymentStatus(status)
        await page.evaluate(OPEN, checkout.url)
        await expect(frame_of(page).get_by_role("heading").first).to_be_visible()


async def _answer_later(route: Route, answer: asyncio.Event) -> None:
    await answer.wait()
    await route.continue_()


async def test_on_close_can_open_the_next_dialog_and_leaves_the_page_scrollable(
    serving: EmbeddingShop, browser: Browser
) -> None:
    async with serving.page(browser) as page:
        first, second = await serving.sell(), await serving.sell()
        await page.evaluate(
            """([first, second]) => {
                window.seen = [];
                const next = { url: second, onClose: () => window.seen.push(2) };
                const onClose = () => { window.seen.push(1); Manilla.open(next); };
                Manilla.open({ url: first, onClose }).close();
            }""",
            [first.url, second.url],
        )
        await expect(page.locator("iframe")).to_have_count(1)
        assert await page.evaluate(_OVERFLOW) == "hidden"
        await press(page, CLOSE)
        await is_closed(page)
        assert await page.evaluate(_OVERFLOW) == "visible"
        assert await page.evaluate("seen") == [1, 2]


async def test_a_failing_callback_stops_no_dialog_and_is_reported(
    serving: EmbeddingShop, browser: Browser
) -> None:
    async with page_with_messages(browser, serving.origin) as (page, _):
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(error.message))
        first, second = await serving.sell(), await serving.sell()
        failing = """([first, second]) => {
            Manilla.open({ url: first, onClose() { throw new Error("the shop's error"); } });
            Manilla.open({ url: second });
        }"""
        await page.evaluate(failing, [first.url, second.url])
        await expect(page.locator("iframe")).to_have_attribute("src", second.url)
        await press(page, CLOSE)
        await is_closed(page)
        assert await page.evaluate(_OVERFLOW) == "visible"
        assert errors == ["the shop's error"]


_OVERFLOW = "getComputedStyle(document.documentElement).overflow"


@pytest.mark.long
async def test_the_console_names_the_header_that_blocks_checkout(
    serving: EmbeddingShop, browser: Browser
) -> None:
    async with page_with_messages(browser, f"{serving.origin}/isolated") as (page, messages):
        await serving.open_dialog(page)
        alert = page.get_by_role("alert")
        await expect(alert).to_contain_text("Checkout cannot be shown on this page.")
        assert any("sends Cross-Origin-Embedder-Policy" in text for text in messages)


async def test_an_origin_that_is_not_allowed_gets_a_link_and_no_data(
    serving: EmbeddingShop, browser: Browser
) -> None:
    # Another host name is another origin, even if it is the same server.
    other_origin = serving.origin.replace("localhost", "127.0.0.1")
    async with page_with_messages(browser, other_origin) as (page, messages):
        await page.evaluate("addEventListener('message', () => { window.isTold = true; })")
        checkout = await serving.open_dialog(page)
        alert = page.get_by_role("alert")
        await expect(alert).to_contain_text("Checkout cannot be shown on this page.")
        assert await page.evaluate("[calls.length, window.isTold]") == [0, None]
        assert any("frame-ancestors" in text for text in messages)
        assert any("allowed in the dashboard" in text for text in messages)
        await alert.get_by_role("link", name="Continue to checkout").click()
        await page.wait_for_url(checkout.url)
        await sees(page, METHODS)


async def test_messages_from_elsewhere_change_nothing(
    serving: EmbeddingShop, browser: Browser
) -> None:
    async with serving.page(browser) as page:
        await serving.open_dialog(page)
        await sees(frame_of(page), METHODS)
        forged = "{ manilla: 'state', trx_id: 'TXN1', status: 'success' }"
        await page.evaluate(f"postMessage({forged}, '*'); postMessage({{ manilla: 'close' }}, '*')")
        # Messages arrive in order, so the forged messages have arrived before this message.
        await page.evaluate(
            "new Promise(done => { addEventListener('message', done); postMessage(0, '*'); })"
        )
        assert await page.evaluate("calls") == []
        await expect(page.locator("iframe")).to_be_visible()


async def test_only_a_checkout_of_the_platform_can_be_opened(
    serving: EmbeddingShop, browser: Browser
) -> None:
    elsewhere = serving.shop.services.base_url + "/dashboard/"
    async with serving.page(browser) as page:
        for url in ("https://evil.example/checkout/TXN1", elsewhere, "javascript:alert(1)", ""):
            with pytest.raises(Exception, match="TypeError"):
                await page.evaluate("url => { Manilla.open({ url }); }", url)
        await is_closed(page)


@pytest.mark.long
@pytest.mark.parametrize("width", [390, pytest.param(1280, marks=long)])
async def test_the_dialog_is_accessible_and_fits_the_screen(
    serving: EmbeddingShop, browser: Browser, width: int
) -> None:
    async with serving.page(browser, width=width) as page:
        await serving.open_dialog(page)
        await sees(frame_of(page), METHODS)
        dialog = page.get_by_role("dialog", name="Checkout")
        box = await dialog.bounding_box()
        assert box is not None
        assert (box["width"], box["height"]) == ((390, 844) if width == 390 else (480, 800))
        assert await overflow(page, width) == 0
        assert await accessibility_violations(page) == []


@pytest.mark.long
async def test_the_page_behind_the_dialog_does_not_react(
    serving: EmbeddingShop, browser: Browser
) -> None:
    async with serving.page(browser, width=1280) as page:
        await page.evaluate(
            "document.querySelector('#pay').addEventListener('click', () => { window.hit = 1; })"
        )
        await serving.open_dialog(page)
        await sees(frame_of(page), METHODS)
        box = await page.locator("#pay").bounding_box()
        assert box is not None
        await page.mouse.click(box["x"] + 5, box["y"] + 5)
        assert await page.evaluate("window.hit") is None
        await expect(page.get_by_role("dialog")).to_be_visible()


@pytest.mark.long
async def test_the_keyboard_reaches_the_frame_and_the_close_button_only(
    serving: EmbeddingShop, browser: Browser
) -> None:
    async with serving.page(browser) as page:
        checkout = await serving.open_dialog(page)
        await sees(frame_of(page), METHODS)
        reached = set()
        for _ in range(20):
            await page.keyboard.press("Tab")
            reached.add(await page.evaluate(_FOCUSED))
        assert reached <= {"IFRAME", "BUTTON", "BODY"}
        assert {"IFRAME", "BUTTON"} <= reached
        assert await page.evaluate("document.activeElement.id") != "pay"
        assert (await serving.shop.payment(checkout)).status is PaymentStatus.PENDING


_FOCUSED = "(document.activeElement.shadowRoot?.activeElement ?? document.activeElement).tagName"


@pytest.mark.long
async def test_a_production_payment_is_made_on_a_providers_page_in_a_new_window(
    shop: Shop, browser: Browser
) -> None:
    async with serving_shop(shop, Environment.PRODUCTION) as serving, serving.page(browser) as page:
        await press(page, "Pay")
        await sees(frame_of(page), METHODS)
        async with page.expect_popup() as opening:
            await press(frame_of(page), "Card")
        window = await opening.value
        await window.wait_for_url(f"{shop.simulator}/**")
        assert await window.evaluate("window.opener") is None
        await sees(frame_of(page), WAITING)
        await press(window, "Pay ₦1,015.00")
        await window.get_by_role("link", name="Return").click()
        await sees(window, SUCCESS)
        await expect(window.get_by_role("button", name="Close this window")).to_be_visible()
        await sees(frame_of(page), SUCCESS)
        await expect(page.get_by_text("Thank you for your order.")).to_be_visible()
        [checkout] = serving.orders
        assert (await shop.payment(checkout)).status is PaymentStatus.SUCCESS
