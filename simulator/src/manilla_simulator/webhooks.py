"""Signs the exact bytes of webhooks, and sends them like a real provider or with faults."""

import asyncio
from collections import deque
from collections.abc import Coroutine, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import count
from typing import Any

import aiohttp
import msgspec

from manilla.kit import strict_json
from manilla_simulator.faults import Faults, WebhookMode
from manilla_simulator.settings import Account, SimulatorSettings
from manilla_simulator.state import now
from manilla_simulator.wire import Notice, Wire

JOURNAL_MAX = 1000
UNDER_WAY_MAX = 50_000
TIMEOUT_SECONDS = 10
FINISH_SECONDS = 1.0
REORDER_SECONDS = 1.0
FORGERS_KEY = "not-the-webhook-secret"


class Delivery(StrEnum):
    HELD = "held"
    SENDING = "sending"
    DELIVERED = "delivered"
    FAILED = "failed"
    LOST = "lost"


class Attempt(msgspec.Struct, frozen=True):
    at: datetime
    status: int | None
    error: str | None = None

    @property
    def succeeded(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class Webhook(msgspec.Struct, kw_only=True):
    number: int
    event: str
    reference: str
    url: str
    raw: bytes
    created_at: datetime
    forged: bool = False
    status: Delivery = Delivery.SENDING
    attempts: list[Attempt] = []


class Outbox:
    """One provider's webhooks: webhooks in delivery, webhooks on hold, and the latest results."""

    def __init__(
        self, wire: Wire, settings: SimulatorSettings, faults: Faults, account: Account
    ) -> None:
        self.faults = faults
        self.account = account
        self.session: aiohttp.ClientSession | None = None
        self.journal: deque[Webhook] = deque(maxlen=JOURNAL_MAX)
        self._wire = wire
        self._base_url = settings.webhook_base_url.rstrip("/")
        self._retry_seconds: Sequence[float] = settings.webhook_retry_seconds
        self._numbers = count(1)
        self._held: deque[Webhook] = deque(maxlen=UNDER_WAY_MAX)
        self._gathered: list[Webhook] = []
        self._under_way: set[asyncio.Task[None]] = set()
        self._posting: set[asyncio.Task[Attempt]] = set()

    @property
    def held(self) -> int:
        return len(self._held)

    @property
    def url(self) -> str:
        """Returns the configured webhook URL, or the default URL."""
        return self.account.webhook_url or f"{self._base_url}/webhooks/{self._wire.name}"

    def put_if_any(self, notice: Notice | None) -> None:
        if notice is not None:
            self.put(notice)

    def put(self, notice: Notice) -> Webhook:
        """Queues a webhook. The configured webhook faults determine its delivery."""
        plan = self.faults.webhooks
        webhook = Webhook(
            number=next(self._numbers),
            event=notice.event,
            reference=notice.reference,
            url=notice.url or self.url,
            raw=strict_json.encode(notice.body),
            created_at=now(),
            forged=plan.mode is WebhookMode.FORGE,
        )
        self.journal.append(webhook)
        if self.faults.outage or plan.mode is WebhookMode.HOLD:
            webhook.status = Delivery.HELD
            self._held.append(webhook)
        elif plan.mode is WebhookMode.LOST:
            webhook.status = Delivery.LOST
        elif plan.mode is WebhookMode.REORDER:
            self._gather(webhook, plan.delay_seconds or REORDER_SECONDS)
        else:
            copies = plan.copies if plan.mode is WebhookMode.DUPLICATE else 1
            for _ in range(copies):
                self._start(webhook, self._deliver(webhook, plan.delay_seconds))
        return webhook

    def release(self) -> int:
        released = list(self._held)
        self._held.clear()
        for webhook in released:
            webhook.status = Delivery.SENDING
            self._start(webhook, self._deliver(webhook, 0))
        return len(released)

    def forget(self) -> None:
        for task in self._under_way:
            task.cancel()
        self._held.clear()
        self._gathered.clear()
        self.journal.clear()

    async def finish_posting(self) -> None:
        """Waits for requests that `forget` did not cancel. Receivers may still be handling them."""
        if self._posting:
            _, unanswered = await asyncio.wait(self._posting, timeout=FINISH_SECONDS)
            for task in unanswered:
                task.cancel()

    async def close(self) -> None:
        self.forget()
        for task in self._posting:
            task.cancel()
        await asyncio.gather(*self._under_way, *self._posting, return_exceptions=True)

    def signature(self, raw: bytes, *, forged: bool = False) -> dict[str, str]:
        """Returns the HTTP headers that contain the webhook's signature."""
        key = FORGERS_KEY if forged else self._wire.webhook_secret(self.account)
        return {} if key is None else self._wire.sign(self.account, key, raw)

    def _gather(self, webhook: Webhook, seconds: float) -> None:
        self._gathered.append(webhook)
        if len(self._gathered) == 1:
            self._start(webhook, self._deliver_backwards(seconds))

    async def _deliver_backwards(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        gathered, self._gathered = self._gathered, []
        for webhook in reversed(gathered):
            if not await self._attempt(webhook):
                self._start(webhook, self._deliver(webhook, self._retry_seconds[0]))

    def _start(self, webhook: Webhook, delivering: Coroutine[Any, Any, None]) -> None:
        if len(self._under_way) >= UNDER_WAY_MAX:
            delivering.close()
            webhook.status = Delivery.LOST
            return
        task = asyncio.get_running_loop().create_task(delivering)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _deliver(self, webhook: Webhook, delay_seconds: float) -> None:
        # A forged webhook is sent only once, because providers retry only their own webhooks.
        pauses = () if webhook.forged else self._retry_seconds
        for pause in (delay_seconds, *pauses):
            if pause:
                await asyncio.sleep(pause)
            if await self._attempt(webhook):
                return
        if webhook.status is not Delivery.DELIVERED:
            webhook.status = Delivery.FAILED

    async def _attempt(self, webhook: Webhook) -> bool:
        posting = asyncio.get_running_loop().create_task(self._post(webhook))
        self._posting.add(posting)
        posting.add_done_callback(self._posting.discard)
        attempt = await asyncio.shield(posting)
        webhook.attempts.append(attempt)
        if attempt.succeeded:
            webhook.status = Delivery.DELIVERED
        return attempt.succeeded

    async def _post(self, webhook: Webhook) -> Attempt:
        assert self.session is not None
        headers = {
            "Content-Type": "application/json",
            **self.signature(webhook.raw, forged=webhook.forged),
        }
        try:
            async with self.session.post(
                webhook.url,
                data=webhook.raw,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS),
                allow_redirects=False,
            ) as answer:
                return Attempt(now(), answer.status)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            return Attempt(now(), None, type(error).__name__)
