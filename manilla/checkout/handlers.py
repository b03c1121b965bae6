"""Request handlers of the checkout pages, which customers open with a signed link."""

import contextlib
from collections.abc import Awaitable

from manilla.checkout import saved_way
from manilla.checkout.page import (
    LEFT,
    CheckoutPage,
    can_choose,
    is_unfinished,
    page_of,
    version_of,
)
from manilla.checkout.rendering import redirect_to_provider, show_page, show_sandbox_provider
from manilla.checkout.request import NO_STORE, CheckoutRequest
from manilla.kit.errors import Refusal
from manilla.payments.checkout import SandboxOutcome
from manilla.payments.payment import PaymentStatus
from manilla.payments.states import HeldInProduction
from manilla.web.serving.response import PageResponse

# Providers add one of these values to the return URL if the customer canceled the payment.
CANCELED_WORDS = frozenset(("canceled", "cancelled"))

SEEN_DIGITS_MAX = 4


async def show(request: CheckoutRequest) -> PageResponse:
    view = await request.view()
    return show_page(request, page_of(view), view)


async def show_methods(request: CheckoutRequest) -> PageResponse:
    """Shows all payment methods, even if the customer has already started to pay."""
    view = await request.view()
    if not can_choose(view):
        return request.redirect()
    alert = LEFT if "left" in request.http.query else None
    return show_page(request, CheckoutPage.METHODS, view, alert=alert)


async def choose(request: CheckoutRequest) -> PageResponse:
    chosen, seen = await request.field("method"), await request.field("seen")
    number = int(seen) if seen.isascii() and seen.isdigit() and len(seen) < SEEN_DIGITS_MAX else 0
    action = saved_way.choose(request, chosen, number)
    # The mark tells the page that it is in a window which checkout in a frame has opened.
    mark = {"window": "1"} if await request.field("window") else {}
    return await _after(request, action, "pay", **mark)


async def pay(request: CheckoutRequest) -> PageResponse:
    """Redirects to the provider's page, or shows the bank account for the transfer."""
    view = await request.view()
    page = page_of(view)
    if page in (CheckoutPage.PREPARING, CheckoutPage.TRANSFER):
        return show_page(request, page, view, is_sent="sent" in request.http.query)
    if is_unfinished(view):
        return redirect_to_provider(request, view)
    return request.redirect()


async def show_waiting(request: CheckoutRequest) -> PageResponse:
    """Asks a customer who has returned from the provider to wait for the payment's result."""
    view = await request.view()
    if not is_unfinished(view):
        return request.redirect()
    return show_page(request, CheckoutPage.WAITING, view)


async def show_sandbox_page(request: CheckoutRequest) -> PageResponse:
    """Shows the sandbox page that replaces the provider's page."""
    view = await request.view()
    if not (view.payment.is_sandbox and is_unfinished(view)):
        return request.redirect()
    return show_sandbox_provider(request, view)


async def return_from_provider(request: CheckoutRequest) -> PageResponse:
    """Handles the customer's return from the provider's page.

    The result comes only from a status query, because customers can change the return URL.
    """
    await request.query_provider()
    if not is_unfinished(await request.view()):
        return request.redirect()
    if request.http.query.get("status", "").lower() in CANCELED_WORDS:
        return request.redirect("methods", left="1")
    return request.redirect("waiting")


async def report_sent(request: CheckoutRequest) -> PageResponse:
    with contextlib.suppress(Refusal):
        await request.services.checkout.report_sent(request.trx_id)
    await request.query_provider()
    return request.redirect("pay", sent="1")


async def cancel(request: CheckoutRequest) -> PageResponse:
    return await _after(request, request.services.checkout.cancel(request.trx_id))


async def choose_outcome(request: CheckoutRequest) -> PageResponse:
    """Applies the result that the user chose for a sandbox payment."""
    outcome = await request.field("outcome")
    if outcome not in set(SandboxOutcome):
        return request.redirect()
    outcome = SandboxOutcome(outcome)
    return await _after(request, request.services.checkout.pretend(request.trx_id, outcome))


async def show_status(request: CheckoutRequest) -> PageResponse:
    """Returns the payment's status and its page's version. Open pages poll this endpoint."""
    view = await request.view()
    status = {"status": view.payment.status.value, "version": version_of(view)}
    return PageResponse.json(status, headers=NO_STORE)


async def redirect_to_start(request: CheckoutRequest) -> PageResponse:
    """Redirects to checkout if the customer reloads the URL to which a form was submitted."""
    return request.redirect()


async def _after(
    request: CheckoutRequest, action: Awaitable[object], page: str = "", **query: str
) -> PageResponse:
    """Awaits the action, then redirects to the page.

    If the action is rejected, shows the page again with the error, or redirects to the payment's
    result if the payment's status is final.
    """
    try:
        await action
        return request.redirect(page, **query)
    except Refusal as refusal:
        view = await request.view()
        if view.payment.status is not PaymentStatus.PENDING:
            return request.redirect()
        stays = isinstance(refusal, HeldInProduction) or not can_choose(view)
        shown = page_of(view) if stays else CheckoutPage.METHODS
        response = show_page(request, shown, view, refusal.status, alert=refusal.text)
        return response.with_retry_after(refusal)
