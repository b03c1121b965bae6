"""Serves the pages as one Litestar application, with a strict content security policy."""

from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import structlog
from litestar import Litestar, MediaType, Request, Response, get
from litestar.exceptions import HTTPException
from litestar.static_files import create_static_files_router

from manilla.kit import ids
from manilla.kit.server.draining import Drain
from manilla.pages import health, unsubscribe
from manilla.services import Services
from manilla.web import static_files
from manilla.web.rendering import environment

log = structlog.get_logger(__name__)

FOLDER = Path(str(resources.files("manilla.pages")))

# No inline scripts or styles, no third parties, no framing.
SECURITY_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": (
        "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), "
        "microphone=(), midi=(), payment=(), publickey-credentials-get=(), usb=()"
    ),
}

PATH_MAX = 200  # maximum length of a file's path

HttpRequest = Request[Any, Any, Any]

REFUSED = {
    404: ("NOT_FOUND", "This page does not exist."),
    405: ("METHOD_NOT_ALLOWED", "This URL does not support that method."),
    413: ("TOO_LARGE", "The request is too large."),
}


def build(
    services: Services,
    routers: Sequence[Any],
    *,
    drain: Drain | None = None,
    has_shop: bool = False,
) -> Any:
    """Builds the application. `routers` come from the other packages that have pages."""
    templates = environment(FOLDER / "templates")

    def render(template: str, **values: Any) -> str:
        site_name = services.platform.now.site_name
        return templates.get_template(template).render(site_name=site_name, **values)

    @get("/", media_type=MediaType.HTML)
    async def front_page() -> str:
        return render("front.html", is_development=services.is_development, has_shop=has_shop)

    site = Litestar(
        route_handlers=[
            front_page,
            health.healthz,
            health.readyz(services.db, drain or Drain()),
            health.metrics_page,
            create_static_files_router(path="/static", directories=[FOLDER / "static"]),
            static_files.handler(),
            *unsubscribe.handlers(services, render),
            *routers,
        ],
        exception_handlers=_exception_handlers(render),
        logging_config=None,
        openapi_config=None,
        request_max_body_size=64 * 1024,
    )
    return hardened(_reject_invalid_file_names(site))


def _exception_handlers(render: Callable[..., str]) -> dict[int | type[Exception], Any]:
    def respond(http: HttpRequest, status: int, code: str, text: str, **more: Any) -> Response[Any]:
        """Responds with a page if the client accepts HTML, otherwise with JSON."""
        if "text/html" not in http.headers.get("accept", ""):
            return Response({"error": text, "error_code": code}, status_code=status, **more)
        page = render("problem.html", status=status, text=text)
        return Response(page, status_code=status, media_type=MediaType.HTML, **more)

    def http_error(http: HttpRequest, error: HTTPException) -> Response[Any]:
        status = error.status_code
        code, text = REFUSED.get(status, ("REFUSED", error.detail))
        return respond(http, status, code, text, headers=error.headers)

    def server_error(http: HttpRequest, error: Exception) -> Response[Any]:
        log.error("page_failed", path=http.url.path, exc_info=error)
        return respond(http, 500, "SERVER_ERROR", "Something went wrong on our side.")

    return {HTTPException: http_error, Exception: server_error}


def _reject_invalid_file_names(asgi: Any) -> Any:
    """Responds 404 to file names that the file system would reject with an error."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        if path.startswith("/static/") and not (path.isprintable() and len(path) <= PATH_MAX):
            scope = {**scope, "path": "/static/none"}
        await asgi(scope, receive, send)

    return app


def hardened(asgi: Any) -> Any:
    """Adds the security headers and a request id to every response, including errors and files."""
    fixed = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def send_hardened(message: Any) -> None:
            if message["type"] == "http.response.start":
                request_id = (b"x-request-id", ids.new_request_id().encode())
                own = [*message.get("headers", ())]
                # A page can have a policy of its own.
                named = {name.lower() for name, _ in own}
                added = [each for each in fixed if each[0] not in named]
                message["headers"] = [*own, *added, request_id]
            await send(message)

        await asgi(scope, receive, send_hardened)

    return app
