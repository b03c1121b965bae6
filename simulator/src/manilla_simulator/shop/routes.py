"""The demo shop's pages: choose an article, pay in the checkout dialog, see the notification."""

from importlib import resources
from pathlib import Path
from typing import Any

from manilla_client import BadNotification, ManillaError
from markupsafe import Markup

from manilla.kit.database.connections import Database
from manilla.merchants.credentials import NewCredentials
from manilla.web import static_files
from manilla.web.embed import checkout_script
from manilla.web.form_body import read_form
from manilla.web.rendering import environment
from manilla.web.serving.policy import content_policy
from manilla.web.serving.request import WebRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound, UrlHandler
from manilla_simulator.shop.service import ARTICLES, Order, ShopService

FOLDER = Path(str(resources.files("manilla_simulator.shop")))
NO_STORE = {"Cache-Control": "no-store"}
LATEST = 8


def build(db: Database, base_url: str, keys: NewCredentials) -> list[UrlHandler]:
    return Shop(ShopService(db, base_url, keys)).handlers()


class Shop:
    def __init__(self, service: ShopService) -> None:
        self._service = service
        self._templates = environment(FOLDER / "templates")

    def handlers(self) -> list[UrlHandler]:
        return [
            UrlHandler("GET", "/shop", self.show),
            UrlHandler("POST", "/shop/buy", self.buy),
            UrlHandler("POST", "/shop/ipn", self.receive_notification),
            UrlHandler("GET", "/shop/orders/{reference:str}", self.show_order),
            UrlHandler("GET", "/shop/orders/{reference:str}/news", self.show_notifications),
            *static_files.folder_handlers("/shop/static", FOLDER / "static"),
        ]

    async def show(self, _request: WebRequest) -> PageResponse:
        orders = await self._service.latest(LATEST)
        page = self._page(
            "shop.html",
            articles=ARTICLES.values(),
            orders=orders,
            checkout_script=Markup(checkout_script.tag("")),  # noqa: S704 - our own text
        )
        # The dialog shows checkout in a frame.
        page.headers["content-security-policy"] = content_policy(frames="'self'")
        return page

    async def buy(self, request: WebRequest) -> PageResponse:
        """Creates an order. Rejects requests from other sites, to prevent forged orders.

        The shop's script gets the URLs as JSON. Without scripts, the browser opens checkout.
        """
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return self._page("error.html", 403, text="Please order from the shop's own page.")
        article = ARTICLES.get((await read_form(request)).text("article"))
        if article is None:
            raise PageNotFound
        try:
            new = await self._service.buy(article)
        except ManillaError as error:
            return self._page("error.html", 502, text=str(error))
        if request.headers.get("accept") == "application/json":
            urls = {"order_url": f"/shop/orders/{new.reference}", "payment_url": new.payment_url}
            return PageResponse.json(urls, headers=NO_STORE)
        return PageResponse.redirect(new.payment_url, headers=NO_STORE)

    async def receive_notification(self, request: WebRequest) -> PageResponse:
        try:
            await self._service.receive_notification(await request.body(), request.headers)
        except BadNotification as error:
            return PageResponse.json({"error": str(error)}, 400)
        return PageResponse.json({"ok": True})

    async def show_order(self, request: WebRequest) -> PageResponse:
        return self._page("order.html", order=await self._order(request))

    async def show_notifications(self, request: WebRequest) -> PageResponse:
        """Returns the notifications, or 204 if the browser already shows the latest ones."""
        order = await self._order(request)
        if request.query.get("known") == str(len(order.notifications)):
            return PageResponse.empty(204, headers=NO_STORE)
        return self._page("notifications.html", order=order)

    async def _order(self, request: WebRequest) -> Order:
        order = await self._service.order(str(request.parameters["reference"]))
        if order is None:
            raise PageNotFound
        return order

    def _page(self, template: str, status: int = 200, **values: Any) -> PageResponse:
        text = self._templates.get_template(template).render(**values)
        return PageResponse.html(text, status, headers=NO_STORE)
