"""A queue of requests that keeps the API responsive under overload."""

import asyncio
from collections import deque
from collections.abc import Callable

from manilla.kit import batch, time_limits


class RequestQueue:
    """Requests that have arrived but that this process has not started to process.

    Each event-loop iteration starts only a few requests, and none while many requests wait for the
    database. The loop can therefore soon read new requests and send responses. If requests arrive
    faster than they are processed, the queue becomes full, and new requests are rejected
    immediately. Otherwise each request would wait longer than the previous request, until all of
    them time out.

    The queue is full if its first request has waited too long. Time in which the operating system
    paused the process does not count. A short burst of up to LENGTH_MAX requests is therefore not
    rejected.
    """

    TURN_MAX = 64
    UNANSWERED_MAX = 256
    LENGTH_MAX = 4096
    DELAY_SECONDS = 0.001  # interval between checks while many requests wait for the database
    # If an iteration takes longer than this, the operating system has probably paused the process.
    TURN_SECONDS_MAX = 0.25

    def __init__(self) -> None:
        # The arrival time of each request, and the function that starts it.
        self._waiting: deque[tuple[float, Callable[[float], None]]] = deque()
        self._left = self.TURN_MAX  # how many more requests may start in this iteration
        self._is_scheduled = False
        self._is_late = False  # whether the first queued request has waited too long
        self._turn_at = 0.0

    def is_full(self) -> bool:
        """Returns True if the queue is full and the next request must be rejected."""
        return self._is_late or len(self._waiting) >= self.LENGTH_MAX

    def add(self, loop: asyncio.AbstractEventLoop, begin: Callable[[float], None]) -> None:
        """Queues a request. `begin` is called with the number of seconds that the request has
        waited.

        A request whose time limit has passed is started immediately, and is then rejected.
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
        self._left = min(self.TURN_MAX, self.UNANSWERED_MAX - batch.count_unanswered())
        self._is_scheduled = bool(waiting)
        if waiting and self._left > 0:
            loop.call_soon(self._next_turn, loop)
        elif waiting:
            loop.call_later(self.DELAY_SECONDS, self._next_turn, loop)
        now = loop.time()
        was_paused = now - self._turn_at > self.TURN_SECONDS_MAX
        # No request could start during the pause, so the waiting time is counted from now.
        if was_paused:
            waiting = self._waiting = deque((now, begin) for _, begin in waiting)
        end_at = now - time_limits.current.request_seconds
        while waiting and (self._left > 0 or waiting[0][0] <= end_at):
            self._left -= 1
            arrived_at, begin = waiting.popleft()
            begin(now - arrived_at)
        limit = time_limits.current.queue_wait_seconds
        has_waited = bool(waiting) and now - waiting[0][0] > limit
        self._is_late, self._turn_at = has_waited, now
