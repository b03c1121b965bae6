"""A queue of requests, so that the API also works well under overload."""

import asyncio
from collections import deque
from collections.abc import Callable

from manilla.kit import batch


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
