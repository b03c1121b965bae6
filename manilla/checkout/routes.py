"""The checkout routes, the verification of a payment's link, and error responses."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import structlog
from litestar import Request, Response, Router, get, post
from litestar.datastructures import CacheControlHeader
from litestar.exceptions import HTTPException
from litestar.static_files import create_static_files_router

from manilla.checkout import handlers, payment_link, rendering
from manilla.checkout.page import CheckoutPage, page_of
from manilla.checkout.rendering import STATIC, STATIC_PATH
from manilla.checkout.request import NO_STORE, CheckoutRequest
from manilla.kit.errors import Refusal
from manilla.payments.link import LinkState
from manilla.payments.payment import PaymentStatus
from manilla.services import Services

log = structlog.get_logger(__name__)

ALTERED = "This link is not valid."
EXPIRED = "This link has expired."
FOR_EVER = CacheControlHeader(public=True, max_age=365 * 86_400, immutable=True)

Handler = Callable[[CheckoutRequest], Awaitable[Response[Any]]]

ROUTES: list[tuple[Literal["GET", "POST"], str, Handler]] = [
    ("GET", "/", handlers.show),
    ("GET", "/methods", handlers.show_methods),
    ("GET", "/pay", handlers.pay),
    ("GET", "/return", handlers.return_from_provider),
    ("GET", "/status", handlers.show_status),
    ("POST", "/choose", handlers.choose),
    ("POST", "/sent", handlers.report_sent),
    ("POST", "/cancel", handlers.cancel),
    ("POST", "/outcome", handlers.choose_outcome),
    ("GET", "/choose", handlers.redirect_to_start),
    ("GET", "/sent", handlers.redirect_to_start),
    ("GET", "/cancel", handlers.redirect_to_start),
    ("GET", "/outcome", handlers.redirect_to_start),
]


def build(services: Services) -> list[Router]:
    on_error = _error_handler(services)
    payment = Router(
        path="/checkout/{trx_id:str}",
        exception_handlers={HTTPException: on_error, Exception: on_error},
        route_handlers=[_route_handler(services, *route) for route in ROUTES],
    )
    static = create_static_files_router(
        STATIC_PATH, [STATIC], name="checkout static", cache_control=FOR_EVER
    )
    return [payment, payment_link.build(services), static]


def _route_handler(services: Services, method: str, path: str, handler: Handler) -> Any:
    async def handle(request: Request[Any, Any, Any]) -> Response[Any]:
        wrapped = CheckoutRequest(services, request)
        match wrapped.link_state:
            case LinkState.GOOD:
                return await handler(wrapped)
            case LinkState.EXPIRED:
                return await _link_expired(wrapped)
            case LinkState.ALTERED:
                return _link_altered(wrapped)

    decorate = get if method == "GET" else post
    return decorate(path, status_code=200)(handle)


def _link_altered(request: CheckoutRequest) -> Response[Any]:
    return _json(403, ALTERED) if request.wants_json else rendering.link_altered(request)


async def _link_expired(request: CheckoutRequest) -> Response[Any]:
    """Shows the payment's outcome.

    The link was valid before it expired, so this reveals nothing new.
    """
    if request.wants_json:
        return _json(410, EXPIRED)
    if request.http.url.path.endswith("/return"):
        # Query the provider, because the customer may have paid just before the link expired.
        await request.query_provider()
    view = await request.view()
    is_decided = view.payment.status is not PaymentStatus.PENDING
    has_result = is_decided or view.held is not None
    page = page_of(view) if has_result else CheckoutPage.LINK_EXPIRED
    return rendering.show_page(request, page, view, 410)


def _error_handler(services: Services) -> Any:
    def handle(http: Request[Any, Any, Any], error: Exception) -> Response[Any]:
        request = CheckoutRequest(services, http)
        match error:
            case Refusal():
                return _refused(request, error)
            case HTTPException():
                text = "Your browser sent an invalid request."
                return rendering.error_page(request, error.status_code, text)
        return _failed(request, error)

    return handle


def _refused(request: CheckoutRequest, refusal: Refusal) -> Response[Any]:
    if refusal.status == 404:
        return _link_altered(request)
    if request.wants_json:
        response = _json(refusal.status, refusal.text, refusal.code)
    else:
        response = rendering.error_page(request, refusal.status, refusal.text)
    if refusal.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(refusal.retry_after_seconds)
    return response


def _failed(request: CheckoutRequest, error: Exception) -> Response[Any]:
    log.error("checkout_failed", path=request.http.url.path, exc_info=error)
    text = "Something went wrong on our side."
    if request.wants_json:
        return _json(500, text, "SERVER_ERROR")
    return rendering.error_page(request, 500, text)


def _json(status: int, text: str, code: str = "EXPIRED_SESSION") -> Response[Any]:
    return Response({"error": text, "error_code": code}, status_code=status, headers=NO_STORE)
