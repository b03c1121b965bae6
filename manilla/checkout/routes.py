"""The checkout routes, which verify a payment's signed link and handle errors."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Literal

import structlog

from manilla.cells.directory import MerchantMoves
from manilla.cells.fence_trigger import refused_when_fenced
from manilla.checkout import accent, brand, handlers, payment_link, receipts, rendering, saved_way
from manilla.checkout.page import CheckoutPage, page_of
from manilla.checkout.rendering import STATIC, STATIC_PATH
from manilla.checkout.request import NO_STORE, CheckoutRequest, UnreadableForm
from manilla.kit.errors import Refusal, translatable
from manilla.kit.http import BodyTooLarge
from manilla.ledger import trx_ids
from manilla.payments.link import LinkState
from manilla.payments.payment import PaymentStatus
from manilla.services import Services
from manilla.web import static_files
from manilla.web.serving.request import WebRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import OnError, UrlHandler

log = structlog.get_logger(__name__)

ALTERED = "This link is not valid."
EXPIRED = "This link has expired."
INVALID = translatable("Your browser sent an invalid request.")
FAILED = translatable("Something went wrong on our side.")
FOR_EVER = {"Cache-Control": "max-age=31536000, public, immutable"}

Handler = Callable[[CheckoutRequest], Awaitable[PageResponse]]

PREFIX = "/checkout/"
ROOT = PREFIX + "{trx_id:str}"
ROUTES: list[tuple[Literal["GET", "POST"], str, Handler]] = [
    ("GET", "/", handlers.show),
    ("GET", "/methods", handlers.show_methods),
    ("GET", "/pay", handlers.pay),
    ("GET", "/waiting", handlers.show_waiting),
    ("GET", "/sandbox", handlers.show_sandbox_page),
    ("GET", "/return", handlers.return_from_provider),
    ("GET", "/status", handlers.show_status),
    ("GET", "/receipt", receipts.show),
    ("GET", "/receipt.pdf", receipts.send_pdf),
    ("POST", "/receipt", receipts.send_email),
    ("GET", "/way", saved_way.show),
    ("POST", "/way", saved_way.revoke),
    ("POST", "/choose", handlers.choose),
    ("POST", "/sent", handlers.report_sent),
    ("POST", "/cancel", handlers.cancel),
    ("POST", "/outcome", handlers.choose_outcome),
    ("GET", "/choose", handlers.redirect_to_start),
    ("GET", "/sent", handlers.redirect_to_start),
    ("GET", "/cancel", handlers.redirect_to_start),
    ("GET", "/outcome", handlers.redirect_to_start),
]


# Receipts stay available after the payment's link has expired. So does the page in each receipt on
# which customers revoke a saved way to pay.
LASTING: tuple[Handler, ...] = (
    *(receipts.show, receipts.send_pdf),
    *(saved_way.show, saved_way.revoke),
)


def build(services: Services) -> list[UrlHandler]:
    on_error = _error_handler(services)
    payment = [
        UrlHandler(method, ROOT + path, partial(_respond, services, handler), on_error=on_error)
        for method, path, handler in ROUTES
    ]
    static = [accent.handler(), brand.logo_handler(services)]
    static += static_files.folder_handlers(STATIC_PATH, STATIC, FOR_EVER)
    return [*payment, *payment_link.build(services), *static]


async def _respond(services: Services, handler: Handler, http: WebRequest) -> PageResponse:
    request = CheckoutRequest(services, http)
    services.cells.now.check_here(trx_ids.merchant_of(request.trx_id) or 0)
    with refused_when_fenced(MerchantMoves):
        return await _respond_here(request, handler)


async def _respond_here(request: CheckoutRequest, handler: Handler) -> PageResponse:
    match request.link_state:
        case LinkState.GOOD:
            return await handler(request)
        case LinkState.EXPIRED if handler not in LASTING:
            return await _link_expired(request)
        case LinkState.EXPIRED:
            return await handler(request)
        case LinkState.ALTERED:
            return _link_altered(request)


def _link_altered(request: CheckoutRequest) -> PageResponse:
    return _json(403, ALTERED) if request.wants_json else rendering.link_altered(request)


async def _link_expired(request: CheckoutRequest) -> PageResponse:
    """Shows the payment's result to a customer whose link has expired."""
    if request.wants_json:
        return _json(410, EXPIRED)
    if request.http.path.endswith("/return"):
        # Query the provider, because the customer may have paid just before the link expired.
        await request.query_provider()
    view = await request.view()
    is_decided = view.payment.status is not PaymentStatus.PENDING
    has_result = is_decided or view.held is not None
    page = page_of(view) if has_result else CheckoutPage.LINK_EXPIRED
    return rendering.show_page(request, page, view, 410)


def _error_handler(services: Services) -> OnError:
    def handle(http: WebRequest, error: Exception) -> PageResponse:
        request = CheckoutRequest(services, http)
        match error:
            case UnreadableForm():
                return rendering.error_page(request, error.status, INVALID)
            case Refusal():
                return _refused(request, error)
            case BodyTooLarge():
                return rendering.error_page(request, 413, INVALID)
        return _failed(request, error)

    return handle


def _refused(request: CheckoutRequest, refusal: Refusal) -> PageResponse:
    if refusal.status == 404:
        return _link_altered(request)
    if request.wants_json:
        response = _json(refusal.status, refusal.text, refusal.code)
    else:
        response = rendering.error_page(request, refusal.status, refusal.text)
    return response.with_retry_after(refusal)


def _failed(request: CheckoutRequest, error: Exception) -> PageResponse:
    log.error("checkout_failed", path=request.http.path, exc_info=error)
    if request.wants_json:
        return _json(500, FAILED, "SERVER_ERROR")
    return rendering.error_page(request, 500, FAILED)


def _json(status: int, text: str, code: str = "EXPIRED_SESSION") -> PageResponse:
    return PageResponse.json({"error": text, "error_code": code}, status, headers=NO_STORE)
