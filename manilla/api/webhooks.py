"""Receives webhooks from providers: verifies the signature of the raw body and stores the webhook.

A worker processes stored webhooks later.
"""

from collections.abc import Mapping

import structlog

from manilla import metrics
from manilla.api import refusals
from manilla.api.kernel import FIXED_LINES
from manilla.api.refusals import MethodNotAllowed, NotFound, ServerError, ValidationFailed
from manilla.cells.client import FORWARDED, CellClient, CellUnreadable
from manilla.cells.directory import CellDirectory
from manilla.cells.registry import KnownCell
from manilla.kit import crash, deadline, ids, strict_json
from manilla.kit.changes import ChangeWatch
from manilla.kit.errors import Refusal
from manilla.kit.server import direct
from manilla.kit.server.direct import HttpRequest, HttpResponse
from manilla.providers.checks import references
from manilla.providers.inbox import WebhookInbox, merchant_of
from manilla.providers.port import Forged, Unreadable, WebhookEvent
from manilla.providers.rails import Rails

log = structlog.get_logger(__name__)

PREFIX = "/webhooks/"
RECEIVED = strict_json.encode({"status": "received"})


class WebhookNotSigned(Refusal):
    status, code = 401, "INVALID_SIGNATURE"
    message = "The signature is missing or does not match."


class WebhookNotForwarded(Refusal):
    """The provider sends the webhook again later."""

    status, code = 503, "SERVICE_UNAVAILABLE"
    message = "The webhook belongs to another cell, which is briefly unavailable."

    def __init__(self) -> None:
        super().__init__(retry_after_seconds=1)


class WebhookReceiver:
    """Responds to every request under /webhooks/."""

    read_headers = frozenset((b"content-length",))
    body_bytes_max = 256 * 1024

    def __init__(
        self,
        rails: Rails,
        watch: ChangeWatch,
        inbox: WebhookInbox,
        cells: CellDirectory,
        cell_client: CellClient,
    ) -> None:
        self._rails = rails
        self._watch = watch
        self._inbox = inbox
        self._cells = cells
        self._cell_client = cell_client

    def busy(self) -> None:
        """Accepts webhooks even during overload, because a provider may send each one only once."""

    async def respond(self, sent: HttpRequest) -> HttpResponse:
        status, body, lines = 200, RECEIVED, b""
        try:
            with deadline.limited(waited_seconds=sent.waited_seconds):
                await self._receive(sent)
        except Exception as error:
            status, body, lines = _refused(sent, error)
        request_id = b"x-request-id: %b\r\n" % ids.new_request_id().encode()
        return HttpResponse(status, body, FIXED_LINES + request_id + lines)

    async def _receive(self, sent: HttpRequest) -> None:
        provider, raw = sent.path.removeprefix(PREFIX), sent.body
        if provider not in self._rails.accounts:
            raise NotFound
        if sent.method != "POST":
            raise MethodNotAllowed("POST")
        if raw is None:
            raise ValidationFailed("The body is too large.")
        await self._watch.ensure_fresh()
        adapter = self._rails.adapter(provider)
        if adapter is None:
            raise WebhookNotSigned  # signatures cannot be verified without credentials
        headers = _headers(sent)
        match adapter.read_webhook(headers, raw):
            case Forged():
                metrics.webhooks.labels(provider, "forged").inc()
                log.warning("webhook_forged", provider=provider)
                raise WebhookNotSigned
            case Unreadable(reason):
                # The signature is valid, but the body does not match the provider's contract.
                # The response is 200, because the provider would send a rejected webhook again.
                metrics.webhooks.labels(provider, "unreadable").inc()
                log.warning("webhook_unreadable", provider=provider, reason=reason)
            case event if _is_of_check(self._rails, provider, event):
                # `manilla provider check` created this transaction with test money.
                metrics.webhooks.labels(provider, "check").inc()
                log.info("webhook_of_check", provider=provider, reference=event.reference)
            case event if _merchant_of(event) in self._cells.now.closed and (
                self._other_home(event) is None
            ):
                raise WebhookNotForwarded  # the merchant is being moved
            case event if (home := self._other_home(event)) is not None:
                await self._forward(home, provider, headers, raw)
            case event:
                await _store(self._inbox, provider, event, raw)
                crash.point("after_webhook_stored")

    def _other_home(self, event: WebhookEvent) -> KnownCell | None:
        """Returns the cell of the webhook's merchant, if the merchant lives in another cell."""
        home = self._cells.now.home_of(_merchant_of(event))
        return None if home is None or home.is_this else home

    async def _forward(
        self, home: KnownCell, provider: str, headers: Mapping[bytes, list[bytes]], raw: bytes
    ) -> None:
        """Forwards a webhook to the merchant's cell.

        If that cell is unavailable, the provider sends the webhook again. If that cell rejects the
        webhook, for example because it does not have the account, sending it again would not help.
        The cell learns the result from its own status queries.
        """
        if FORWARDED.encode() in headers:
            log.warning("webhook_misdirected", provider=provider, cell=home.name)
            raise WebhookNotForwarded
        try:
            status = await self._cell_client.forward_webhook(home, PREFIX + provider, headers, raw)
        except CellUnreadable as error:
            log.warning("webhook_not_forwarded", provider=provider, cell=home.name)
            raise WebhookNotForwarded from error
        if status >= 500:
            log.warning("webhook_not_forwarded", provider=provider, cell=home.name, status=status)
            raise WebhookNotForwarded
        outcome = "forwarded" if status == 200 else "rejected"
        metrics.webhooks.labels(provider, outcome).inc()
        if outcome == "rejected":
            log.warning("webhook_rejected", provider=provider, cell=home.name, status=status)


def _merchant_of(event: WebhookEvent) -> int:
    return merchant_of(event.account_reference or event.reference)


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


def _refused(sent: HttpRequest, error: Exception) -> tuple[int, bytes, bytes]:
    """Returns status, body and header lines.

    This is a function, because a variable of the caller that refers to the error would keep it, its
    traceback and the webhook's body until the garbage collector runs.
    """
    refusal = error if isinstance(error, Refusal) else ServerError()
    if refusal is not error:
        log.exception("webhook_failed", path=sent.path)
    return refusal.status, refusals.body(refusal), direct.lines(refusals.headers(refusal))


def _headers(sent: HttpRequest) -> Mapping[bytes, list[bytes]]:
    headers: dict[bytes, list[bytes]] = {}
    for name, value in sent.all_headers:
        headers.setdefault(name, []).append(value)
    return headers
