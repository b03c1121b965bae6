"""Checks the link of a payment's pages, and renders errors."""

import contextlib
from typing import Any, Self

import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException

from manilla.checkout import address
from manilla.checkout.address import NO_STORE, Address
from manilla.checkout.rendering import Pages
from manilla.checkout.scenes import Scene, scene_of
from manilla.kit.errors import Refusal
from manilla.payments.checkout import Checkout
from manilla.payments.link import CheckoutLinks, LinkState
from manilla.payments.payment import PaymentStatus

log = structlog.get_logger(__name__)

ALTERED = "This link is not valid."
EXPIRED = "This link has expired."


class Gate:
    def __init__(self, checkout: Checkout, links: CheckoutLinks, pages: Pages) -> None:
        self._checkout = checkout
        self._links = links
        self._pages = pages

    def __deepcopy__(self, _memo: object) -> Self:
        """Litestar copies the objects that its routes hold; this one is shared."""
        return self

    async def check(self, request: Request[Any, Any, Any]) -> Response[Any] | None:
        """Returns a response to stop the request, or None to let it continue."""
        here = address.read(request)
        match self._links.check(here.trx_id, here.expires, here.signature):
            case LinkState.GOOD:
                return None
            case LinkState.EXPIRED:
                return await self._expired(request, here)
            case LinkState.ALTERED:
                return self._altered(request)

    @property
    def exception_handlers(self) -> dict[int | type[Exception], Any]:
        return {Refusal: self._refused, HTTPException: self._misused, Exception: self._failed}

    def _altered(self, request: Request[Any, Any, Any]) -> Response[Any]:
        return _json(403, ALTERED) if _wants_json(request) else self._pages.link_altered()

    async def _expired(self, request: Request[Any, Any, Any], here: Address) -> Response[Any]:
        """The link was once valid, so whoever has it may see the payment's outcome."""
        if _wants_json(request):
            return _json(410, EXPIRED)
        if request.url.path.endswith("/return"):
            # The customer may have paid in the last minute before the link expired.
            await look_again(self._checkout, here)
        view = await self._checkout.view(here.trx_id)
        is_decided = view.payment.status is not PaymentStatus.PENDING
        scene = Scene.LINK_EXPIRED
        if is_decided or view.held is not None:
            scene = scene_of(view)
        return self._pages.show(scene, view, here, 410)

    def _refused(self, request: Request[Any, Any, Any], refusal: Refusal) -> Response[Any]:
        if refusal.status == 404:
            return self._altered(request)
        if _wants_json(request):
            answer = _json(refusal.status, refusal.text, refusal.code)
        else:
            answer = self._pages.trouble(refusal.status, refusal.text, address.read(request))
        if refusal.retry_after_seconds is not None:
            answer.headers["Retry-After"] = str(refusal.retry_after_seconds)
        return answer

    def _misused(self, request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
        text = "Your browser sent an invalid request."
        return self._pages.trouble(error.status_code, text, address.read(request))

    def _failed(self, request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
        log.error("checkout_failed", path=request.url.path, exc_info=error)
        text = "Something went wrong on our side."
        if _wants_json(request):
            return _json(500, text, "SERVER_ERROR")
        return self._pages.trouble(500, text, address.read(request))


async def look_again(checkout: Checkout, here: Address) -> None:
    """Queries the provider now. If that fails, the page shows the known status and polls on."""
    with contextlib.suppress(Refusal):
        await checkout.look_again(here.trx_id)


def _wants_json(request: Request[Any, Any, Any]) -> bool:
    if request.url.path.endswith("/status"):
        return True
    return request.accept.best_match(["text/html", "application/json"]) == "application/json"


def _json(status: int, text: str, code: str = "EXPIRED_SESSION") -> Response[Any]:
    return Response({"error": text, "error_code": code}, status_code=status, headers=NO_STORE)
