"""Receives webhooks from providers: verifies the signature of the raw body and stores the webhook.

A worker processes stored webhooks later.
"""

from collections.abc import Mapping
from typing import Any

import structlog

from manilla import metrics
from manilla.api import refusals
from manilla.api.refusals import MethodNotAllowed, NotFound, ServerError, ValidationFailed
from manilla.kit import crash, http, strict_json
from manilla.kit.errors import Refusal
from manilla.providers.checks import references
from manilla.providers.inbox import WebhookInbox
from manilla.providers.port import Forged, Unreadable, WebhookEvent
from manilla.providers.rails import Rails
from manilla.services import Services

log = structlog.get_logger(__name__)

PREFIX = "/webhooks/"
BODY_BYTES_MAX = 256 * 1024
RECEIVED = strict_json.encode({"status": "received"})


class WebhookNotSigned(Refusal):
    status, code = 401, "INVALID_SIGNATURE"
    message = "The signature is missing or does not match."


def build(services: Services) -> Any:
    """Builds the ASGI application that handles every path under /webhooks/."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await _receive(services, scope, receive)
        except http.ClientGone:
            return
        except Exception as error:
            refusal = error if isinstance(error, Refusal) else ServerError()
            if refusal is not error:
                log.exception("webhook_failed", path=scope["path"])
            headers = refusals.headers(refusal)
            await http.respond(send, refusal.status, refusals.body(refusal), headers)
        else:
            await http.respond(send, 200, RECEIVED)

    return app


async def _receive(services: Services, scope: Any, receive: Any) -> None:
    provider = _provider(services.rails, scope["path"])
    if scope["method"] != "POST":
        raise MethodNotAllowed("POST")
    raw = await _read(receive)
    await services.watch.ensure_fresh()
    adapter = services.rails.adapter(provider)
    if adapter is None:
        raise WebhookNotSigned  # the signature cannot be verified without credentials
    match adapter.read_webhook(_headers(scope), raw):
        case Forged():
            metrics.webhooks.labels(provider, "forged").inc()
            log.warning("webhook_forged", provider=provider)
            raise WebhookNotSigned
        case Unreadable(reason):
            # The signature is valid, but the body does not match the provider's contract. Accept
            # the webhook, because the provider would send a rejected webhook again.
            metrics.webhooks.labels(provider, "unreadable").inc()
            log.warning("webhook_unreadable", provider=provider, reason=reason)
        case event if _is_of_check(services.rails, provider, event):
            # No merchant's transaction: `manilla provider check` created it with test money.
            metrics.webhooks.labels(provider, "check").inc()
            log.info("webhook_of_check", provider=provider, reference=event.reference)
        case event:
            await _store(services.inbox, provider, event, raw)
            crash.point("after_webhook_stored")


def _is_of_check(rails: Rails, provider: str, event: WebhookEvent) -> bool:
    has_only_test_money = rails.credentials(provider).has_only_test_money
    return has_only_test_money and references.is_of_check(event.reference)


async def _store(inbox: WebhookInbox, provider: str, event: WebhookEvent, raw: bytes) -> None:
    stored = await inbox.store(provider, event, raw)
    if stored.is_ignored:
        outcome = "ignored"
        log.warning("webhook_ignored", provider=provider, reference=event.reference)
    else:
        outcome = "stored" if stored.deliveries == 1 else "repeated"
    metrics.webhooks.labels(provider, outcome).inc()


def _provider(rails: Rails, path: str) -> str:
    provider = path.removeprefix(PREFIX)
    if provider not in rails.accounts:
        raise NotFound
    return provider


async def _read(receive: Any) -> bytes:
    try:
        return await http.read_body(receive, BODY_BYTES_MAX)
    except http.BodyTooLarge:
        raise ValidationFailed("The body is too large.") from None


def _headers(scope: Any) -> Mapping[bytes, list[bytes]]:
    headers: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name, []).append(value)
    return headers
