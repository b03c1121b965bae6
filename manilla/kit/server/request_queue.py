"""A queue of requests that keeps the API responsive under overload."""

import asyncio
from collections import deque
from collections.abc import Callable
from time import thread_time

from manilla.kit import batch, time_limits


class RequestQueue:
    """Requests that have arrived but that this process has not started to process.

    Each event-loop iteration starts only a few requests, and none while many requests wait for the
    database. The loop can therefore soon read new requests and send responses. If requests arrive
    faster than they are processed, the queue becomes full, and new requests are rejected
    immediately. Otherwise each request would wait longer than the previous request, until all of
    them time out.

    The queue is full if its first request has waited too long, or if it contains more requests than
    start in half of that time. Without the second rule, all requests that arrive before the first
    one has waited too long would be queued, and most of them would wait much longer. The second
    rule needs to know how many requests start, so it applies only to a queue that has not been
    empty for a while. A short burst of up to LENGTH_MAX requests is therefore not rejected. Time in
    which the operating system paused the process does not count.
    """

    TURN_MAX = 64
    UNANSWERED_MAX = 256
    LENGTH_MAX = 4096
    DELAY_SECONDS = 0.001  # interval between checks while many requests wait for the database
    # While requests wait, the process runs all the time, or sleeps for DELAY_SECONDS. If it did not
    # run for longer than this, the operating system has paused it.
    PAUSE_SECONDS_MIN = 0.25

    def __init__(self) -> None:
        # The arrival time of each request, and the function that starts it.
        self._waiting: deque[tuple[float, Callable[[float], None]]] = deque()
        self._left = self.TURN_MAX  # how many more requests may start in this iteration
        self._is_scheduled = False
        self._capacity = self.LENGTH_MAX
        # How many requests started in the current and the last period.
        self._started = self._last_started = 0
        self._period_at = 0.0
        self._paused_seconds = 0.0  # how long the operating system has paused the process
        # Wall-clock and CPU time when we last looked for a pause.
        self._looked_at = self._looked_cpu = 0.0

    def is_full(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Returns True if the queue is full and the next request must be rejected.

        An iteration that reads thousands of requests takes long, so the waiting time is computed
        for each request.
        """
        waiting = self._waiting
        if len(waiting) >= self._capacity:
            return True
        limit = time_limits.current.queue_wait_seconds
        if not waiting or self._running_seconds(loop) - waiting[0][0] <= limit:
            return False
        self._subtract_pause(loop)
        return self._running_seconds(loop) - waiting[0][0] > limit

    def add(self, loop: asyncio.AbstractEventLoop, begin: Callable[[float], None]) -> None:
        """Queues a request. `begin` is called with the number of seconds that the request has
        waited.

        A request whose time limit has passed is started immediately, and is then rejected.
        """
        if not self._is_scheduled:
            self._is_scheduled = True
            self._looked_at, self._looked_cpu = loop.time(), thread_time()
            loop.call_soon(self._next_turn, loop)
        if self._left > 0 and not self._waiting:
            self._left -= 1
            begin(0.0)
        else:
            now = self._running_seconds(loop)
            if not self._waiting:
                self._begin_periods(now)
            self._waiting.append((now, begin))

    def _next_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._waiting
        self._left = min(self.TURN_MAX, self.UNANSWERED_MAX - batch.count_unanswered())
        self._is_scheduled = bool(waiting)
        if waiting and self._left > 0:
            loop.call_soon(self._next_turn, loop)
        elif waiting:
            loop.call_later(self.DELAY_SECONDS, self._next_turn, loop)
        self._subtract_pause(loop)
        now = self._running_seconds(loop)
        end_at = now - time_limits.current.request_seconds
        while waiting and (self._left > 0 or waiting[0][0] <= end_at):
            self._left -= 1
            self._started += 1
            arrived_at, begin = waiting.popleft()
            begin(now - arrived_at)
        if not waiting:
            self._capacity = self.LENGTH_MAX
        elif now - self._period_at >= time_limits.current.queue_wait_seconds / 2:
            self._end_period(now)

    def _begin_periods(self, now: float) -> None:
        self._started = self._last_started = 0
        self._period_at = now

    def _end_period(self, now: float) -> None:
        """Computes the capacity. A single period in which the database hung does not reduce it."""
        self._capacity = min(self.LENGTH_MAX, max(self._started, self._last_started, self.TURN_MAX))
        self._started, self._last_started = 0, self._started
        self._period_at = now

    def _running_seconds(self, loop: asyncio.AbstractEventLoop) -> float:
        """Returns the time of a clock that stops while the process is paused."""
        return loop.time() - self._paused_seconds

    def _subtract_pause(self, loop: asyncio.AbstractEventLoop) -> None:
        now, cpu = loop.time(), thread_time()
        paused_seconds = now - self._looked_at - (cpu - self._looked_cpu)
        self._looked_at, self._looked_cpu = now, cpu
        if paused_seconds > self.PAUSE_SECONDS_MIN:
            self._paused_seconds += paused_seconds
