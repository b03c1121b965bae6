"""Request handlers for a customer who has the signed link of a payment."""

from collections.abc import Awaitable

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
from manilla.web.serving.response import PageResponse

# Values of `status` in the return URL with which providers report a canceled payment.
CANCELED_WORDS = frozenset(("canceled", "cancelled"))

SEEN_DIGITS_MAX = 4


async def show(request: CheckoutRequest) -> PageResponse:
    view = await request.view()
    return show_page(request, page_of(view), view)


async def show_methods(request: CheckoutRequest) -> PageResponse:
    """Shows all payment methods, even if the customer has already started to pay with one."""
    view = await request.view()
    if not can_choose(view):
        return request.redirect()
    alert = LEFT if "left" in request.http.query else None
    return show_page(request, CheckoutPage.METHODS, view, alert=alert)


async def choose(request: CheckoutRequest) -> PageResponse:
    chosen, seen = await request.field("method"), await request.field("seen")
    number = int(seen) if seen.isascii() and seen.isdigit() and len(seen) < SEEN_DIGITS_MAX else 0
    action = request.services.checkout.choose(request.trx_id, chosen, number)
    return await _after(request, action, "pay")


async def pay(request: CheckoutRequest) -> PageResponse:
    """Shows the provider's page, or the bank account that the customer must transfer to."""
    view = await request.view()
    page = page_of(view)
    if page in (CheckoutPage.PREPARING, CheckoutPage.TRANSFER):
        return show_page(request, page, view, is_sent="sent" in request.http.query)
    if is_unfinished(view):
        return redirect_to_provider(request, view)
    return request.redirect()


async def show_waiting(request: CheckoutRequest) -> PageResponse:
    """Shows a customer who returned from the provider that the result is not known yet."""
    view = await request.view()
    if not is_unfinished(view):
        return request.redirect()
    return show_page(request, CheckoutPage.WAITING, view)


async def show_sandbox_page(request: CheckoutRequest) -> PageResponse:
    """Shows the page that replaces a provider's page in the merchants' sandbox."""
    view = await request.view()
    if not (view.payment.is_sandbox and is_unfinished(view)):
        return request.redirect()
    return show_sandbox_provider(request, view)


async def return_from_provider(request: CheckoutRequest) -> PageResponse:
    """Handles the customer's return from the provider's page.

    The outcome is taken only from the provider's status, never from the return URL.
    """
    await request.query_provider()
    if not is_unfinished(await request.view()):
        return request.redirect()
    if request.http.query.get("status", "").lower() in CANCELED_WORDS:
        return request.redirect("methods", left="1")
    return request.redirect("waiting")


async def report_sent(request: CheckoutRequest) -> PageResponse:
    await request.query_provider()
    return request.redirect("pay", sent="1")


async def cancel(request: CheckoutRequest) -> PageResponse:
    return await _after(request, request.services.checkout.cancel(request.trx_id))


async def choose_outcome(request: CheckoutRequest) -> PageResponse:
    """Applies the outcome that the customer of a sandbox payment chose."""
    outcome = await request.field("outcome")
    if outcome not in set(SandboxOutcome):
        return request.redirect()
    outcome = SandboxOutcome(outcome)
    return await _after(request, request.services.checkout.pretend(request.trx_id, outcome))


async def show_status(request: CheckoutRequest) -> PageResponse:
    """Returns the version of the payment's state, which open pages poll."""
    view = await request.view()
    status = {"status": view.payment.status.value, "version": version_of(view)}
    return PageResponse.json(status, headers=NO_STORE)


async def redirect_to_start(request: CheckoutRequest) -> PageResponse:
    """Redirects to checkout when the customer reloads the URL that a form was posted to."""
    return request.redirect()


async def _after(
    request: CheckoutRequest, action: Awaitable[object], page: str = ""
) -> PageResponse:
    """Redirects to a page after the action.

    If the action is rejected, shows the page again with the reason, or the outcome if the payment's
    status has become final in the meantime.
    """
    try:
        await action
        return request.redirect(page)
    except Refusal as refusal:
        view = await request.view()
        if view.payment.status is not PaymentStatus.PENDING:
            return request.redirect()
        shown = CheckoutPage.METHODS if can_choose(view) else page_of(view)
        return show_page(request, shown, view, refusal.status, alert=refusal.text)
