"""Webhook endpoint pages: the list, one endpoint, its deliveries, tests and resending."""

from datetime import UTC, datetime, timedelta
from typing import Any

from manilla.api.fields import address_problem
from manilla.api.webhook_endpoints import events_problem
from manilla.dashboard.developers.credentials import OVERLAPS
from manilla.dashboard.webhooks import signature_check
from manilla.kit import strict_json
from manilla.kit.errors import Refusal
from manilla.notify.endpoints import changes, deliveries, store
from manilla.notify.endpoints.endpoint import (
    DESCRIPTION_LENGTH_MAX,
    ENDPOINTS_MAX,
    URL_LENGTH_MAX,
    EndpointNotFound,
    EndpointStatus,
    EndpointTerms,
    WebhookEndpoint,
)
from manilla.notify.events.kinds import PATTERNS
from manilla.web.forms import BadForm
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

LIST = "webhooks.html"
RESEND_DAYS = ((1, "day"), (3, "3 days"), (7, "7 days"), (30, "30 days"))


async def show(request: PageRequest) -> PageResponse:
    return request.page(LIST, **await _listed(request))


async def create(request: PageRequest) -> PageResponse:
    try:
        terms = _terms(request)
        await request.confirm_identity()
        new = await changes.create(request.db, request.services.keyring, request.tenant, terms)
    except Refusal as refusal:
        values = await _listed(request) | {"chosen": request.form.all("events")}
        return request.form_with_errors(LIST, refusal, **values)
    # Render a page instead of redirecting, because the secret is shown only once.
    return request.page("webhook_secret.html", endpoint=new.endpoint, secret=new.secret)


async def show_one(request: PageRequest) -> PageResponse:
    endpoint = await _mine(request)
    page = await deliveries.log(request.db, endpoint, after=request.query.text("after") or None)
    return request.page(
        "webhook.html",
        endpoint=endpoint,
        deliveries=page.rows,
        older=page.next,
        patterns=PATTERNS,
        chosen=endpoint.events,
        overlaps=OVERLAPS,
        days=RESEND_DAYS,
    )


async def change(request: PageRequest) -> PageResponse:
    endpoint = await _mine(request)
    try:
        terms = _terms(request)
        await request.confirm_identity()
        await changes.update(request.db, request.tenant, endpoint.id, terms)
    except Refusal as refusal:
        return request.redirect_with_errors(_path(endpoint), refusal, keep=("url", "description"))
    return request.redirect(_path(endpoint), done="Endpoint saved.")


async def set_status(request: PageRequest) -> PageResponse:
    endpoint = await _mine(request)
    status = request.form.choice("status", EndpointStatus)
    await changes.update(request.db, request.tenant, endpoint.id, EndpointTerms(status=status))
    done = f"The endpoint is {status}."
    if status is EndpointStatus.ENABLED:
        done += " You can now resend the events that it missed."
    return request.redirect(_path(endpoint), done=done)


async def delete(request: PageRequest) -> PageResponse:
    endpoint = await _mine(request)
    await changes.delete(request.db, request.tenant, endpoint.id)
    return request.redirect("~/webhooks", done="Endpoint deleted.")


async def rotate(request: PageRequest) -> PageResponse:
    endpoint = await _mine(request)
    minutes = request.form.integer("overlap_minutes")
    if minutes not in dict(OVERLAPS):
        raise BadForm(errors={"overlap_minutes": "Choose one of the options."})
    key = request.tenant, endpoint.id, minutes
    secret = await changes.rotate(request.db, request.services.keyring, *key)
    return request.page("webhook_secret.html", endpoint=endpoint, secret=secret)


async def test(request: PageRequest) -> PageResponse:
    endpoint = await _mine(request)
    event_id = await deliveries.send_test(request.db, endpoint)
    return request.redirect(f"{_path(endpoint)}/deliveries/{event_id}")


async def resend(request: PageRequest) -> PageResponse:
    endpoint = await _mine(request)
    days = min(max(request.form.integer("days"), 1), RESEND_DAYS[-1][0])
    since = datetime.now(UTC) - timedelta(days=days)
    try:
        await deliveries.resend_since(request.db, endpoint, since)
    except Refusal as refusal:
        return request.redirect_with_errors(_path(endpoint), refusal)
    done = "Sending the events that the endpoint has not received."
    return request.redirect(_path(endpoint), done=done)


async def show_delivery(request: PageRequest) -> PageResponse:
    endpoint = await _mine(request)
    try:
        found, attempts = await deliveries.find(
            request.db, endpoint, request.parameter("notification")
        )
    except deliveries.DeliveryNotFound:
        raise PageNotFound from None
    mark = f"{found.state}-{len(attempts)}"
    if (response := request.poll_response(mark)) is not None:
        return response
    return request.page(
        "webhook_delivery.html",
        endpoint=endpoint,
        delivery=found,
        attempts=attempts,
        mark=mark,
        signature_check=signature_check.of(found.notification_id, found.body, attempts),
    )


async def resend_one(request: PageRequest) -> PageResponse:
    endpoint, event_id = await _mine(request), request.parameter("notification")
    path = f"{_path(endpoint)}/deliveries/{event_id}"
    try:
        await deliveries.resend_one(request.db, endpoint, event_id)
    except deliveries.DeliveryNotFound:
        raise PageNotFound from None
    except Refusal as refusal:
        return request.redirect_with_errors(path, refusal)
    return request.redirect(path, done="The event is being sent again under the same id.")


async def _listed(request: PageRequest) -> dict[str, Any]:
    found = await store.page(request.db, request.tenant, None, ENDPOINTS_MAX)
    return {"endpoints": found.rows, "patterns": PATTERNS, "chosen": ["*"], "most": ENDPOINTS_MAX}


async def _mine(request: PageRequest) -> WebhookEndpoint:
    try:
        return await store.find(request.db, request.tenant, request.parameter("endpoint"))
    except EndpointNotFound:
        raise PageNotFound from None


def _path(endpoint: WebhookEndpoint) -> str:
    return f"~/webhooks/{endpoint.id}"


def _terms(request: PageRequest) -> EndpointTerms:
    """Parses the form of a webhook endpoint, and validates it by the API's rules."""
    form = request.form
    url, events = form.required("url", at_most=URL_LENGTH_MAX), form.all("events")
    problems = {"url": url_problem(request, url), "events": events_problem(events)}
    errors = {name: text for name, text in problems.items() if text}
    if errors:
        raise BadForm(errors=errors)
    description = form.text("description", at_most=DESCRIPTION_LENGTH_MAX)
    return EndpointTerms(url=url, events=events, description=description)


def url_problem(request: PageRequest, url: str) -> str | None:
    """Returns the error message for an endpoint's URL, or None if it is valid."""
    problem = address_problem(url, is_public_only=not request.services.is_development)
    if problem is None and not strict_json.is_storable(url):
        return "Expected a URL: https://… or http://…"
    return problem
