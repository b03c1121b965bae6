"""The plugin in a real WordPress with a real WooCommerce, against Manilla."""

import asyncio
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest
from manilla_client import ShopConnection
from playwright.async_api import Browser, Page, expect

from manilla.kit.environment import Environment
from manilla.ledger.scope import Tenant
from manilla.merchants import checkout_origins
from manilla.notify import shops
from manilla.services import Services
from tests.client_library.php import skip_without_php
from tests.support.client import Merchant
from tests.support.provider_simulator import ProviderSimulator
from tests.support.timeouts import TIMEOUT_SECONDS
from tests.woocommerce.shop import WooShop
from tests.woocommerce.wordpress import (
    SET_UP,
    WordPress,
    running_wordpress,
    skip_without_wordpress,
)

pytestmark = pytest.mark.long

ADDRESS = {
    "first_name": "Ada",
    "last_name": "Obi",
    "address_1": "1 Marina",
    "city": "Lagos",
    "state": "LA",
    "postcode": "100001",
    "country": "NG",
    "email": "ada@example.com",
    "phone": "08030000000",
}
ORDER = """
    $order = wc_get_order((int) $argv[1]);
    $notes = wc_get_order_notes(['order_id' => $order->get_id()]);
    return ['status' => $order->get_status(), 'trx_id' => $order->get_transaction_id(),
        'refunded' => $order->get_total_refunded(), 'notes' => array_column($notes, 'content'),
        'stock' => wc_get_product((int) $argv[2])->get_stock_quantity()];"""
DIALOG = """
    $options = get_option('woocommerce_manilla_settings');
    update_option('woocommerce_manilla_settings', ['way' => 'dialog'] + $options);
    return true;"""
REFUND = """
    WC()->payment_gateways();
    $refund = wc_create_refund(['order_id' => (int) $argv[1], 'amount' => $argv[2],
        'reason' => 'Returned', 'refund_payment' => true]);
    return is_wp_error($refund) ? $refund->get_error_message() : $refund->get_id();"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WordPress]:
    skip_without_php()
    skip_without_wordpress()
    with running_wordpress(tmp_path_factory.mktemp("wordpress")) as wordpress:
        yield wordpress


class RealShop(WooShop):
    """A shop whose orders are WooCommerce's."""

    wordpress: WordPress

    async def notify(self, event: dict[str, Any], **asked: Any) -> Any:
        body, headers = self.signed(event)
        return await self.wordpress.send("/?wc-api=manilla", body, headers)

    async def buy(self) -> tuple[int, str]:
        """Orders as the checkout block does. Returns the order and where the customer pays."""
        return await asyncio.to_thread(_buy, self.wordpress)

    async def see(self, order: int) -> dict[str, Any]:
        product = str(self.wordpress.product)
        seen: dict[str, Any] = await self.wordpress.ask(ORDER, str(order), product)
        return seen

    async def come_back(self, order: int) -> tuple[int, bytes]:
        key = await self.wordpress.ask(
            "return wc_get_order((int) $argv[1])->get_order_key();", str(order)
        )
        return await self.wordpress.send(f"/?wc-api=manilla_return&order={order}&key={key}")

    async def reconcile(self) -> None:
        await self.wordpress.ask("do_action('manilla_reconcile'); return true;")


def _buy(wordpress: WordPress) -> tuple[int, str]:
    token = ""

    def call(path: str, body: Any = None) -> Any:
        nonlocal token
        headers = {"Content-Type": "application/json"} | ({"Cart-Token": token} if token else {})
        data = None if body is None else json.dumps(body).encode()
        url = f"{wordpress.url}/?rest_route=/wc/store/v1/{path}"
        request = urllib.request.Request(url, data, headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            token = response.headers.get("Cart-Token", token)
            return json.load(response)

    call("cart")
    call("cart/add-item", {"id": wordpress.product, "quantity": 1})
    given = {"billing_address": ADDRESS, "payment_method": "manilla", "payment_data": []}
    done = call("checkout", given)
    assert done["payment_result"]["payment_status"] == "success", done
    return done["order_id"], done["payment_result"]["redirect_url"]


@pytest.fixture(params=["yes", "no"], ids=["hpos", "posts"])
async def shop(
    services: Services,
    simulator: ProviderSimulator,
    merchant: Merchant,
    installed: WordPress,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> AsyncIterator[RealShop]:
    tenant = Tenant(merchant.new.id, Environment.SANDBOX)
    hook = "https://shop.example/?wc-api=manilla"
    url = f"http://127.0.0.1:{merchant.site.port}"
    made = await shops.connect(services.db, services.keyring, tenant, url, "Shop", hook)
    await services.directory._refresh(0)
    installed.product, installed.classic_page = await installed.ask(
        SET_UP, made.text, request.param
    )
    used = await installed.ask("return WC_Data_Store::load('order')->get_current_class_name();")
    assert ("OrdersTable" in used) is (request.param == "yes")
    secret = ShopConnection.read(made.text).webhook_secret
    shop = RealShop(installed.url, tmp_path, secret, merchant, simulator)
    shop.wordpress = installed
    yield shop
    assert installed.errors_of_the_plugin() == []


def trx_of(url: str) -> str:
    return url.partition("/checkout/")[2].partition("?")[0]


async def paid(shop: RealShop) -> tuple[int, str]:
    order, url = await shop.buy()
    await shop.complete(trx_of(url))
    await shop.come_back(order)
    assert (await shop.see(order))["status"] == "processing"
    return order, trx_of(url)


async def test_an_order_is_completed_once_by_all_reports_at_once(shop: RealShop) -> None:
    order, url = await shop.buy()
    await shop.come_back(order)
    assert (await shop.see(order))["status"] == "pending"
    await shop.complete(trx_of(url))
    [event] = [each for each in await shop.events() if each["type"] == "payment.success"]
    before = len((shop.wordpress.folder / "mails").read_text().splitlines())
    calls = [shop.notify(event) for _ in range(3)] + [shop.come_back(order) for _ in range(3)]
    answers = await asyncio.gather(*calls, shop.reconcile())
    assert [status for status, _ in answers[:3]] == [204] * 3
    seen = await shop.see(order)
    assert (seen["status"], seen["trx_id"], seen["stock"]) == ("processing", trx_of(url), 99)
    assert sum("TEST payment" in note for note in seen["notes"]) == 1
    mails = (shop.wordpress.folder / "mails").read_text().splitlines()[before:]
    assert sum("new order" in mail.lower() for mail in mails) == 1, mails


async def test_a_forged_event_is_rejected(shop: RealShop) -> None:
    order, _ = await shop.buy()
    [event] = [each for each in await shop.events() if each["type"] == "payment.pending"]
    body, headers = shop.signed(event)
    assert (await shop.wordpress.send("/?wc-api=manilla", body + b" ", headers))[0] == 401
    assert (await shop.see(order))["status"] == "pending"


async def test_a_refund_from_the_order_reaches_the_customer_once(shop: RealShop) -> None:
    order, _ = await paid(shop)
    assert isinstance(await shop.wordpress.ask(REFUND, str(order), "500.50"), int)
    again = await shop.wordpress.ask(REFUND, str(order), "500.50")
    assert isinstance(again, str) and again.startswith("Another refund")  # noqa: PT018
    await shop.end_refunds()
    events = [each for each in await shop.events() if each["type"].startswith("refund.")]
    await asyncio.gather(*(shop.notify(each) for each in events), shop.reconcile())
    assert float((await shop.see(order))["refunded"]) == 500.5
    [refund] = await shop.every("/api/v1/refunds")
    assert (refund["status"], refund["amount"]) == ("success", 500.5)


async def test_a_refund_whose_answer_is_lost_is_sent_once(shop: RealShop) -> None:
    order, _ = await paid(shop)
    shop.wordpress.lose("initiate-refund")
    lost = await shop.wordpress.ask(REFUND, str(order), "500.50")
    shop.wordpress.lose("")
    assert "not known" in lost
    assert float((await shop.see(order))["refunded"]) == 0
    assert isinstance(await shop.wordpress.ask(REFUND, str(order), "500.50"), int)
    assert float((await shop.see(order))["refunded"]) == 500.5
    assert len(await shop.every("/api/v1/refunds")) == 1


async def test_an_order_whose_answer_is_lost_has_one_payment(shop: RealShop) -> None:
    shop.wordpress.lose("initiate-payment")
    with pytest.raises(urllib.error.HTTPError):
        await shop.buy()
    shop.wordpress.lose("")
    [payment] = await shop.every("/api/v1/payments")
    order = int(payment["ref_trx"].split("-")[1])
    code = """
        $order = wc_get_order((int) $argv[1]);
        return WC()->payment_gateways()->payment_gateways()['manilla']
            ->process_payment($order->get_id())['redirect'];"""
    assert trx_of(await shop.wordpress.ask(code, str(order))) == payment["trx_id"]


async def test_a_refund_made_in_manilla_appears_once_on_the_order(shop: RealShop) -> None:
    order, trx_id = await paid(shop)
    await shop.refund_in_dashboard(trx_id)
    await shop.end_refunds()
    events = [each for each in await shop.events() if each["type"].startswith("refund.")]
    await asyncio.gather(*(shop.notify(each) for each in events), shop.reconcile())
    seen = await shop.see(order)
    assert (seen["status"], float(seen["refunded"])) == ("refunded", 1500.5)


async def test_late_money_completes_a_cancelled_order(shop: RealShop) -> None:
    order, url = await shop.buy()
    cancel = "wc_get_order((int) $argv[1])->update_status('cancelled'); return true;"
    await shop.wordpress.ask(cancel, str(order))
    await shop.complete(trx_of(url))
    [event] = [each for each in await shop.events() if each["type"] == "payment.success"]
    assert (await shop.notify(event))[0] == 204
    seen = await shop.see(order)
    assert seen["status"] == "processing"
    assert any("after the order was cancelled" in note for note in seen["notes"])


async def test_cancelling_an_order_ends_its_link(shop: RealShop) -> None:
    order, url = await shop.buy()
    code = """
        wc_get_order((int) $argv[1])->update_status('cancelled');
        ActionScheduler_QueueRunner::instance()->run(); return true;"""
    await shop.wordpress.ask(code, str(order))
    verified = await shop.merchant.get(f"/api/v1/verify-payment/{trx_of(url)}")
    assert verified.json["error_code"] == "PAYMENT_CANCELED"


async def test_the_classic_checkout_leads_to_manilla(shop: RealShop) -> None:
    answered = await asyncio.to_thread(_buy_in_classic_checkout, shop.wordpress)
    assert answered["result"] == "success", answered
    assert trx_of(answered["redirect"]).startswith("TXN")


def _buy_in_classic_checkout(wordpress: WordPress) -> Any:
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))

    def read(path: str, form: dict[str, str] | None = None) -> str:
        data = None if form is None else urllib.parse.urlencode(form).encode()
        with opener.open(wordpress.url + path, data, timeout=TIMEOUT_SECONDS) as response:
            text: str = response.read().decode()
        return text

    read(f"/?add-to-cart={wordpress.product}")
    page = read(f"/?page_id={wordpress.classic_page}")
    assert 'value="manilla"' in page
    nonce = re.search(r'name="woocommerce-process-checkout-nonce" value="(\w+)"', page)
    assert nonce is not None
    form = {f"billing_{name}": value for name, value in ADDRESS.items()}
    form |= {"payment_method": "manilla", "woocommerce-process-checkout-nonce": nonce[1]}
    return json.loads(read("/?wc-ajax=checkout", form))


async def test_the_settings_hide_the_connection(shop: RealShop) -> None:
    code = """
        $gateway = WC()->payment_gateways()->payment_gateways()['manilla'];
        return $gateway->generate_settings_html($gateway->get_form_fields(), false);"""
    page = await shop.wordpress.ask(code)
    assert "wc-api/manilla" in page or "wc-api=manilla" in page
    assert "Connected: sandbox" in page
    assert not re.search("manilla_shop_1_[A-Za-z0-9]", page)


async def test_the_dialog_page_opens_checkout(shop: RealShop) -> None:
    await shop.wordpress.ask(DIALOG)
    _, url = await shop.buy()
    status, page = await shop.wordpress.send(url.removeprefix(shop.wordpress.url))
    assert status == 200
    assert b'id="manilla-pay"' in page
    assert b"/checkout.js" in page


async def _order_in_browser(shop: RealShop, page: Page) -> None:
    page.set_default_timeout(30_000)
    wordpress = shop.wordpress
    checkout = await wordpress.ask("return wc_get_page_id('checkout');")
    await page.goto(f"{wordpress.url}/?add-to-cart={wordpress.product}")
    await page.goto(f"{wordpress.url}/?page_id={checkout}")
    await page.locator("#email").fill(ADDRESS["email"])
    for name in ("first_name", "last_name", "address_1", "city"):
        await page.locator(f"#billing-{name}").fill(ADDRESS[name])
    await page.locator("#billing-state").select_option(ADDRESS["state"])
    await expect(page.get_by_text("Pay by bank").first).to_be_visible()
    await page.get_by_role("button", name="Place Order").click()


async def test_the_checkout_block_leads_to_manilla(shop: RealShop, browser: Browser) -> None:
    context = await browser.new_context()
    page = await context.new_page()
    await _order_in_browser(shop, page)
    await page.wait_for_url("**/checkout/TXN*")
    await context.close()


async def test_the_dialog_opens_after_the_checkout_block(shop: RealShop, browser: Browser) -> None:
    await shop.wordpress.ask(DIALOG)
    merchant = shop.merchant
    key = merchant.new.id, merchant.environment
    await checkout_origins.change(shop.services.db, *key, [shop.wordpress.url])
    await shop.services.watch.look()
    context = await browser.new_context()
    page = await context.new_page()
    await _order_in_browser(shop, page)
    await expect(page.locator("iframe")).to_have_count(1)
    await expect(page.frame_locator("iframe").get_by_text("1,500.50").first).to_be_visible()
    await context.close()
