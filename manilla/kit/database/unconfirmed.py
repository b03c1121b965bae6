"""Limits the sessions whose commits wait for a standby that does not confirm them.

Such a session cannot be ended from outside: the server does not notice that its client has closed
the connection, and canceling the wait would make the commit take effect without the standby. So
this process watches the sessions that it has abandoned. While an abandoned session still waits for
the standby, new transactions are rejected immediately, because each of them would abandon another
session.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog

from manilla.kit.database.unavailable import is_closed
from manilla.kit.errors import Unavailable

log = structlog.get_logger(__name__)

LOOK_SECONDS = 0.5
WAITING = """
    SELECT pid FROM pg_stat_activity WHERE pid = ANY($1::int[]) AND wait_event = 'SyncRep'"""

Look = Callable[[Sequence[int]], Awaitable[list[int]]]


class UnconfirmedCommits:
    def __init__(self, look: Look, sessions_max: int) -> None:
        # Takes server PIDs, and returns those whose sessions wait for a standby.
        self._look = look
        self._sessions_max = sessions_max
        self._left: set[int] = set()  # server PIDs of abandoned sessions that may still be running
        self._are_waiting = False  # whether the last check found a session that waits for a standby
        self._looking: asyncio.Task[None] | None = None

    @property
    def are_waiting(self) -> bool:
        return self._are_waiting

    def check(self, *, writes: bool) -> None:
        """Raises Unavailable if commits wait for a standby and this session writes.

        Reads are also rejected if too many sessions are abandoned.
        """
        if self._are_waiting and (writes or len(self._left) >= self._sessions_max):
            raise Unavailable from TimeoutError("no standby confirms commits")

    def leave(self, raw: Any) -> None:
        """Abandons a session during a statement or commit, which may continue on the server."""
        if not is_closed(raw):
            self._left.add(raw.get_server_pid())
            raw.terminate()
        if self._looking is None and self._left:
            self._looking = asyncio.create_task(self._look_until_ended())

    async def _look_until_ended(self) -> None:
        try:
            while self._left:
                await self._look_once()
                if self._left:
                    await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._are_waiting, self._looking = False, None

    async def _look_once(self) -> None:
        asked = list(self._left)
        try:
            waiting = await self._look(asked)
        except Unavailable:
            return  # the database did not respond, so the result is unknown
        if waiting and not self._are_waiting:
            log.error("commits_not_confirmed", sessions=len(waiting))
        self._left -= set(asked) - set(waiting)
        self._are_waiting = bool(waiting)

    def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
