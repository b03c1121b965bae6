"""A payment link's page, on which a customer starts a payment, and the link's QR code.

Like checkout, the page uses no cookies, and anyone with the link can open it. Only submitting the
form creates a payment.
"""

from collections.abc import Mapping

import structlog

from manilla.cells.directory import MerchantMoves
from manilla.cells.fence_trigger import refused_when_fenced
from manilla.checkout import display
from manilla.checkout.language_choice import language_of
from manilla.checkout.receipts import NO_EMAIL
from manilla.checkout.rendering import respond
from manilla.checkout.request import redirect
from manilla.customers import account_store
from manilla.kit.errors import Refusal, translatable
from manilla.kit.http import BodyTooLarge
from manilla.kit.money import Money, symbol_of
from manilla.kit.texts import ONE_LINE, has_controls, is_email
from manilla.languages.language import ENGLISH, CustomerLanguage
from manilla.ledger.scope import Tenant
from manilla.payments import commission
from manilla.payments.payment_links import store
from manilla.payments.payment_links.link import PATH, LinkNotFound, PaymentLink
from manilla.payments.payment_links.paying import (
    CustomerInput,
    LinkClosed,
    LinkView,
    PaymentInProgress,
)
from manilla.services import Services
from manilla.web import csrf, qr_code
from manilla.web.form_body import read_form
from manilla.web.forms import BadForm, Form
from manilla.web.serving.request import WebRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import OnError, UrlHandler

log = structlog.get_logger(__name__)

URL = PATH + "/{link_id:str}"
INVALID = translatable("The request is not valid.")
FAILED = translatable("Something went wrong on our side.")
NAME_LENGTH_MAX = EMAIL_LENGTH_MAX = 100
NOT_AN_AMOUNT = translatable("Enter an amount such as 1500.50, without other characters.")
NAME_TOO_LONG = translatable("Enter at most 100 characters.")  # the length above
QR_HEADERS = {"Cache-Control": "public, max-age=86400"}


def build(services: Services) -> list[UrlHandler]:
    async def show(request: WebRequest) -> PageResponse:
        view = await services.link_payments.view(_id(request))
        services.cells.now.check_here(view.link.merchant_id)
        has_failed = request.query.get("status") == "failed"
        return await _page(services, request, view, has_failed=has_failed)

    async def pay(request: WebRequest) -> PageResponse:
        csrf.check_site(request.headers.get("sec-fetch-site"))
        with refused_when_fenced(MerchantMoves):
            return await _pay(services, request)

    async def send_code(request: WebRequest) -> PageResponse:
        return await _send_code(services, request)

    on_error = _error_handler(services)
    return [
        UrlHandler("GET", URL, show, on_error=on_error),
        UrlHandler("POST", URL, pay, on_error=on_error),
        UrlHandler("GET", URL + "/{file:str}", send_code, on_error=on_error),
    ]


def _id(request: WebRequest) -> str:
    return str(request.parameters["link_id"])


async def _pay(services: Services, request: WebRequest) -> PageResponse:
    payments, form = services.link_payments, await read_form(request)
    link = await store.find(services.db, _id(request))
    services.cells.now.check_here(link.merchant_id)
    try:
        given = _read_customer(form, link, language_of(request))
        address = request.address(services.trusted_proxies)
        url = await payments.start(link.id, given, address)
    except (LinkNotFound, LinkClosed):
        return await _page(services, request, await payments.view(link.id))
    except Refusal as refusal:
        return await _page(services, request, await payments.view(link.id), refusal, form)
    # Redirect to a relative URL: the content security policy forbids redirects to other hosts.
    return redirect(url.removeprefix(services.base_url))


def _read_customer(form: Form, link: PaymentLink, language: CustomerLanguage) -> CustomerInput:
    name, email = form.text("name", at_most=20_000), form.text("email", at_most=20_000)
    amount, problem = _read_amount(form, link, language)
    found = {
        "amount": problem,
        "name": _name_problem(name),
        "email": None if not email or _is_email(email) else NO_EMAIL,
    }
    errors = {field: text for field, text in found.items() if text}
    if errors:
        raise BadForm(errors=errors)
    return CustomerInput(amount=amount, name=name or None, email=email or None)


def _read_amount(
    form: Form, link: PaymentLink, language: CustomerLanguage
) -> tuple[Money | None, str | None]:
    """Returns the amount that the customer entered, or an error message if it is not valid."""
    if link.amount is not None:
        return None, None
    try:
        amount = form.money("amount", link.currency)
    except BadForm as refusal:
        # In other languages, one message replaces all explanations of wrong amounts.
        is_english = language is ENGLISH
        text = _errors(refusal).get("amount", refusal.text)
        return None, text if is_english else language.gettext(NOT_AN_AMOUNT)
    return amount, commission.amount_problem(amount)


def _name_problem(name: str) -> str | None:
    if len(name) > NAME_LENGTH_MAX:
        return NAME_TOO_LONG
    return ONE_LINE if has_controls(name) else None


def _is_email(text: str) -> bool:
    return len(text) <= EMAIL_LENGTH_MAX and is_email(text)


async def _send_code(services: Services, request: WebRequest) -> PageResponse:
    name, _, kind = str(request.parameters["file"]).partition(".")
    if name != "qr" or kind not in qr_code.MEDIA_TYPES:
        raise LinkNotFound
    link = await store.find(services.db, _id(request))
    return PageResponse(
        qr_code.draw(services.base_url + link.path, kind),
        media_type=qr_code.MEDIA_TYPES[kind],
        headers={
            **QR_HEADERS,
            "Content-Disposition": f'inline; filename="{link.id}.{kind}"',
        },
    )


async def _page(
    services: Services,
    request: WebRequest,
    view: LinkView,
    refusal: Refusal | None = None,
    form: Form | None = None,
    *,
    has_failed: bool = False,
) -> PageResponse:
    link, language = view.link, language_of(request)
    values = {
        "view": view,
        "link": link,
        "url": services.base_url + link.path,
        "merchant": display.name(view.merchant_name),
        "branding": view.branding,
        "title": display.name(link.title),
    }
    if not view.can_be_paid:
        return respond(services, request, "link_closed.html", 410, **values)
    accounts = []
    if link.customer_reference is not None:
        about = Tenant(link.merchant_id, link.environment), link.customer_reference, link.currency
        accounts = await account_store.shown_to_payers(services.db, *about)
    response = respond(
        services,
        request,
        "link.html",
        200 if refusal is None else refusal.status,
        symbol=symbol_of(link.currency),
        accounts=accounts,
        errors={name: language.gettext(text) for name, text in _errors(refusal).items()},
        alert=None if refusal is None or refusal.errors else _alert(language, refusal),
        open_payment=refusal.payment_url.removeprefix(services.base_url)
        if isinstance(refusal, PaymentInProgress)
        else None,
        given={} if form is None else dict(form.pairs()),
        has_failed=has_failed,
        **values,
    )
    return response.with_retry_after(refusal)


def _alert(language: CustomerLanguage, refusal: Refusal) -> str:
    if isinstance(refusal, PaymentInProgress):
        return language.gettext(refusal.message) % {"amount": language.money(refusal.amount)}
    return language.gettext(refusal.text)


def _errors(refusal: Refusal | None) -> Mapping[str, str]:
    return {} if refusal is None else refusal.errors or {}


def _error_handler(services: Services) -> OnError:
    def handle(request: WebRequest, error: Exception) -> PageResponse:
        if isinstance(error, LinkNotFound):
            return respond(services, request, "link_unknown.html", 404)
        if isinstance(error, Refusal):
            return _problem(services, request, error.status, error.text)
        if isinstance(error, BodyTooLarge):
            return _problem(services, request, 413, INVALID)
        log.error("payment_link_failed", path=request.path, exc_info=error)
        return _problem(services, request, 500, FAILED)

    return handle


def _problem(services: Services, request: WebRequest, status: int, text: str) -> PageResponse:
    shown = language_of(request).gettext(text)
    return respond(services, request, "error.html", status, text=shown, again=request.path)
