"""Everything outside of Manilla, in one process: merchants' servers, customers and a provider.

It sends signed requests, pays on checkout, and is provider A. It receives notifications and events.
A transaction ends when its notification and its event have both been received.
"""

import asyncio
import itertools
import json
import re
import statistics
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
import uvloop

from bench.frame import Work
from bench.life import customer
from bench.life.connections import Connections, read
from bench.life.provider import Provider
from bench.signed import INITIATE, new_reference, payment_order, signed
from bench.workers.receiver import Receiver
from manilla.merchants.credentials import NewCredentials

WEBHOOK_CONNECTIONS = 64
STALL_SECONDS = 60  # without any delivery: the measurement has failed
PARTS = 2  # a notification to the `ipn_url`, and an event to the endpoint
PERCENTILE = 0.99

_TRX_ID = re.compile(rb'"trx_id": ?"([^"]+)"')
_COMPLETED = re.compile(rb'"status": ?"completed"')
_LINK = re.compile(rb'"payment_url": ?"[^"]+?(/checkout/[^"]+)"')


class Merchant(msgspec.Struct, frozen=True):
    id: int
    credentials: NewCredentials


class Order(msgspec.Struct, frozen=True):
    """A measurement: `number` transactions over `callers` connections, or `rate` per second."""

    kind: Literal["payout", "payment"]
    seconds: float
    port: int
    merchants: list[Merchant]
    method_id: int
    number: int
    callers: int = 32
    rate: float = 0
    repeats_allowed: bool = False  # for measurements of size, on a machine that may be busy


class World:
    def __init__(self) -> None:
        self._webhooks: Connections | None = None
        self._started: dict[str, float] = {}  # by transaction id
        self._parts: dict[str, set[bytes]] = {}  # the paths at which the transaction arrived
        self._durations: list[float] = []
        self._reported: dict[str, float] = {}  # when the provider reported the transaction's result
        self._waits: list[float] = []  # from the provider's report to the last delivery
        self._problems: list[str] = []  # each of them makes the measurement fail
        self._repeats_allowed = False
        self._last_delivery = 0.0
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, order: Order) -> Work:
        self._webhooks = Connections(order.port, WEBHOOK_CONNECTIONS)
        self._started, self._parts, self._durations = {}, {}, []
        self._reported, self._waits = {}, []
        self._problems, self._repeats_allowed = [], order.repeats_allowed
        api = Connections(order.port, order.callers)
        merchants = itertools.cycle(order.merchants)

        async def create() -> None:
            if order.kind == "payout":
                await self._create_payout(api, next(merchants), order.method_id)
            else:
                await self._create_payment(api, next(merchants))

        began = time.monotonic()
        await (_paced(create, order) if order.rate else _concurrent(create, order))
        created = time.monotonic() - began
        await self._all_delivered(order.number)
        seconds = self._last_delivery - began
        self._durations.sort()
        return Work(
            order.number,
            seconds,
            {
                "created a second": order.number / created,
                "median ms": statistics.median(self._durations) * 1000,
                "99 % ms": self._durations[int(len(self._durations) * PERCENTILE)] * 1000,
                "longest wait ms": max(self._waits) * 1000,
            },
        )

    async def _create_payout(self, api: Connections, merchant: Merchant, method_id: int) -> None:
        body = (
            f'{{"payout_amount":1000,"currency_code":"NGN","ref_trx":"{new_reference()}",'
            f'"ipn_url":"{self.url}/ipn","withdraw_method_id":{method_id},'
            '"beneficiary":{"bank_code":"058","account_number":"0123456789"},'
            '"description":"Two chairs and a table"}'
        ).encode()
        began = time.monotonic()
        response = await _post(api, merchant, "/api/v1/initiate-payout", body)
        self._start(read(_TRX_ID, response), began)

    async def _create_payment(self, api: Connections, merchant: Merchant) -> None:
        body, began = payment_order(new_reference(), f"{self.url}/ipn"), time.monotonic()
        link = read(_LINK, await _post(api, merchant, INITIATE, body))
        self._start(link.partition("?")[0].rpartition("/")[2], began)
        self.provider.pay(await customer.choose_method(api, link))

    def _start(self, trx_id: str, began: float) -> None:
        self._started[trx_id] = began
        self._settle(trx_id)

    async def _all_delivered(self, number: int) -> None:
        while len(self._durations) < number:
            await asyncio.sleep(0.02)
            latest = max(self._last_delivery, max(self._started.values(), default=0))
            if time.monotonic() - latest > STALL_SECONDS:
                raise RuntimeError(f"Only {len(self._durations)} of {number} were delivered.")
        if self._problems:
            raise RuntimeError(f"{len(self._problems)} problems: {self._problems[0]}")

    def answer(self, request: bytes) -> bytes:
        line = request[: request.find(b" HTTP/1.1\r\n")]
        if line.startswith((b"POST /ipn", b"POST /events")):
            return self._delivered(line, request)
        return self.provider.answer(line, request)

    def _send_webhook(self, reference: str, request: bytes) -> None:
        assert self._webhooks is not None
        self._reported[reference.partition("-")[0]] = time.monotonic()
        self._keep(self._check_webhook(self._webhooks.call(lambda: request)))

    async def _check_webhook(self, call: Awaitable[bytes]) -> None:
        response = await call
        if not response.startswith(b"HTTP/1.1 200"):
            self._problems.append(f"A webhook was answered {response[:2000]!r}.")

    def _delivered(self, line: bytes, request: bytes) -> bytes:
        trx_id = read(_TRX_ID, request)
        parts = self._parts.setdefault(trx_id, set())
        is_repeated = line in parts and not self._repeats_allowed
        if is_repeated or not _COMPLETED.search(request):
            self._problems.append(f"A delivery was repeated or reports no success: {request!r}")
        parts.add(line)
        self._settle(trx_id)
        return b'{"received":true}'

    def _settle(self, trx_id: str) -> None:
        """Ends a transaction whose parts have all arrived, which can be before its response."""
        if trx_id in self._started and len(self._parts.get(trx_id, ())) == PARTS:
            self._last_delivery = time.monotonic()
            self._durations.append(self._last_delivery - self._started.pop(trx_id))
            self._waits.append(self._last_delivery - self._reported.pop(trx_id))

    def _keep(self, work: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Receiver(self.answer), "127.0.0.1", 0)
        port: int = server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.provider = Provider(self.url, self._send_webhook)


async def _post(api: Connections, merchant: Merchant, path: str, body: bytes) -> bytes:
    return await api.call(
        lambda: signed(merchant.credentials, "POST", path, body, environment="production")
    )


async def _concurrent(create: Callable[[], Awaitable[None]], order: Order) -> None:
    left = deque(range(order.number))

    async def caller() -> None:
        while left:
            left.popleft()
            await create()

    await asyncio.gather(*(caller() for _ in range(order.callers)))


async def _paced(create: Callable[[], Awaitable[None]], order: Order) -> None:
    began, tasks = time.monotonic(), []
    for number in range(order.number):
        await asyncio.sleep(max(0, began + number / order.rate - time.monotonic()))
        tasks.append(asyncio.ensure_future(create()))
    await asyncio.gather(*tasks)


async def main() -> None:
    world = World()
    await world.serve()
    print(json.dumps({"url": world.url}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        work = await world.run(msgspec.json.decode(line, type=Order))
        print(msgspec.json.encode(work).decode(), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
