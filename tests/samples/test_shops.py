"""A customer buys in each sample shop, in a browser, with checkout in the shop's page."""

import json
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import Browser, Page, expect

from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.merchants import checkout_origins
from manilla.notify import signing
from tests.checkout.dialog import CLOSE, METHODS, SUCCESS, frame_of, press, sees
from tests.checkout.page_checks import opened
from tests.samples.sample_shops import PREPARED, SAMPLES, SampleShop
from tests.support.instance import Instance, free_port
from tests.support.waiting import until_true

LINES_MAX = 110


def test_each_shop_has_about_100_lines() -> None:
    programs = [path for path in SAMPLES.glob("shop-*/server.*") if path.is_file()]
    assert len(programs) == len(PREPARED)
    assert [path for path in programs if len(path.read_text().splitlines()) > LINES_MAX] == []


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    instance = Instance(tmp_path_factory.mktemp("shops") / "data").wait()
    yield instance
    assert instance.stop() == 0


@pytest.fixture(scope="module", params=PREPARED)
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SampleShop:
    return SampleShop(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture
async def credentials(instance: Instance, shop: SampleShop) -> dict[str, str]:
    """The sandbox credentials of a new merchant, who allows the shop to show checkout."""
    merchant = instance.command("merchant", "create", "Ada Stores", f"{time.time_ns()}@example.com")
    url = json.loads((instance.folder / "instance.json").read_text())["database_url"]
    db = await Database.open(url, size=1, name="tests")
    await checkout_origins.change(db, merchant["id"], Environment.SANDBOX, [shop.url])
    await db.close()
    own = merchant["sandbox"]
    return {
        "MANILLA_URL": f"http://127.0.0.1:{instance.port}",
        "MANILLA_MERCHANT_KEY": own["merchant_key"],
        "MANILLA_API_KEY": own["api_key"],
        "MANILLA_API_SECRET": own["api_secret"],
    }


@pytest.fixture
async def page(shop: SampleShop, browser: Browser) -> AsyncIterator[Page]:
    async with opened(browser, "about:blank") as page:
        yield page


async def buy(page: Page, shop: SampleShop) -> str:
    """Opens checkout in the shop's page, and returns the URL of the new order's page."""
    await page.goto(shop.url)
    async with page.expect_response("**/buy") as buying:
        await press(page, "Buy")
    order = await (await buying.value).json()
    await sees(frame_of(page), METHODS)
    return shop.url + str(order["order_url"])


async def pay(page: Page) -> None:
    await press(frame_of(page), "Bank transfer")
    await press(frame_of(page), "Send a test transfer")
    await sees(frame_of(page), SUCCESS)


async def status(page: Page, order_url: str) -> str:
    """Returns the payment's status on the order page, without leaving the open page."""
    text = await (await page.request.get(order_url)).text()
    return text.partition("<strong>")[2].partition("</strong>")[0]


@pytest.mark.long
async def test_an_order_is_paid_after_the_notification(
    shop: SampleShop, credentials: dict[str, str], page: Page
) -> None:
    async with shop.open(**credentials):
        order_url = await buy(page, shop)
        reference = order_url.rpartition("/")[2]
        assert await notify(page, shop, reference, secret="another secret") == 401
        secret = credentials["MANILLA_API_SECRET"]
        assert await notify(page, shop, "ORDER-of-another-shop", secret=secret) == 404
        assert await status(page, order_url) == "not paid yet"
        await pay(page)
        # No page asks for the order now, so only the notification can deliver the order.
        await until_true(lambda: shop.delivered() == [reference])
        await press(page, CLOSE)
        await page.wait_for_url(order_url)
        await expect(page.get_by_text("paid", exact=True)).to_be_visible()
        assert shop.delivered() == [reference]


async def notify(page: Page, shop: SampleShop, reference: str, *, secret: str) -> int:
    """Sends a notification that is signed with this secret, and returns the response's status."""
    data = {"trx_id": "TXN1", "ref_trx": reference, "environment": "sandbox"}
    body = json.dumps({"event": "payment", "status": "completed", "data": data}).encode()
    now = int(time.time())
    headers = signing.headers(
        secret.encode(), notification_id="msg_1", environment="sandbox", body=body, now=now
    )
    reply = await page.request.post(f"{shop.url}/ipn", data=body, headers=headers)
    return reply.status


@pytest.mark.long
@pytest.mark.parametrize("button", ["Send a test transfer", "Cancel and go back"])
async def test_a_customer_returns_from_checkout_in_the_whole_window(
    shop: SampleShop, credentials: dict[str, str], page: Page, button: str
) -> None:
    async with shop.open(**credentials):
        bought = await (await page.request.post(f"{shop.url}/buy")).json()
        await page.goto(bought["payment_url"])
        is_paid = button == "Send a test transfer"
        if is_paid:
            await press(page, "Bank transfer")
        await press(page, button)
        if is_paid:
            await page.get_by_role("link", name="Return to").click()
        # Checkout adds the transaction's id to the URL.
        await page.wait_for_url(f"{shop.url}{bought['order_url']}?trx_id=*")
        text = "paid" if is_paid else "not paid yet"
        await expect(page.get_by_text(text, exact=True)).to_be_visible()


@pytest.mark.long
async def test_an_order_is_paid_if_the_notification_is_lost(
    shop: SampleShop, credentials: dict[str, str], page: Page
) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    async with shop.open(**credentials, SHOP_URL=nowhere):
        order_url = await buy(page, shop)
        await press(page, CLOSE)
        await page.wait_for_url(order_url)
        await expect(page.get_by_text("not paid yet", exact=True)).to_be_visible()
        assert shop.delivered() == []
        order_url = await buy(page, shop)
        await pay(page)
        await press(page, CLOSE)
        await page.wait_for_url(order_url)
        await expect(page.get_by_text("paid", exact=True)).to_be_visible()
        assert shop.delivered() == [order_url.rpartition("/")[2]]
