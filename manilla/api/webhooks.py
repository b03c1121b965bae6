"""Provider webhooks: verified on the raw bytes and stored. The worker processes them later."""

from collections.abc import Mapping
from typing import Any

import structlog

from manilla import metrics
from manilla.api import refusals
from manilla.api.refusals import MethodNotAllowed, NotFound, ValidationFailed
from manilla.kit import crash, http, strict_json
from manilla.kit.db import Database
from manilla.kit.errors import Refusal
from manilla.platform.changes import ChangeWatch
from manilla.providers import inbox
from manilla.providers.port import Forged, Provider, Unreadable, WebhookEvent
from manilla.providers.rails import Rails

log = structlog.get_logger(__name__)

PREFIX = "/webhooks/"
BODY_BYTES_MAX = 256 * 1024


class NotSigned(Refusal):
    status, code = 401, "INVALID_SIGNATURE"
    message = "The signature is missing or does not match."


class Webhooks:
    """An ASGI application for everything under /webhooks/."""

    def __init__(self, db: Database, watch: ChangeWatch, rails: Rails) -> None:
        self._db = db
        self._watch = watch
        self._rails = rails

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        extra: list[tuple[bytes, bytes]] = []
        try:
            await self._take(scope, receive)
            status, body = 200, {"status": "received"}
        except http.ClientGone:
            return
        except Refusal as refusal:
            status, extra = refusal.status, refusals.headers(refusal)
            body = {"error": refusal.text, "error_code": refusal.code}
        except Exception:
            log.exception("webhook_failed", path=scope["path"])
            text = "Something went wrong on our side."
            status, body = 500, {"error": text, "error_code": "SERVER_ERROR"}
        content = strict_json.encode(body)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
            *extra,
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    async def _take(self, scope: Any, receive: Any) -> None:
        provider = _provider(scope["path"])
        if scope["method"] != "POST":
            raise MethodNotAllowed("POST")
        raw = await _read(receive)
        await self._watch.ensure_fresh()
        adapter = self._rails.adapter(provider)
        if adapter is None:
            raise NotSigned  # without credentials the signature cannot be verified
        match adapter.read_webhook(_headers(scope), raw):
            case Forged():
                metrics.webhooks.labels(provider, "forged").inc()
                log.warning("webhook_forged", provider=provider)
                raise NotSigned
            case Unreadable(reason):
                # The provider signed it, but it does not match the provider's contract. Accept it:
                # if we rejected it, the provider would only send it again.
                metrics.webhooks.labels(provider, "unreadable").inc()
                log.warning("webhook_unreadable", provider=provider, reason=reason)
            case event:
                await self._store(provider, event, raw)
                crash.point("after_webhook_stored")

    async def _store(self, provider: Provider, event: WebhookEvent, raw: bytes) -> None:
        stored = await inbox.store(self._db, provider, event, raw)
        if stored.is_ignored:
            outcome = "ignored"
            log.warning("webhook_ignored", provider=provider, reference=event.reference)
        else:
            outcome = "stored" if stored.deliveries == 1 else "repeated"
        metrics.webhooks.labels(provider, outcome).inc()


def _provider(path: str) -> Provider:
    try:
        return Provider(path.removeprefix(PREFIX))
    except ValueError:
        raise NotFound from None


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
