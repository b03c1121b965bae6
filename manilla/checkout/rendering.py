"""Renders the checkout pages. Browsers must not cache them."""

import functools
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from manilla.cases.cases import CaseAction
from manilla.checkout import accent, display, language_choice, page
from manilla.checkout.page import CheckoutPage
from manilla.checkout.request import NO_STORE, CheckoutRequest
from manilla.kit.errors import translatable
from manilla.languages.language import ENGLISH, CustomerLanguage
from manilla.payments import sandbox_amounts
from manilla.payments.checkout import CheckoutView, SandboxOutcome
from manilla.payments.link import way_back
from manilla.payments.payment import PaymentStatus
from manilla.providers.port import Channel
from manilla.saved_ways.saving import consent_text
from manilla.services import Services
from manilla.web import static_files
from manilla.web.receipts.receipt import Receipt
from manilla.web.rendering import environment
from manilla.web.serving.policy import content_policy
from manilla.web.serving.request import WebRequest
from manilla.web.serving.response import PageResponse

FOLDER = Path(str(resources.files("manilla.checkout")))
STATIC = FOLDER / "static"
STATIC_PATH = "/static/checkout"

# The texts of the scripts, which pages in other languages contain.
SCRIPT_TEXTS = (
    translatable("{days} d {hours} h"),
    translatable("You seem to be offline. We will keep trying."),
    translatable("Copy"),
    translatable("Copied"),
    translatable("Not copied"),
    translatable("Your browser blocked the new window."),
    translatable("Continue in this window"),
)

# A longer description is collapsed, so that the amount and the merchant stay visible.
DESCRIPTION_SHOWN = 160


def show_page(
    request: CheckoutRequest,
    shown: CheckoutPage,
    view: CheckoutView,
    status: int = 200,
    *,
    alert: str | None = None,
    is_sent: bool = False,
) -> PageResponse:
    """Renders a checkout page. `alert` is the reason why the customer's last action failed.

    The page polls the payment's version, and reloads when the version changes. After the link has
    expired, the page does not poll.
    """
    is_final = status == 410 or view.payment.status is PaymentStatus.SUCCESS
    if shown is CheckoutPage.METHODS and alert is None:
        alert = page.alert_of(view)
    return _respond(
        request,
        f"{shown}.html",
        status,
        view,
        payment=view.payment,
        merchant=display.name(view.merchant_name),
        charge=view.charge,
        method=page.method_of(view),
        seconds=_seconds_until(_end(request, shown, view)),
        completes_in=_seconds_until(view.completes_at) if view.completes_at else None,
        back=way_back(view.payment),
        alert=alert and request.language.gettext(alert),
        consent=_consent(request, view),
        version_shown=None if is_final else page.version_of(view),
        is_sent=is_sent,
        is_left=alert == page.LEFT,
        is_unfinished=page.is_unfinished(view),
        can_mail=request.services.has_mail and not view.payment.is_sandbox and status != 410,
        is_mailed="mailed" in request.http.query,
    )


def show_receipt_page(
    request: CheckoutRequest, view: CheckoutView, receipt: Receipt
) -> PageResponse:
    return _respond(request, "receipt.html", 200, view, receipt=receipt)


def show(
    request: CheckoutRequest, template: str, view: CheckoutView, **values: Any
) -> PageResponse:
    return _respond(request, template, 200, view, **values)


def show_sandbox_provider(request: CheckoutRequest, view: CheckoutView) -> PageResponse:
    """Renders the sandbox page that replaces the provider's page."""
    assert view.charge is not None
    return _respond(
        request,
        "sandbox_provider.html",
        200,
        view,
        payment=view.payment,
        merchant=display.name(view.merchant_name),
        charge=view.charge,
        completes_in=_seconds_until(view.completes_at) if view.completes_at else None,
        version_shown=page.version_of(view),
    )


def redirect_to_provider(request: CheckoutRequest, view: CheckoutView) -> PageResponse:
    """Renders a page that opens the provider's page automatically, with a link as a fallback.

    A redirect is not possible, because the content security policy does not allow a form to
    redirect to another site.
    """
    method = page.method_of(view)
    return _respond(
        request,
        "redirect_to_provider.html",
        200,
        view,
        payment=view.payment,
        charge=view.charge,
        method=method,
    )


def link_altered(request: CheckoutRequest) -> PageResponse:
    """Renders the error page for an invalid link, without any payment data."""
    return _respond(request, "link_altered.html", 403, languages=language_choice.links([]))


def error_page(request: CheckoutRequest, status: int, text: str) -> PageResponse:
    """Renders an error page with a link that opens the payment again."""
    shown = request.language.gettext(text)
    return _respond(request, "error.html", status, text=shown, again=request.url())


def _respond(
    request: CheckoutRequest,
    template: str,
    status: int = 200,
    view: CheckoutView | None = None,
    **values: Any,
) -> PageResponse:
    """Renders a page of one payment. Pages of the merchant's allowed origins may frame it."""
    embeddable = view if view is not None and view.origins else None
    if view is not None:
        values |= {"view": view, "branding": view.branding, "embeddable": embeddable}
    response = respond(request.services, request.http, template, status, request=request, **values)
    if embeddable is not None:
        response.headers["content-security-policy"] = content_policy(shown_in=embeddable.origins)
    return response


def respond(
    services: Services, http: WebRequest, template: str, status: int = 200, **values: Any
) -> PageResponse:
    """Renders a page in the customer's language, and remembers a language that was just chosen."""
    text = (
        _templates(language_choice.language_of(http))
        .get_template(template)
        .render(
            gateway_name=display.name(services.platform.now.gateway_name),
            is_development=services.is_development,
            **{
                "languages": language_choice.links(http.query_pairs),
                "version_shown": None,
                "branding": None,
                "embeddable": None,
                **values,
            },
        )
    )
    response = PageResponse.html(text, status, headers=NO_STORE)
    return language_choice.remember(services, http, response)


@functools.cache
def _templates(language: CustomerLanguage) -> jinja2.Environment:
    templates = environment(FOLDER / "templates")
    language.install(templates)
    templates.filters.update(
        name=display.name,
        gateway=display.gateway,
        label=functools.partial(display.label, language),
    )
    templates.globals.update(
        static=STATIC_PATH,
        version=static_files.version(STATIC),
        # Texts for developers are in English on all pages.
        in_english="" if language is ENGLISH else Markup(' lang="en"'),
        script_texts={} if language is ENGLISH else _translated(language, SCRIPT_TEXTS),
        Channel=Channel,
        SandboxOutcome=SandboxOutcome,
        too_little=sandbox_amounts.too_little,
        too_much=sandbox_amounts.too_much,
        Action=CaseAction,
        shown=DESCRIPTION_SHOWN,
        accent_url=accent.url,
    )
    return templates


def _translated(language: CustomerLanguage, texts: Sequence[str]) -> dict[str, str]:
    return {text: language.gettext(text) for text in texts}


def _consent(request: CheckoutRequest, view: CheckoutView) -> str | None:
    """Returns what the customer can approve, or None if no card can be saved."""
    if not view.payment.saves_way:
        return None
    rails = request.services.rails
    adapters = (rails.adapter(offer.method.provider or "") for offer in view.offers)
    can_save = view.payment.is_sandbox or any(each and each.cards for each in adapters)
    name = display.name(view.merchant_name)
    return consent_text(name, request.language) if can_save else None


def _end(request: CheckoutRequest, shown: CheckoutPage, view: CheckoutView) -> datetime:
    """Returns the time at which the link or the virtual account expires, whichever is earlier."""
    account_ends = view.charge.account_expires_at if view.charge else None
    if shown is not CheckoutPage.TRANSFER or account_ends is None:
        return request.link_expires_at
    return min(request.link_expires_at, account_ends)


def _seconds_until(moment: datetime) -> int:
    """Returns the seconds until a time, rounded up, so that pages do not reload too early."""
    return max(0, math.ceil((moment - datetime.now(UTC)).total_seconds()))
