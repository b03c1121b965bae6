"""The faults of processes, the database, the providers and the merchants' receivers."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from manilla.kit.errors import Unavailable
from tests.simulation.plan import RAILS, Step
from tests.simulation.world import LOST, World

SLOW_SECONDS = 1.0
DELAY_SECONDS = 1.0
# A frozen process is woken again at the latest after this time, even if no merchant can continue.
FROZEN_SECONDS_MAX = 8.0

DATABASE_ERRORS = (
    *(OSError, TimeoutError, Unavailable),
    *(asyncpg.PostgresError, asyncpg.InterfaceError),
)

Progress = Callable[[int], Awaitable[None]]


class FaultSteps:
    """Runs the steps of the fault lane. `progress(n)` waits for n more steps of merchants."""

    def __init__(self, world: World, progress: Progress) -> None:
        self.world = world
        self._progress = progress
        self._armed: set[str] = set()

    async def run(self, step: Step) -> None:
        run: Callable[..., Any] = getattr(self, step.name)
        if await run(**step.arguments) is not False:
            self.world.faults[_label(step)] += 1

    async def crash(self, point: str) -> bool:
        """Arms a crash point. `end` counts the fault if a process has crashed there."""
        self._count_crash(point)
        self.world.live.arm(point)
        self._armed.add(point)
        return False

    def _count_crash(self, point: str) -> None:
        if point in self._armed and self.world.live.has_crashed(point):
            self.world.faults[f"crash: {point}"] += 1

    async def kill(self, process: str) -> bool:
        return _signal(self.world.processes(process)[:1], signal.SIGKILL)

    async def freeze(self, process: str, steps: int) -> bool:
        """Stops a process until its leases have expired and merchants have continued."""
        pids = self.world.processes(process)[:1]
        if not _signal(pids, signal.SIGSTOP):
            return False
        try:
            if process == "worker":
                await self.time_passes()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FROZEN_SECONDS_MAX):
                    await self._progress(steps)
        finally:
            _signal(pids, signal.SIGCONT)
        return True

    async def kill_database_connections(self) -> bool:
        """Ends all connections of the application, as when the network fails."""
        statement = (
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE usename = current_user AND pid <> pg_backend_pid()"
        )
        return await self._execute(statement)

    async def kill_database_process(self) -> bool:
        """Kills a server process of PostgreSQL, which then ends all others and recovers."""
        servers = self.world.processes("postgres")
        children = [pid for server in servers for pid in _children(server)]
        backends = [pid for pid in children if b"manilla" in _title(pid)]
        return _signal(backends[:1], signal.SIGKILL)

    async def kill_database(self) -> bool:
        """Kills PostgreSQL's main process. The supervisor starts PostgreSQL again."""
        return _signal(self.world.processes("postgres"), signal.SIGKILL)

    async def provider_answers(self, rail: str, call: str, answer: str, times: int) -> None:
        fault = {"call": call, "fault": answer, "times": times}
        await self._set(rail, {"next": [fault]})

    async def provider_is_down(self, rail: str, steps: int) -> None:
        await self._for_some_time(rail, {"outage": True}, {"outage": False}, steps)

    async def provider_is_slow(self, rail: str, steps: int) -> None:
        slow = {"latency_seconds": SLOW_SECONDS}
        await self._for_some_time(rail, slow, {"latency_seconds": 0}, steps)

    async def webhooks(self, rail: str, mode: str) -> None:
        """Changes how a provider sends webhooks, until the next quiet moment."""
        plan = {"mode": mode, "delay_seconds": DELAY_SECONDS, "copies": 3}
        await self._set(rail, {"webhooks": plan})

    async def receiver_fails(self, how: str, times: int) -> None:
        self.world.receiver.failures += [how] * times

    async def time_passes(self) -> bool:
        """Ends all leases and makes jobs due, as if the clock had jumped. Checkouts stay valid."""
        return await self._execute(
            "UPDATE job SET due_at = now(), leased_until = now() WHERE kind <> 'payment.expire'"
        )

    async def checkouts_expire(self) -> bool:
        """Lets the checkout links of all unpaid payments expire, as if half an hour had passed."""
        self.world.model.checkouts_expired = True
        return await self._execute("UPDATE job SET due_at = now() WHERE kind = 'payment.expire'")

    async def end(self) -> None:
        """Ends all faults, and counts the crash points at which a process has crashed."""
        for point in self._armed:
            self._count_crash(point)
            (self.world.live.crashes / point).unlink(missing_ok=True)
        self._armed.clear()
        self.world.receiver.failures.clear()
        for rail in RAILS:
            healthy: dict[str, Any] = {
                "outage": False,
                "latency_seconds": 0,
                "next": [],
                "webhooks": {"mode": "normal"},
            }
            await self._set(rail, healthy)

    async def _for_some_time(
        self, rail: str, during: dict[str, Any], afterwards: dict[str, Any], steps: int
    ) -> None:
        await self._set(rail, during)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FROZEN_SECONDS_MAX):
                await self._progress(steps)
        await self._set(rail, afterwards)

    async def _execute(self, statement: str) -> bool:
        """Runs a statement. Returns whether it succeeded, because the database may be down."""
        try:
            connection = await asyncpg.connect(self.world.database_url, timeout=5)
            try:
                await connection.execute(statement)
            finally:
                await connection.close(timeout=5)
        except DATABASE_ERRORS:
            return False
        return True

    async def _set(self, rail: str, faults: dict[str, Any]) -> None:
        for _ in range(20):
            try:
                await self.world.control(f"{rail}/faults", faults)
            except LOST:
                await asyncio.sleep(0.25)
            else:
                return


def _label(step: Step) -> str:
    for key in ("point", "process", "answer", "mode", "how"):
        if key in step.arguments:
            return f"{step.name}: {step.arguments[key]}"
    return step.name


def _signal(pids: list[int], number: int) -> bool:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    return bool(pids)


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(each) for each in file.read().split()]
    except OSError:
        return []


def _title(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""
