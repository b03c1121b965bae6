"""The web process: the merchant API and the pages."""

import gc
import socket
from functools import partial
from typing import Any

import uvicorn

from manilla import __version__, development
from manilla.api import kernel, refusals, v1, webhooks
from manilla.api.kernel import MerchantApi
from manilla.api.refusals import MethodNotAllowed
from manilla.api.webhooks import WebhookReceiver
from manilla.checkout import routes as checkout
from manilla.console import routes as console
from manilla.dashboard import routes as dashboard
from manilla.kit import deadline, http, strict_json, time_limits
from manilla.kit.server import accepting
from manilla.kit.server.clients import ClientConnections
from manilla.kit.server.direct import Direct, Protocol
from manilla.kit.server.draining import Drain, DrainingServer
from manilla.kit.server.request_queue import RequestQueue
from manilla.pages import app as pages
from manilla.reference import llms, openapi
from manilla.reference import routes as reference
from manilla.services import Services
from manilla.settings import Settings
from manilla.web.serving.router import PageRouter, UrlHandler
from manilla.wiring import open_services

CONNECTIONS = 10
GARBAGE_MIN = 50_000  # number of objects allocated before the garbage collector runs


class WebApplication:
    """Serves the merchant API, webhooks and checkout directly, and other pages over ASGI."""

    def __init__(self, services: Services, drain: Drain | None = None) -> None:
        endpoints = v1.endpoints(services)
        description = openapi.document(endpoints, services.base_url, __version__)
        self._api = MerchantApi(services, endpoints)
        self._documents = _documents(description)
        self._webhooks = WebhookReceiver(
            *(services.rails, services.watch, services.inbox),
            *(services.cells, services.cell_client),
        )
        router = _site(services, description, drain)
        self._site = pages.harden(router)
        self._checkout = pages.DirectPages(router)

    def direct(self, path: str) -> Direct | None:
        if path.startswith(webhooks.PREFIX):
            return self._webhooks
        if path.startswith(checkout.PREFIX):
            return self._checkout
        is_api = path.startswith(kernel.PREFIX) and path not in self._documents
        return self._api if is_api else None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        with deadline.limited():
            await self._dispatch(scope, receive, send)

    async def _dispatch(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"] if scope["type"] == "http" else ""
        if scope.get("method") == "HEAD":
            # Handle HEAD requests like GET requests. The server omits the body.
            scope = {**scope, "method": "GET"}
        await self._documents.get(path, self._site)(scope, receive, send)


def _site(services: Services, description: dict[str, Any], drain: Drain | None) -> PageRouter:
    shop = _shop(services)
    return pages.build(
        services,
        [
            checkout.build(services),
            dashboard.build(services),
            console.build(services),
            reference.build(description, services.platform, is_development=services.is_development),
            *shop,
        ],
        drain=drain,
        has_shop=bool(shop),
    )


def _shop(services: Services) -> list[list[UrlHandler]]:
    """Returns the demo shop in development mode, if its package is installed."""
    world = development.find() if services.is_development else None
    if world is None:
        return []
    return [world.shop(services.db, services.keyring, services.base_url)]


async def serve(settings: Settings, listener: socket.socket) -> None:
    """Serves requests until a stop signal arrives, then completes requests in progress."""
    async with open_services(
        settings,
        name="manilla api",
        connections=CONNECTIONS,
        statement_seconds=time_limits.current.web_statement_seconds,
    ) as services:
        drain = Drain()
        web = WebApplication(services, drain)
        clients = ClientConnections(services.trusted_proxies)
        server = DrainingServer(
            uvicorn.Config(
                web,
                http=partial(  # type: ignore[arg-type]
                    Protocol, site=web, drain=drain, queue=RequestQueue(), clients=clients
                ),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=time_limits.current.web_stop_seconds,
            ),
            drain,
            settings.drain_seconds,
        )
        # Exclude all current objects from garbage collection, because they exist until shutdown.
        gc.collect()
        gc.freeze()
        gc.set_threshold(GARBAGE_MIN, 20, 50)
        accepting.allow_many_files()
        await server.serve(sockets=accepting.listeners(listener))


def _documents(description: dict[str, Any]) -> dict[str, Any]:
    """Maps paths to machine-readable API documents. The documents are built only once."""
    json, text = http.JSON, b"text/plain; charset=utf-8"
    contents = {
        "/api/openapi.json": (strict_json.encode(description), json),
        "/llms.txt": (llms.short(description).encode(), text),
        "/llms-full.txt": (llms.full(description).encode(), text),
    }
    return {path: pages.harden(_document(*content)) for path, content in contents.items()}


def _document(content: bytes, media_type: bytes) -> Any:
    refusal = MethodNotAllowed("GET")
    cached = (b"cache-control", b"no-cache")

    async def answer(scope: Any, _receive: Any, send: Any) -> None:
        if scope["method"] == "GET":
            await http.respond(send, 200, content, [cached], media_type)
        else:
            headers = [cached, *refusals.headers(refusal)]
            await http.respond(send, refusal.status, refusals.body(refusal), headers)

    return answer
