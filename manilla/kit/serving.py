"""A web server that stops without losing a request, and that serves under overload."""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
import uvicorn

from manilla.kit import batch

POLL_SECONDS = 0.1


class Drain(msgspec.Struct):
    """Whether this process is about to stop. If so, its readiness check fails."""

    is_on: bool = False


class RequestQueue:
    """Requests that have arrived and that this process has not begun to process.

    Each turn of the event loop begins only some of them, and none while many wait for the database,
    so that the loop soon reads the next ones and sends what is ready. If requests arrive faster
    than they are processed, the queue becomes full, and further ones are refused at once. Otherwise
    each would wait longer than the one before, until all of them time out. A burst is not refused:
    only the wait is limited.
    """

    TURN_MAX = 64
    UNANSWERED_MAX = 256
    WAIT_SECONDS_MAX = 0.5
    LENGTH_MAX = 4096
    PAUSE_SECONDS = 0.001

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self._left = self.TURN_MAX  # how many requests may still begin in this turn
        self._is_scheduled = False

    def is_full(self, now: float) -> bool:
        """Whether the next request must be refused. `now` is the event loop's time."""
        waiting = self._waiting
        if not waiting:
            return False
        return now - waiting[0][0] > self.WAIT_SECONDS_MAX or len(waiting) >= self.LENGTH_MAX

    def add(self, loop: asyncio.AbstractEventLoop, begin: Callable[[], None]) -> None:
        """Calls `begin`, as soon as it is the request's turn."""
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._next_turn, loop)
        if self._left > 0 and not self._waiting:
            self._left -= 1
            begin()
        else:
            self._waiting.append((loop.time(), begin))

    def _next_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._waiting
        self._left = min(self.TURN_MAX, self.UNANSWERED_MAX - batch.unanswered())
        self._is_scheduled = bool(waiting)
        if waiting and self._left > 0:
            loop.call_soon(self._next_turn, loop)
        elif waiting:
            loop.call_later(self.PAUSE_SECONDS, self._next_turn, loop)
        while waiting and self._left > 0:
            self._left -= 1
            waiting.popleft()[1]()


class DrainingServer(uvicorn.Server):
    """A server that, after SIGTERM, keeps serving for a while before it rejects new connections.

    During that time the readiness check fails, so proxies send new requests elsewhere, and every
    response has `Connection: close`, so proxies do not reuse its connections. Closing idle
    connections immediately would race with a request that a proxy is sending.
    """

    def __init__(self, config: uvicorn.Config, drain: Drain, seconds: float) -> None:
        config.app = _closing(config.app, drain)
        super().__init__(config)
        self._drain = drain
        self._seconds = seconds

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._drain.is_on = True
        for tick in range(round(self._seconds / POLL_SECONDS)):
            if self.force_exit:
                break
            await self.on_tick(tick)  # keeps the responses' Date header current
            await asyncio.sleep(POLL_SECONDS)
        await super().shutdown(sockets)


def _closing(asgi: Any, drain: Drain) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def send_closing(message: Any) -> None:
            if drain.is_on and message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), (b"connection", b"close")]
                message = {**message, "headers": headers}
            await send(message)

        await asgi(scope, receive, send_closing)

    return app
