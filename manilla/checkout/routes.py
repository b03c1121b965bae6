"""Routes of checkout: what a customer can do with a signed link."""

from typing import Any, Self

from litestar import Request, Response, Router, get, post
from litestar.datastructures import CacheControlHeader
from litestar.static_files import create_static_files_router

from manilla.checkout import address
from manilla.checkout.address import NO_STORE, Address
from manilla.checkout.gate import Gate, look_again
from manilla.checkout.rendering import STATIC, STATIC_PATH, Pages
from manilla.checkout.scenes import LEFT, Scene, can_choose, is_hosted, scene_of, version_of
from manilla.kit.errors import Refusal
from manilla.payments.checkout import Checkout, SandboxOutcome
from manilla.payments.payment import PaymentStatus
from manilla.services import Services

Asked = Request[Any, Any, Any]
Answer = Response[Any]

# Values of `status` in the return URL by which providers report a canceled payment.
CANCELED_WORDS = frozenset(("canceled", "cancelled"))

FOR_EVER = CacheControlHeader(public=True, max_age=365 * 86_400, immutable=True)


def build(services: Services) -> list[Router]:
    pages = Pages(services.platform, is_development=services.is_development)
    gate = Gate(services.checkout, services.links, pages)
    counter = Counter(services.checkout, pages)
    payment = Router(
        path="/checkout/{trx_id:str}",
        before_request=gate.check,
        exception_handlers=gate.exception_handlers,
        route_handlers=[
            get("/")(counter.show),
            get("/methods")(counter.methods),
            get("/pay")(counter.pay),
            get("/return")(counter.come_back),
            get("/status")(counter.status),
            post("/choose")(counter.choose),
            post("/sent")(counter.sent),
            post("/cancel")(counter.cancel),
            post("/outcome")(counter.outcome),
            get(["/choose", "/sent", "/cancel", "/outcome"])(counter.go_home),
        ],
    )
    static = create_static_files_router(
        STATIC_PATH, [STATIC], name="checkout static", cache_control=FOR_EVER
    )
    return [payment, static]


class Counter:
    """Handles the requests of a payment's pages."""

    def __init__(self, checkout: Checkout, pages: Pages) -> None:
        self._checkout = checkout
        self._pages = pages

    def __deepcopy__(self, _memo: object) -> Self:
        """Litestar copies the objects that its routes hold; this one is shared."""
        return self

    async def show(self, request: Asked) -> Answer:
        here = address.read(request)
        view = await self._checkout.view(here.trx_id)
        return self._pages.show(scene_of(view), view, here)

    async def methods(self, request: Asked) -> Answer:
        """All payment methods, even if the customer has already started to pay with one."""
        here = address.read(request)
        view = await self._checkout.view(here.trx_id)
        if not can_choose(view):
            return here.redirect()
        alert = LEFT if "left" in request.query_params else None
        return self._pages.show(Scene.METHODS, view, here, alert=alert)

    async def choose(self, request: Asked) -> Answer:
        here = address.read(request)
        code = await _field(request, "method")
        try:
            await self._checkout.choose(here.trx_id, code)
        except Refusal as refusal:
            return await self._refuse(here, refusal)
        return here.redirect("pay")

    async def pay(self, request: Asked) -> Answer:
        """Shows the provider's page or the account to transfer to."""
        here = address.read(request)
        view = await self._checkout.view(here.trx_id)
        scene = scene_of(view)
        if scene in (Scene.PREPARING, Scene.TRANSFER):
            return self._pages.show(scene, view, here, is_sent="sent" in request.query_params)
        if scene is Scene.WAITING and is_hosted(view):
            return self._pages.hand_over(view)
        return here.redirect()

    async def come_back(self, request: Asked) -> Answer:
        """The customer returns from the provider's page. Only the provider's status decides."""
        here = address.read(request)
        await look_again(self._checkout, here)
        if request.query_params.get("status", "").lower() not in CANCELED_WORDS:
            return here.redirect()
        view = await self._checkout.view(here.trx_id)
        has_left = scene_of(view) is Scene.WAITING and can_choose(view)
        return here.redirect("methods", left="1") if has_left else here.redirect()

    async def sent(self, request: Asked) -> Answer:
        here = address.read(request)
        await look_again(self._checkout, here)
        return here.redirect("pay", sent="1")

    async def cancel(self, request: Asked) -> Answer:
        here = address.read(request)
        try:
            await self._checkout.cancel(here.trx_id)
        except Refusal as refusal:
            return await self._refuse(here, refusal)
        return here.redirect()

    async def outcome(self, request: Asked) -> Answer:
        """The outcome that a sandbox customer chose."""
        here = address.read(request)
        wanted = await _field(request, "outcome")
        if wanted not in set(SandboxOutcome):
            return here.redirect()
        try:
            await self._checkout.pretend(here.trx_id, SandboxOutcome(wanted))
        except Refusal as refusal:
            return await self._refuse(here, refusal)
        return here.redirect()

    async def status(self, request: Asked) -> Answer:
        """Polled by pages to find out whether they show the current state."""
        view = await self._checkout.view(address.read(request).trx_id)
        shown = {"status": view.payment.status.value, "version": version_of(view)}
        return Response(shown, headers=NO_STORE)

    async def go_home(self, request: Asked) -> Answer:
        """A reload of the page that a form was submitted to."""
        return address.read(request).redirect()

    async def _refuse(self, here: Address, refusal: Refusal) -> Answer:
        """Shows the page again with the reason, or the payment's outcome if it was decided
        meanwhile.
        """
        view = await self._checkout.view(here.trx_id)
        if view.payment.status is not PaymentStatus.PENDING:
            return here.redirect()
        scene = Scene.METHODS if can_choose(view) else scene_of(view)
        return self._pages.show(scene, view, here, refusal.status, alert=refusal.text)


async def _field(request: Asked, name: str) -> str:
    return str((await request.form()).get(name, ""))
