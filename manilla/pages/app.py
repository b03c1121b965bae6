"""Serves all pages as one ASGI application, with a strict content security policy."""

from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

import structlog

from manilla.kit import deadline, ids
from manilla.kit.errors import Refusal
from manilla.kit.http import BodyTooLarge, Header
from manilla.kit.server import direct
from manilla.kit.server.direct import HttpRequest, HttpResponse
from manilla.kit.server.draining import Drain
from manilla.pages import cell, health, unsubscribe
from manilla.services import Services
from manilla.web import static_files
from manilla.web.embed import checkout_script
from manilla.web.rendering import environment
from manilla.web.serving.policy import content_policy
from manilla.web.serving.request import BODY_BYTES_MAX, WebRequest
from manilla.web.serving.response import PageResponse, StreamedResponse
from manilla.web.serving.router import MethodNotSupported, OnError, PageRouter, UrlHandler

log = structlog.get_logger(__name__)

FOLDER = Path(str(resources.files("manilla.pages")))

POLICY = "Content-Security-Policy"
FRAME_OPTIONS = "X-Frame-Options"
SECURITY_HEADERS: Mapping[str, str] = {
    POLICY: content_policy(),
    FRAME_OPTIONS: "DENY",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": (
        "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), "
        "microphone=(), midi=(), payment=(), publickey-credentials-get=(), usb=()"
    ),
}


def build(
    services: Services,
    groups: Sequence[Sequence[UrlHandler]],
    *,
    drain: Drain | None = None,
    has_shop: bool = False,
) -> PageRouter:
    """Builds the router of all pages. `groups` contains the URL handlers of the other packages."""
    templates = environment(FOLDER / "templates")

    def render(template: str, **values: Any) -> str:
        site_name = services.platform.now.site_name
        return templates.get_template(template).render(site_name=site_name, **values)

    async def front_page(_request: WebRequest) -> PageResponse:
        is_development = services.is_development
        text = render("front.html", is_development=is_development, has_shop=has_shop)
        return PageResponse.html(text)

    own = [
        UrlHandler("GET", "/", front_page),
        *health.handlers(services.db, drain or Drain()),
        *cell.handlers(services),
        *static_files.folder_handlers("/static", FOLDER / "static"),
        static_files.handler(),
        checkout_script.handler(),
        *unsubscribe.handlers(services, render),
    ]
    return PageRouter(chain(own, *groups), _error_handler(render))


def _error_handler(render: Callable[..., str]) -> OnError:
    def respond(
        request: WebRequest, status: int, code: str, text: str, headers: Mapping[str, str]
    ) -> PageResponse:
        """Responds with a page if the client accepts HTML, otherwise with JSON."""
        if "text/html" not in request.headers.get("accept", ""):
            return PageResponse.json({"error": text, "error_code": code}, status, headers=headers)
        page = render("problem.html", status=status, text=text)
        return PageResponse.html(page, status, headers=headers)

    def handle(request: WebRequest, error: Exception) -> PageResponse:
        if isinstance(error, Refusal):
            return respond(request, error.status, error.code, error.text, _headers(error))
        if isinstance(error, BodyTooLarge):
            return respond(request, 413, "TOO_LARGE", "The request is too large.", {})
        log.error("page_failed", path=request.path, exc_info=error)
        return respond(request, 500, "SERVER_ERROR", "Something went wrong on our side.", {})

    return handle


def _headers(refusal: Refusal) -> dict[str, str]:
    if isinstance(refusal, MethodNotSupported):
        return {"Allow": refusal.allowed}
    seconds = refusal.retry_after_seconds
    return {} if seconds is None else {"Retry-After": str(seconds)}


def _may_be_framed(headers: Sequence[Header]) -> bool:
    """Returns whether a page's own policy lets pages of some origins show the page in a frame."""
    policies = (value for name, value in headers if name.lower() == POLICY.lower().encode())
    policy = next(policies, b"")
    return b"frame-ancestors" in policy and b"frame-ancestors 'none'" not in policy


_FIXED = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]


def harden_headers(own: Sequence[Header]) -> list[Header]:
    """Returns a response's headers with the security headers and a request id."""
    # Do not replace headers that a page has set itself.
    named = {name.lower() for name, _ in own}
    if _may_be_framed(own):
        named.add(FRAME_OPTIONS.lower().encode())
    added = [each for each in _FIXED if each[0] not in named]
    return [*own, *added, (b"x-request-id", ids.new_request_id().encode())]


def harden(asgi: Any) -> Any:
    """Adds the security headers and a request id to every response, including errors and files."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def send_hardened(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = harden_headers(message.get("headers", ()))
            await send(message)

        await asgi(scope, receive, send_hardened)

    return app


class DirectPages:
    """Serves pages whose response is complete when it is sent, without ASGI's messages."""

    read_headers = frozenset((b"content-length",))
    body_bytes_max = BODY_BYTES_MAX

    def __init__(self, router: PageRouter) -> None:
        self._router = router

    def busy(self) -> None:
        """Accepts requests even during overload, because a customer may be about to pay."""

    async def respond(self, sent: HttpRequest) -> HttpResponse:
        with deadline.limited(waited_seconds=sent.waited_seconds):
            response, headers = await self._router.respond(_web_request(sent))
        assert not isinstance(response, StreamedResponse)
        # The server adds the length of the body.
        own = [header for header in headers if header[0] != b"content-length"]
        return HttpResponse(response.status, response.body, direct.lines(harden_headers(own)))


def _web_request(sent: HttpRequest) -> WebRequest:
    scope = {
        "method": "GET" if sent.method == "HEAD" else sent.method,
        "path": sent.path,
        "headers": sent.all_headers,
        "query_string": sent.query,
        "client": (sent.peer, 0),
    }

    async def receive() -> Any:
        if sent.body is None:
            raise BodyTooLarge
        return {"type": "http.request", "body": sent.body}

    return WebRequest(scope, receive)
