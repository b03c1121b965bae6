"""A shop on another site than the platform, which shows checkout in a dialog on its page."""

import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web
from playwright.async_api import Browser, Page

from manilla.kit.environment import Environment
from manilla.merchants import checkout_origins
from manilla.reference import code_samples
from tests.checkout.page_checks import opened
from tests.checkout.shop import Checkout, Shop
from tests.support.client import Merchant

OPEN = """url => {
    window.calls = [];
    const note = (name) => (data) => window.calls.push([name, data.trx_id, data.status]);
    window.dialog = Manilla.open({ url, onSuccess: note("success"), onClose: note("close") });
}"""
# Without `allow-popups`, the browser blocks new windows of the page and of its frames.
NO_WINDOWS = (
    "sandbox allow-scripts allow-same-origin allow-forms allow-modals"
    " allow-top-navigation-by-user-activation"
)


class EmbeddingShop:
    """Serves the documentation's sample page with a strict content security policy.

    The shop's host is `localhost` and the platform's host is `127.0.0.1`, so they are two sites.
    """

    def __init__(self, shop: Shop, merchant: Merchant, port: int) -> None:
        self.shop = shop
        self.merchant = merchant
        self.origin = f"http://localhost:{port}"
        # Cookies do not depend on the port, so this page sets a cookie for the platform's host.
        self.cookie_url = f"http://127.0.0.1:{port}/cookie"
        self.orders: list[Checkout] = []

    async def allow(self, *origins: str) -> None:
        """Replaces the origins that may show the merchant's checkout in a frame."""
        key = self.merchant.new.id, self.merchant.environment
        await checkout_origins.change(self.shop.services.db, *key, origins)
        await self.shop.services.watch.look()

    async def sell(self) -> Checkout:
        checkout = await self.shop.sell(self.merchant)
        self.orders.append(checkout)
        return checkout

    @contextlib.asynccontextmanager
    async def page(self, browser: Browser, path: str = "/", *, width: int = 390) -> Any:
        async with opened(browser, self.origin + path, width=width) as page:
            yield page

    async def open_dialog(self, page: Page) -> Checkout:
        """Opens checkout with callbacks that add their data to `window.calls`."""
        checkout = await self.sell()
        await page.evaluate(OPEN, checkout.url)
        return checkout

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/", self._page)
        application.router.add_get("/no-windows", self._page)
        application.router.add_get("/isolated", self._page)
        application.router.add_get("/cookie", self._cookie)
        application.router.add_get("/shop.js", self._script)
        application.router.add_get("/order", self._order)
        application.router.add_post("/pay", self._pay)
        return application

    async def _page(self, request: web.Request) -> web.Response:
        platform = self.shop.services.base_url
        policy = (
            f"default-src 'none'; script-src 'self' {platform}; frame-src {platform}; "
            "connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
        )
        if request.path == "/no-windows":
            policy += f"; {NO_WINDOWS}"
        text = code_samples.shop_file("shop.html", platform)
        headers = {"Content-Security-Policy": policy}
        if request.path == "/isolated":
            headers["Cross-Origin-Embedder-Policy"] = "require-corp"
            headers["Cross-Origin-Opener-Policy"] = "same-origin"
        return web.Response(text=text, content_type="text/html", headers=headers)

    async def _cookie(self, _request: web.Request) -> web.Response:
        return web.Response(headers={"Set-Cookie": "probe=1; SameSite=None; Secure; Path=/"})

    async def _script(self, _request: web.Request) -> web.Response:
        text = code_samples.shop_file("shop.js", "")
        return web.Response(text=text, content_type="text/javascript")

    async def _pay(self, _request: web.Request) -> web.Response:
        return web.json_response({"payment_url": (await self.sell()).url})

    async def _order(self, _request: web.Request) -> web.Response:
        """Verifies the payment on the server, as the documentation demands."""
        path = f"/api/v1/verify-payment/{self.orders[-1].trx_id}"
        reply = await self.merchant.get(path)
        return web.json_response({"is_paid": reply.json["status"] == "success"})


@contextlib.asynccontextmanager
async def serving_shop(
    shop: Shop, environment: Environment = Environment.SANDBOX
) -> AsyncIterator[EmbeddingShop]:
    listener = socket.create_server(("127.0.0.1", 0))
    merchant = await shop.new_merchant(environment)
    made = EmbeddingShop(shop, merchant, listener.getsockname()[1])
    runner = web.AppRunner(made.application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    await made.allow(made.origin)
    try:
        yield made
    finally:
        await runner.cleanup()
