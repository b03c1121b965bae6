"""Generates HTTP load on a schedule: each request is sent on time, regardless of the responses.

Callers that wait for their response slow down together with the measured program. A schedule does
not, so it shows how long requests take at a given rate, and how the program handles overload.
"""

import asyncio
import contextlib
import itertools
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import uvloop

from bench.load import GRACE_SECONDS, is_whole

TICK_SECONDS = 0.001
CONNECTING, CONNECT_SECONDS = 100, 0.05
OK, REFUSED, LOST = 200, 503, 0


class Answer(msgspec.Struct, frozen=True):
    due: float  # when the request was due, in seconds after the start
    seconds: float  # seconds from the due time to the complete response
    status: int  # LOST if there was no response
    has_retry_after: bool = False
    unsent_seconds: float = (
        0.0  # seconds that the request waited for a connection or for the load generator's CPU
    )


class Offered(msgspec.Struct, frozen=True):
    """The requests of one schedule and their responses."""

    number: int  # number of requests, including those that were not sent or got no response
    seconds: float
    answers: Sequence[Answer]

    @property
    def served(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.status == OK]

    @property
    def refused(self) -> list[Answer]:
        """Returns the responses with status 503 and a Retry-After header."""
        return [each for each in self.answers if each.status == REFUSED and each.has_retry_after]


def percentile_ms(seconds: Iterable[float], percent: float) -> float:
    """Returns the percentile of the times in milliseconds, or 0 if there are no times."""
    times = sorted(seconds)
    return times[min(len(times) - 1, int(len(times) * percent / 100))] * 1000 if times else 0.0


def times(answers: Sequence[Answer]) -> list[float]:
    return [answer.seconds for answer in answers]


async def offer(
    port: int, requests: Iterator[bytes], rate: float, seconds: float, connections: int
) -> Offered:
    """Sends `rate` requests per second. Runs in a thread with a faster event loop."""
    signed = iter(list(itertools.islice(requests, int(rate * seconds))))

    def run() -> Offered:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_Schedule(port, signed, rate, seconds).run(connections))

    return await asyncio.to_thread(run)


class _Schedule:
    def __init__(self, port: int, requests: Iterator[bytes], rate: float, seconds: float) -> None:
        self._port = port
        self._requests = requests
        self._rate = rate
        self._seconds = seconds
        self._began = 0.0
        # Due times of the requests that wait for a connection.
        self._waiting: deque[float] = deque()
        self._free: list[_Connection] = []
        self._busy = 0
        self._is_over = False
        self._last: asyncio.Event | None = None  # set when the last response has arrived
        self._answers: list[Answer] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, connections: int) -> Offered:
        for _ in range(0, connections, CONNECTING):
            # If the server's accept queue overflows, the kernel drops connections that the client
            # believes to be open, and their first requests wait for a retransmission.
            await asyncio.gather(*(self._connect() for _ in range(CONNECTING)))
            await asyncio.sleep(CONNECT_SECONDS)
        self._began = time.monotonic()
        number, total = 0, int(self._rate * self._seconds)
        while number < total:
            while number < total and number / self._rate <= self._now():
                self._waiting.append(number / self._rate)
                number += 1
            self.send_waiting()
            await asyncio.sleep(TICK_SECONDS)
        self._waiting.clear()
        await self._last_answers()
        return Offered(total, self._seconds, self._answers)

    def send_waiting(self) -> None:
        while self._waiting and self._free:
            self._busy += 1
            self._free.pop().send(next(self._requests), self._waiting.popleft())

    def answered(self, connection: "_Connection", due: float, status: int, retry: bool) -> None:
        self._busy -= 1
        unsent_seconds = connection.sent_at - self._began - due
        self._answers.append(Answer(due, self._now() - due, status, retry, unsent_seconds))
        if status != LOST:
            self._free.append(connection)
        self.send_waiting()
        if self._last is not None and not self._busy:
            self._last.set()

    def lost(self, connection: "_Connection", due: float | None) -> None:
        """Opens a new connection to replace one that the server has closed."""
        if self._is_over:
            return
        if due is None:
            self._free.remove(connection)
        else:
            self.answered(connection, due, LOST, retry=False)
        task = asyncio.create_task(self._connect())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: _Connection(self), "127.0.0.1", self._port
        )
        self._free.append(connection)

    async def _last_answers(self) -> None:
        if self._busy:
            self._last = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._last.wait(), GRACE_SECONDS)
        self._is_over = True
        await asyncio.gather(*self._tasks)
        for connection in self._free:
            connection.close()

    def _now(self) -> float:
        return time.monotonic() - self._began


class _Connection(asyncio.Protocol):
    def __init__(self, schedule: _Schedule) -> None:
        self._schedule = schedule
        self._received = b""
        self._due: float | None = None  # when the request in progress was due
        self.sent_at = 0.0
        self._transport: Any = None  # uvloop has its own transport type

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, _error: Exception | None) -> None:
        due, self._due = self._due, None
        self._schedule.lost(self, due)

    def close(self) -> None:
        self._transport.close()

    def send(self, request: bytes, due: float) -> None:
        self._due, self.sent_at = due, time.monotonic()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._due is not None and is_whole(self._received):
            received, self._received = self._received, b""
            due, self._due = self._due, None
            retry = b"\r\nretry-after: " in received.lower()
            self._schedule.answered(self, due, int(received[9:12]), retry)
