"""A queue of requests, so that the API also works well under overload."""

import asyncio
from collections import deque
from collections.abc import Callable

from manilla.kit import batch, time_limits


class RequestQueue:
    """Requests that have arrived and that this process has not begun to process.

    Each turn of the event loop begins only some of them, and none while many wait for the database,
    so that the loop soon reads the next ones and sends what is ready. If requests arrive faster
    than they are processed, the queue becomes full, and further ones are refused at once. Otherwise
    each would wait longer than the one before, until all of them time out. A burst is not refused:
    only the wait is limited, unless the process was paused.
    """

    TURN_MAX = 64
    UNANSWERED_MAX = 256
    LENGTH_MAX = 4096
    DELAY_SECONDS = 0.001  # until the next look, while many requests wait for the database
    TURN_SECONDS_MAX = 0.25  # the operating system has paused a process whose turn takes longer

    def __init__(self) -> None:
        # When each of them arrived, and the function that begins it.
        self._waiting: deque[tuple[float, Callable[[float], None]]] = deque()
        self._left = self.TURN_MAX  # how many requests may still begin in this turn
        self._is_scheduled = False
        self._is_late = False  # whether the first of them has waited for too long
        self._turn_at = 0.0

    def is_full(self) -> bool:
        """Whether the next request must be refused."""
        return self._is_late or len(self._waiting) >= self.LENGTH_MAX

    def add(self, loop: asyncio.AbstractEventLoop, begin: Callable[[float], None]) -> None:
        """Calls `begin` as soon as it is the request's turn, with the seconds that it waited.

        A request whose time is up is begun at once, so that it is refused.
        """
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._next_turn, loop)
        if self._left > 0 and not self._waiting:
            self._left -= 1
            begin(0.0)
        else:
            self._waiting.append((loop.time(), begin))

    def _next_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._waiting
        self._left = min(self.TURN_MAX, self.UNANSWERED_MAX - batch.unanswered())
        self._is_scheduled = bool(waiting)
        if waiting and self._left > 0:
            loop.call_soon(self._next_turn, loop)
        elif waiting:
            loop.call_later(self.DELAY_SECONDS, self._next_turn, loop)
        now = loop.time()
        was_paused = now - self._turn_at > self.TURN_SECONDS_MAX
        if was_paused:  # their time begins now, because none of them could have begun before
            waiting = self._waiting = deque((now, begin) for _, begin in waiting)
        end_at = now - time_limits.current.request_seconds
        while waiting and (self._left > 0 or waiting[0][0] <= end_at):
            self._left -= 1
            arrived_at, begin = waiting.popleft()
            begin(now - arrived_at)
        limit = time_limits.current.queue_wait_seconds
        has_waited = bool(waiting) and now - waiting[0][0] > limit
        self._is_late, self._turn_at = has_waited, now
