"""The demo shop's pages: choose an article, pay on the real checkout, watch the notification."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Self

from litestar import MediaType, Request, Response, Router, get, post
from litestar.exceptions import NotFoundException
from manilla_client import BadNotification, ManillaError

from manilla.kit.db import Database
from manilla.merchants.credentials import NewCredentials
from manilla.web.rendering import environment
from manilla_simulator.shop.service import ARTICLES, Order, ShopService

TEMPLATES = Path(str(resources.files("manilla_simulator.shop"))) / "templates"
NO_STORE = {"Cache-Control": "no-store"}
LATEST = 8

Asked = Request[Any, Any, Any]


def build(db: Database, base_url: str, keys: NewCredentials) -> Router:
    return Router(path="/shop", route_handlers=Shop(ShopService(db, base_url, keys)).handlers())


class Shop:
    def __init__(self, service: ShopService) -> None:
        self._service = service
        self._templates = environment(TEMPLATES)

    def __deepcopy__(self, _memo: object) -> Self:
        """Litestar copies the objects that its routes hold; all copies must share this one."""
        return self

    def handlers(self) -> Sequence[Any]:
        return [
            get("/")(self.show),
            post("/buy", status_code=303)(self.buy),
            post("/ipn", status_code=200)(self.receive_notification),
            get("/orders/{reference:str}")(self.show_order),
            get("/orders/{reference:str}/news")(self.show_notifications),
        ]

    async def show(self) -> Response[str]:
        orders = await self._service.latest(LATEST)
        return self._page("shop.html", articles=ARTICLES.values(), orders=orders)

    async def buy(self, request: Asked) -> Response[Any]:
        """Accepts orders from the shop's own page only, so that no other site can order for a
        visitor.
        """
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return self._page("error.html", 403, text="Please order from the shop's own page.")
        wanted = str((await request.form()).get("article", ""))
        article = ARTICLES.get(wanted)
        if article is None:
            raise NotFoundException
        try:
            address = await self._service.buy(article)
        except ManillaError as error:
            return self._page("error.html", 502, text=str(error))
        return Response(None, status_code=303, headers={"Location": address, **NO_STORE})

    async def receive_notification(self, request: Asked) -> Response[Any]:
        try:
            await self._service.receive_notification(await request.body(), dict(request.headers))
        except BadNotification as error:
            return Response({"error": str(error)}, status_code=400)
        return Response({"ok": True})

    async def show_order(self, request: Asked) -> Response[str]:
        return self._page("order.html", order=await self._order(request))

    async def show_notifications(self, request: Asked) -> Response[Any]:
        """Returns 204 if nothing has changed, so that the browser keeps the page as it is."""
        order = await self._order(request)
        if request.query_params.get("known") == str(len(order.notifications)):
            return Response(None, status_code=204, headers=NO_STORE)
        return self._page("notifications.html", order=order)

    async def _order(self, request: Asked) -> Order:
        order = await self._service.order(str(request.path_params["reference"]))
        if order is None:
            raise NotFoundException
        return order

    def _page(self, template: str, status: int = 200, **values: Any) -> Response[str]:
        text = self._templates.get_template(template).render(**values)
        return Response(text, status_code=status, media_type=MediaType.HTML, headers=NO_STORE)
