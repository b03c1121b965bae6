"""The customer's consent to save a card, and the page on which the customer withdraws it."""

from manilla.checkout import display, rendering
from manilla.checkout.request import CheckoutRequest
from manilla.languages.language import find as find_language
from manilla.payments.checkout import CheckoutView
from manilla.payments.fields import way_of
from manilla.payments.payment import Charge
from manilla.saved_ways import revoking, store
from manilla.saved_ways.saving import consent_text
from manilla.saved_ways.way import OPEN, EndedBy, SavedWay, WayEvent
from manilla.web.serving.response import PageResponse


async def choose(request: CheckoutRequest, chosen: str, seen: int) -> Charge:
    """Creates the customer's charge, and stores whether its card may be saved."""
    services = request.services
    charge = await services.checkout.choose(request.trx_id, chosen, seen)
    # The form names the language in which it showed the text of the consent. "1" is English.
    if shown_in := await request.field("offers_saving"):
        name = display.name((await request.view()).merchant_name)
        is_given = bool(await request.field("save"))
        text = consent_text(name, find_language(shown_in))
        await services.cards.set_consent(charge, text, is_given=is_given)
    return charge


async def show(request: CheckoutRequest) -> PageResponse:
    view = await request.view()
    way = await _find(request, view)
    if way is None:
        return request.redirect()
    merchant = display.name(view.merchant_name)
    values = {"way": way, "is_open": way.status in OPEN, "merchant": merchant}
    return rendering.show(request, "saved_way.html", view, **values)


async def revoke(request: CheckoutRequest) -> PageResponse:
    way = await _find(request, await request.view())
    if way is not None:
        key = way.merchant_id, way.id
        await revoking.end(request.services.db, *key, WayEvent.REVOKED, EndedBy.CUSTOMER)
    return request.redirect("way")


async def _find(request: CheckoutRequest, view: CheckoutView) -> SavedWay | None:
    saved = way_of(view.payment)
    if saved is None:
        return None
    return await store.way(request.services.db, view.payment.merchant_id, saved.id)
