"""Merchants that create payouts and payments, and repeat each request until it is acknowledged."""

import asyncio
import bisect
import contextlib
import itertools
import json
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tests.faults.live_instance import checkout_of, trx_of
from tests.faults.payout_instance import PayoutInstance
from tests.ha.cluster import POLL_SECONDS, POLLS
from tests.payments import orders
from tests.payouts.payout_merchant import INITIATE
from tests.support import kinds
from tests.support.client import Reply
from tests.support.results import longest_gap, noting_stalls
from tests.support.timeouts import TIMEOUT_SECONDS

RAILS = kinds.SEEDED
CHECKOUT_RAIL = "a"
PAYOUT_CALLERS, PAYMENT_CALLERS = 6, 2
# Each caller waits this long after a success, so that a small machine is not overloaded.
PAUSE_SECONDS = 0.25
# Shorter than `Retry-After`, so that an interruption is measured to a tenth of a second.
RETRY_SECONDS = 0.1
FUNDS = "100000000"
QUIET = "undisturbed"
CHARGES_MAX = 5


class Acknowledged(msgspec.Struct, frozen=True):
    trx_id: str
    kind: str  # the disruption during which the response arrived


class Load:
    def __init__(self, running: PayoutInstance) -> None:
        self._running = running
        self._numbers = itertools.count(1)
        self._done = asyncio.Event()
        self.kind = QUIET
        # The keys of both are the merchant's references.
        self.payouts: dict[str, Acknowledged] = {}
        self.payments: dict[str, Acknowledged] = {}
        self.paid: list[str] = []  # the payments that the customers paid, by trx_id
        self.moments: list[float] = []  # the monotonic time of each acknowledged write
        self.unavailable: Counter[str] = Counter()  # 503 with Retry-After, by disruption
        self.broken: Counter[str] = Counter()  # connections without a response, by disruption
        self.wrong: list[tuple[str, str]] = []  # all other responses, with their disruption
        self.slowest: dict[str, float] = defaultdict(float)  # seconds until a response
        self.stalls: list[float] = []  # when this process noticed that it had been stopped

    @asynccontextmanager
    async def calling(self) -> AsyncIterator[None]:
        await self._fund()
        templates = [await self._running.order(rail) for rail in RAILS]
        callers = [
            *(self._pay_out(templates[number % len(RAILS)]) for number in range(PAYOUT_CALLERS)),
            *(self._take_payments() for _ in range(PAYMENT_CALLERS)),
        ]
        async with noting_stalls(self.stalls):
            tasks = [asyncio.create_task(caller) for caller in callers]
            try:
                yield
            finally:
                self._done.set()
                await asyncio.gather(*tasks)

    async def more(self, count: int) -> None:
        """Waits until this many more writes have been acknowledged."""
        wanted = len(self.moments) + count
        for _ in range(POLLS):
            if len(self.moments) >= wanted:
                return
            await asyncio.sleep(POLL_SECONDS)
        raise TimeoutError("no writes are acknowledged")

    def first_after(self, moment: float) -> float | None:
        """Returns the time of the first write that was acknowledged after this moment."""
        place = bisect.bisect_left(self.moments, moment)
        return self.moments[place] if place < len(self.moments) else None

    def longest_gap(self, start: float, end: float) -> float:
        """Returns the longest time without an acknowledged write between these moments."""
        return longest_gap(self.moments, start, end)

    async def _fund(self) -> None:
        merchant = str(self._running.merchant["id"])
        words = ("wallet", "fund", merchant, "NGN", FUNDS, "--environment", "production")
        self._running.instance.command(*words)
        for rail in RAILS:
            await self._running.control(f"{rail}/balance", {"available": FUNDS})

    async def _pay_out(self, template: dict[str, Any]) -> None:
        while not self._done.is_set():
            reference = f"HA-{next(self._numbers)}"
            reply = await self._repeat(INITIATE, {**template, "ref_trx": reference})
            if reply is not None:
                self.payouts[reference] = Acknowledged(reply.json["trx_id"], self.kind)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _take_payments(self) -> None:
        while not self._done.is_set():
            reference = f"HA-{next(self._numbers)}"
            reply = await self._repeat(orders.INITIATE, orders.order(ref_trx=reference))
            if reply is not None:
                checkout = checkout_of(reply)
                self.payments[reference] = Acknowledged(trx_of(checkout), self.kind)
                await self._pay(checkout)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _pay(self, checkout: str) -> None:
        """Pays at the provider, as the customer."""
        method = kinds.BY_RAIL[CHECKOUT_RAIL].checkout_method
        path, trx_id = f"{CHECKOUT_RAIL}/charges", trx_of(checkout)
        for _ in range(POLLS):
            # A redirect may also lead back to checkout, without a charge.
            if await self._until(303, lambda: self._running.send_choice(checkout, method)) is None:
                return
            # A choice whose response was lost may have created the first charge.
            for number in range(1, CHARGES_MAX + 1):
                reference = f"{trx_id}-{number}"
                if (await self._running.control(f"{path}?reference={reference}"))["charges"]:
                    self.paid.append(trx_id)
                    with contextlib.suppress(TimeoutError):
                        await self._running.control(f"{path}/{reference}/pay", {})
                    return
            await asyncio.sleep(RETRY_SECONDS)
        raise TimeoutError("the customer got no charge")

    async def _repeat(self, target: str, body: dict[str, Any]) -> Reply | None:
        """Repeats a signed request with the same Idempotency-Key until it succeeds."""
        raw, key = json.dumps(body).encode(), body["ref_trx"]
        call = self._running.call
        reply = await self._until(200, lambda: call("POST", target, raw, key))
        if reply is not None:
            self.moments.append(time.monotonic())
        return reply

    async def _until(self, status: int, send: Callable[[], Awaitable[Reply]]) -> Reply | None:
        """Repeats a request while the service is unavailable. Returns None for a wrong response."""
        while True:
            began = time.monotonic()
            try:
                reply = await send()
                self._note_duration(time.monotonic() - began)
            except (OSError, IndexError, TimeoutError):
                self.broken[self.kind] += 1
            else:
                if reply.status == status:
                    return reply
                if reply.status != 503 or "retry-after" not in reply.headers:
                    text = reply.body.decode(errors="replace")[:500]
                    self.wrong.append((self.kind, f"{reply.status} {text}"))
                    return None
                self.unavailable[self.kind] += 1
            await asyncio.sleep(RETRY_SECONDS)

    def _note_duration(self, seconds: float) -> None:
        # The product never takes this long, so the machine has stopped this program.
        if seconds < TIMEOUT_SECONDS / 2:
            self.slowest[self.kind] = max(self.slowest[self.kind], seconds)
