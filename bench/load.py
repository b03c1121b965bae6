"""Generates HTTP load: each caller waits for its response before it sends the next request.

Requests are signed before the measurement begins, which leaves more CPU time to the measured
program on the same machine.
"""

import asyncio
import itertools
import re
import time
from collections.abc import Iterator
from typing import Any

import uvloop

from bench.frame import Work

GRACE_SECONDS = 10
PREPARED_PER_SECOND = 12_000  # more than the server handles; further requests are signed on demand
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


async def load(port: int, requests: Iterator[bytes], callers: int, seconds: float) -> Work:
    """Sends requests until the time is over or none are left, then awaits the last responses.

    Runs in a thread with a faster event loop, which cannot start the server's processes.
    """

    prepared = list(itertools.islice(requests, int(seconds * PREPARED_PER_SECOND)))

    def run() -> Work:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            all_requests = itertools.chain(prepared, requests)
            return runner.run(_load(port, all_requests, callers, seconds))

    return await asyncio.to_thread(run)


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(GRACE_SECONDS):
        writer.write(request)
        answer = b""
        while not is_whole(answer):
            answer += await reader.read(65536)
        writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(f"Unexpected response: {answer!r}")
    return body


async def _load(port: int, requests: Iterator[bytes], number: int, seconds: float) -> Work:
    loop = asyncio.get_running_loop()
    run = _Run(requests)
    callers = [
        (await loop.create_connection(lambda: _Caller(run), "127.0.0.1", port))[1]
        for _ in range(number)
    ]
    began = time.monotonic()
    run.deadline = began + seconds
    for caller in callers:
        caller.ask()
    async with asyncio.timeout(seconds + GRACE_SECONDS):
        await asyncio.gather(*(caller.finished for caller in callers))
    return Work(run.done, time.monotonic() - began)


class _Run:
    """The state that the callers of a block share."""

    def __init__(self, requests: Iterator[bytes]) -> None:
        self.requests = requests
        self.deadline = 0.0
        self.done = 0


class _Caller(asyncio.Protocol):
    def __init__(self, run: _Run) -> None:
        self._run = run
        self._received = b""
        self._transport: Any = None  # uvloop has its own transport type
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if not self.finished.done():
            self.finished.set_exception(error or ConnectionError("The connection was closed."))

    def data_received(self, data: bytes) -> None:
        self._received = self._received + data if self._received else data
        if is_whole(self._received):
            if not self._received.startswith(b"HTTP/1.1 200 "):
                # The server processes a rejected request faster, so a rate that includes rejections
                # is wrong.
                self._end(RuntimeError(f"Unexpected response: {self._received[:2000]!r}"))
                return
            self._received = b""
            self._run.done += 1
            self.ask()

    def ask(self) -> None:
        request = next(self._run.requests, None) if time.monotonic() < self._run.deadline else None
        if request is None:
            self._end(None)
        else:
            self._transport.write(request)

    def _end(self, error: Exception | None) -> None:
        if error is None:
            self.finished.set_result(None)
        else:
            self.finished.set_exception(error)
        self._transport.close()


def is_whole(answer: bytes) -> bool:
    head = answer.find(b"\r\n\r\n")
    if head < 0:
        return False
    length = _LENGTH.search(answer, 0, head + 2)
    if length is None:
        raise RuntimeError("The response has no Content-Length header.")
    return len(answer) >= head + 4 + int(length[1])
