"""Sends a test notification, which is signed and delivered like a real notification."""

import secrets
import time
from typing import Any

from manilla.api.fields import address_problem
from manilla.audit import audit
from manilla.dashboard.developers.explorer import receiver_url
from manilla.kit import strict_json
from manilla.kit.environment import Environment
from manilla.ledger import trx_ids
from manilla.notify import outbox
from manilla.people import throttle
from manilla.people.throttle import TooManyAttempts
from manilla.reference.examples import NOTICES
from manilla.web.forms import BadForm
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

TEST = "test"  # the stored event of a test notification starts with this prefix
TEMPLATE = "notification_test.html"
URL_LENGTH_MAX = 2000
EXAMPLES = {
    f"{event}.{name}": NOTICES[event][name]
    for event in ("payment", "payout", "refund")
    for name in NOTICES[event]
}


async def show(request: PageRequest) -> PageResponse:
    return request.page(TEMPLATE, **await _form(request))


async def send(request: PageRequest) -> PageResponse:
    if request.environment is not Environment.SANDBOX:
        raise PageNotFound
    try:
        chosen, url = _chosen(request), _url(request)
        await throttle.take(request.db, throttle.sending_test_notifications(request.merchant_id))
    except (BadForm, TooManyAttempts) as refusal:
        return request.form_with_errors(TEMPLATE, refusal, **await _form(request))
    notification_id = await _enqueue(request, chosen, url)
    return request.redirect(f"~/notifications/{notification_id}")


async def _form(request: PageRequest) -> dict[str, Any]:
    return {
        "url": await receiver_url(request) or "",
        "events": [(name, body["message"]) for name, body in EXAMPLES.items()],
        "limit": throttle.TEST_NOTIFICATIONS_PER_MERCHANT,
        "minutes": int(throttle.WINDOW.total_seconds() // 60),
        "is_sandbox": request.environment is Environment.SANDBOX,
    }


def _chosen(request: PageRequest) -> str:
    chosen = request.form.text("event")
    if chosen not in EXAMPLES:
        raise BadForm(errors={"event": "Choose one of the options."})
    return chosen


def _url(request: PageRequest) -> str:
    """Returns the submitted URL, validated by the API's rules for `ipn_url`."""
    url = request.form.required("url", at_most=URL_LENGTH_MAX)
    problem = address_problem(url, is_public_only=not request.services.is_development)
    if problem is None and not strict_json.is_storable(url):
        problem = "Expected a URL: https://… or http://…"
    if problem is not None:
        raise BadForm(errors={"url": problem})
    return url


async def _enqueue(request: PageRequest, chosen: str, url: str) -> str:
    merchant = await request.caller()
    trx_id = trx_ids.new(request.merchant_id)
    payload = _payload(EXAMPLES[chosen], trx_id, url, merchant.name)
    async with request.db.transaction() as connection:
        notification_id = await outbox.enqueue(
            connection,
            merchant_id=request.merchant_id,
            environment=Environment.SANDBOX,
            trx_id=trx_id,
            url=url,
            payload=payload,
            event=f"{TEST}.{payload['event']}",
            type=None,
            status=payload["status"],
        )
        await audit.record(
            connection,
            "notification.test",
            f"notification:{notification_id}",
            merchant_id=request.merchant_id,
            event=chosen,
            url=url,
        )
    return notification_id


def _payload(example: Any, trx_id: str, url: str, merchant_name: str) -> dict[str, Any]:
    """Returns the body of a test notification, with the id of a nonexistent transaction."""
    data = {
        **example["data"],
        "trx_id": trx_id,
        "ref_trx": f"TEST-{secrets.token_hex(4).upper()}",
        "ipn_url": url,
        "environment": str(Environment.SANDBOX),
        "is_sandbox": True,
    }
    if "merchant_name" in data:
        data["merchant_name"] = merchant_name
    return {**example, "data": data, "timestamp": int(time.time())}
