"""The web program: the merchants' API beside the pages, in one process."""

import socket
from typing import Any

import uvicorn

from manilla import __version__
from manilla.api import openapi, v1
from manilla.api.endpoint import Endpoint, Gate, MerchantApi
from manilla.api.refusals import MethodNotAllowed
from manilla.api.webhooks import PREFIX, Webhooks
from manilla.checkout import routes as checkout
from manilla.kit import http, strict_json
from manilla.kit.ratelimit import RateLimiter
from manilla.pages import app as pages
from manilla.payments import initiate as pay_in
from manilla.payouts import initiate as pay_out
from manilla.payouts.banks import Banks
from manilla.payouts.beneficiary import Resolver
from manilla.services import Services, opened
from manilla.settings import Settings

CONNECTIONS = 10
GRACE_SECONDS = 10


def build(services: Services) -> Any:
    """The API does not pass through the framework of the pages: see decision record 2."""
    base_url = services.settings.base_url
    endpoints = _endpoints(services)
    gate = Gate(
        db=services.db,
        watch=services.watch,
        directory=services.directory,
        limiter=RateLimiter(services.db),
        platform=services.platform,
        trusted_proxies=services.settings.trusted_proxies,
    )
    api = MerchantApi(gate, endpoints)
    description = pages.hardened(
        _document(strict_json.encode(openapi.document(endpoints, base_url, __version__)))
    )
    webhooks = pages.hardened(Webhooks(services.db, services.watch, services.rails))
    is_development = services.settings.is_development
    site = pages.build(
        services.db,
        checkout.build(
            services.checkout, services.links, services.platform, is_development=is_development
        ),
        is_development=is_development,
    )

    async def app(scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"] if scope["type"] == "http" else ""
        if path == "/api/openapi.json":
            await description(scope, receive, send)
        elif path.startswith("/api/"):
            await api(scope, receive, send)
        elif path.startswith(PREFIX):
            await webhooks(scope, receive, send)
        else:
            await site(scope, receive, send)

    return app


def _endpoints(services: Services) -> list[Endpoint]:
    db, platform, methods = services.db, services.platform, services.methods
    banks = Banks(services.rails, methods)
    return v1.endpoints(
        db,
        platform,
        methods,
        banks,
        pay_in.Initiation(db, platform, methods, services.rails, services.links),
        pay_out.Initiation(db, platform, methods, services.rails, Resolver(services.rails, banks)),
        services.settings.base_url,
    )


async def serve(settings: Settings, listener: socket.socket) -> None:
    """Serves until it is told to stop, then lets the requests under way finish."""
    async with opened(settings, name="manilla api", connections=CONNECTIONS) as services:
        server = uvicorn.Server(
            uvicorn.Config(
                build(services),
                http=http.Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=GRACE_SECONDS,
            )
        )
        await server.serve(sockets=[listener])


def _document(body: bytes) -> Any:
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-cache")]
    refusal = MethodNotAllowed("GET")
    refused = strict_json.encode({"error": refusal.text, "error_code": refusal.code})

    async def answer(scope: Any, _receive: Any, send: Any) -> None:
        is_get = scope["method"] == "GET"
        content = body if is_get else refused
        length = (b"content-length", str(len(content)).encode())
        allow = [] if is_get else [(b"allow", refusal.allowed.encode())]
        status = 200 if is_get else refusal.status
        start = {"type": "http.response.start", "status": status}
        await send({**start, "headers": [*headers, length, *allow]})
        await send({"type": "http.response.body", "body": content})

    return answer
