"""Payment link pages: the list with each link's revenue, one link, and the forms."""

from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from manilla.customers import store as customers
from manilla.customers.customer import CustomerNotFound
from manilla.kit.clock import LAGOS
from manilla.kit.display import money
from manilla.kit.errors import Refusal
from manilla.kit.fields import Fields
from manilla.kit.http import is_web_address
from manilla.kit.texts import LINE_ENDS, NO_CONTROLS, ONE_LINE, has_controls
from manilla.ledger.transactions import CurrencyNotEnabled
from manilla.payments import commission
from manilla.payments.payment_links import creation, store
from manilla.payments.payment_links.link import (
    LinkNotFound,
    LinkStatus,
    LinkTerms,
    LinkUsed,
    PaymentLink,
)
from manilla.payments.payment_links.store import LinkFilter, LinkTotals
from manilla.splits import planning
from manilla.splits import store as splits
from manilla.splits.rule import SplitInvalid
from manilla.web import lists
from manilla.web.forms import BadForm, Form
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

AT_FIELD = (
    (CurrencyNotEnabled, "currency"),
    (CustomerNotFound, "customer_reference"),
    (SplitInvalid, "split"),
)
SPLITS_SHOWN_MAX = 200
URL_LENGTH_MAX = 2000
MOMENT = "%Y-%m-%dT%H:%M"

COLUMNS = Fields(PaymentLink).select(
    "id title status currency amount single_use expires_at paid_count earned created_at"
)


async def show_all(request: PageRequest) -> PageResponse:
    wanted = lists.read_filter(request, LinkFilter, "status")
    return await lists.show(
        request,
        "payment_links.html",
        "payment-links",
        COLUMNS,
        partial(store.links, request.db, request.tenant, wanted),
        statuses=[(status, status.capitalize()) for status in LinkStatus],
        summary=_summary(await store.totals(request.db, request.tenant, wanted)),
    )


async def show_new(request: PageRequest) -> PageResponse:
    return request.page("payment_link_new.html", **await _options(request))


async def create(request: PageRequest) -> PageResponse:
    caller = await request.caller()
    try:
        terms = _read_terms(request.form, request.form.required("currency", at_most=3))
        if terms.customer_reference is not None:
            await customers.of_tenant(request.db, request.tenant, terms.customer_reference)
        rule_id = request.form.text("split", at_most=100)
        if rule_id:
            about = request.tenant, rule_id, terms.currency
            terms = replace(terms, split=await planning.check_given(request.db, *about))
        link = await creation.create(request.db, request.services.payments, caller, terms)
    except Refusal as refusal:
        options = await _options(request)
        return request.form_with_errors("payment_link_new.html", refusal, at=AT_FIELD, **options)
    return request.redirect(f"~/links/{link.id}", done="Payment link created. Share it now.")


async def show(request: PageRequest) -> PageResponse:
    link = await _find(request)
    url = request.services.base_url + link.path
    text = share_text(link, (await request.caller()).name, url)
    return request.page(
        "payment_link.html",
        link=link,
        split=None if link.split is None else await _split_name(request, link.split),
        url=url,
        share_text=text,
        whatsapp_url=f"https://wa.me/?text={quote(text)}",
    )


async def show_edit(request: PageRequest) -> PageResponse:
    link = await _find(request)
    if link.status is LinkStatus.USED:
        return request.redirect(f"~/links/{link.id}")
    return request.page("payment_link_edit.html", link=link, **_shown(link))


async def edit(request: PageRequest) -> PageResponse:
    link, caller = await _find(request), await request.caller()
    try:
        terms = _read_terms(request.form, link.currency)
        await creation.edit(request.db, request.services.payments, caller, link, terms)
    except Refusal as refusal:
        return request.form_with_errors(
            "payment_link_edit.html", refusal, at=AT_FIELD, link=link, **_shown(link)
        )
    return request.redirect(f"~/links/{link.id}", done="Payment link saved.")


def _shown(link: PaymentLink) -> dict[str, Any]:
    """Returns the payment link's amount and expiry time, as text for the form's fields."""
    ends = link.expires_at
    return {
        "amount": "" if link.amount is None else str(link.amount.amount),
        "expires_at": "" if ends is None else f"{ends.astimezone(LAGOS):{MOMENT}}",
    }


async def enable(request: PageRequest) -> PageResponse:
    link = await _find(request)
    try:
        await store.enable(request.db, request.tenant, link.id)
    except LinkUsed as refusal:
        return request.redirect_with_errors(f"~/links/{link.id}", refusal)
    return request.redirect(f"~/links/{link.id}", done="Payment link enabled.")


async def disable(request: PageRequest) -> PageResponse:
    link = await _find(request)
    await store.disable(request.db, request.tenant, link.id)
    return request.redirect(f"~/links/{link.id}", done="Payment link disabled.")


def share_text(link: PaymentLink, merchant_name: str, url: str) -> str:
    """Returns a text that the merchant can send to customers, with the link's URL."""
    amount = f" ({money(link.amount)})" if link.amount else ""
    return f"{link.title}{amount}. Pay {merchant_name} here: {url}"


async def _find(request: PageRequest) -> PaymentLink:
    try:
        return await store.find_own(request.db, request.tenant, request.parameter("link"))
    except LinkNotFound:
        raise PageNotFound from None


async def _options(request: PageRequest) -> dict[str, Any]:
    codes = sorted((await request.caller()).currencies, key=lambda code: (code != "NGN", code))
    rules = await splits.rules(request.db, request.tenant, None, SPLITS_SHOWN_MAX)
    names = [(rule.id, rule.name) for rule in rules.rows if rule.status == "active"]
    return {"currencies": [(code, code) for code in codes], "splits": names}


async def _split_name(request: PageRequest, split: str) -> str:
    rule_id = planning.given_id(split)
    rule = None if rule_id is None else await splits.rule(request.db, request.tenant, rule_id)
    return "A rule that was sent by API" if rule is None else rule.name


def _read_terms(form: Form, currency: str) -> LinkTerms:
    title = form.required("title", at_most=creation.TITLE_LENGTH_MAX)
    description = form.text("description", at_most=creation.DESCRIPTION_LENGTH_MAX)
    redirect = form.text("success_redirect", at_most=URL_LENGTH_MAX)
    amount = form.money("amount", currency) if form.text("amount") else None
    expires_at = _read_moment(form, "expires_at")
    found = {
        "title": ONE_LINE if has_controls(title) else None,
        "description": NO_CONTROLS if has_controls(description, allowed=LINE_ENDS) else None,
        "amount": None if amount is None else commission.amount_problem(amount),
        "expires_at": creation.expiry_problem(expires_at),
        "success_redirect": "Enter a URL that starts with https:// or http://."
        if redirect and not is_web_address(redirect)
        else None,
    }
    customer = form.text("customer_reference", at_most=60).strip() or None
    single_use = form.is_checked("single_use")
    if single_use and customer:
        found["customer_reference"] = creation.SINGLE_USE
    errors = {field: text for field, text in found.items() if text}
    if errors:
        raise BadForm(errors=errors)
    return LinkTerms(
        title=title,
        currency=currency,
        amount_minor=None if amount is None else amount.minor,
        description=description or None,
        expires_at=expires_at,
        single_use=single_use,
        success_redirect=redirect or None,
        customer_reference=customer,
    )


def _read_moment(form: Form, name: str) -> datetime | None:
    """Parses a Lagos time such as 2026-01-31T12:00. Returns None for an empty text."""
    given = form.text(name)
    if not given:
        return None
    try:
        return datetime.strptime(given, MOMENT).replace(tzinfo=LAGOS)
    except ValueError:
        raise BadForm(errors={name: "Enter a date and a time."}) from None


def _summary(totals: LinkTotals) -> str:
    links = f"{totals.links:,} payment {'link' if totals.links == 1 else 'links'}"
    payments = f"{totals.payments:,} {'payment' if totals.payments == 1 else 'payments'}"
    sums = " and ".join(money(each) for each in totals.earned)
    return f"{links}, {payments}" + (f", earned {sums}" if sums else "")
