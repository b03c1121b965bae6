"""The faults of processes, the database, the providers and the merchants' receivers."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from manilla.kit.embedded.postgres import APPLICATION
from manilla.kit.errors import Unavailable
from tests.simulation.clocks import DATABASE, HOSTS
from tests.simulation.plan import RAILS, Step
from tests.simulation.shops import LOST
from tests.simulation.world import World

SLOW_SECONDS = 1.0
DELAY_SECONDS = 1.0
# A frozen process is woken again at the latest after this time, even if no merchant can continue.
FROZEN_SECONDS_MAX = 8.0
STEPS_WITHOUT_STANDBY = 6
CHECKOUT_SECONDS = 600  # a jump of this length can make a checkout link expire

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

    async def kill(self, process: str, which: int) -> bool:
        return _signal(self._chosen(process, which), signal.SIGKILL)

    def _chosen(self, process: str, which: int) -> list[int]:
        """Returns one of the program's processes on both hosts."""
        found = self.world.processes(process)
        return [found[which % len(found)]] if found else []

    async def freeze(self, process: str, which: int, steps: int) -> bool:
        """Stops a process until its leases have expired and merchants have continued."""
        pids = self._chosen(process, which)
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
        children = _children(self.world.database.primary_pid)
        backends = [pid for pid in children if b"manilla" in _title(pid)]
        return _signal(backends[:1], signal.SIGKILL)

    async def kill_database(self) -> None:
        """Kills PostgreSQL's primary, and starts it again."""
        await self.world.database.restart_the_primary()

    async def lose_standby(self) -> None:
        """Kills the standby. Until it has started again, no commit is acknowledged."""
        await self.world.database.restart_the_standby()

    async def failover(self, primary: str) -> None:
        """Kills or stalls the primary, promotes the standby, and adds a new standby."""
        database = self.world.database
        is_frozen = primary == "frozen"
        await (database.freeze_the_primary() if is_frozen else database.lose_the_primary())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FROZEN_SECONDS_MAX):
                await self._progress(STEPS_WITHOUT_STANDBY)
        await database.add_the_standby()

    async def clock_jumps(self, seconds: int) -> bool:
        """Moves the clocks of all hosts. Checkout links and idempotency keys can expire."""
        if seconds >= CHECKOUT_SECONDS:
            self.world.model.checkouts_expired = True
        return self.world.clocks.jump(seconds)

    async def clock_is_wrong(self, host: str, seconds: int) -> bool:
        """Makes one host's clock fast or slow until the next quiet moment."""
        return self.world.clocks.skew(host, seconds)

    async def database_clock_is_wrong(self, seconds: int) -> bool:
        return self.world.clocks.skew(DATABASE, seconds)

    async def provider_answers(self, rail: str, call: str, answer: str, times: int) -> None:
        fault = {"call": call, "fault": answer, "times": times}
        await self._set(rail, {"next": [fault]})

    async def dispute_answers(self, rail: str, call: str, answer: str, times: int) -> None:
        await self.provider_answers(rail, call, answer, times)

    async def crash_with_customers(self, point: str) -> bool:
        return await self.crash(point)

    async def crash_with_splits(self, point: str) -> bool:
        return await self.crash(point)

    async def customer_answers(self, rail: str, call: str, answer: str, times: int) -> None:
        await self.provider_answers(rail, call, answer, times)

    async def provider_lies(self, rail: str, lie: str) -> None:
        """Makes a provider report disputes wrongly until the next quiet moment."""
        await self._set(rail, {"disputes": lie})

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
        for host in HOSTS:
            self.world.clocks.skew(host, 0)
        for rail in RAILS:
            healthy: dict[str, Any] = {
                "outage": False,
                "latency_seconds": 0,
                "next": [],
                "disputes": "none",
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
            url = self.world.database.url(APPLICATION)
            connection = await asyncpg.connect(url, timeout=5, target_session_attrs="read-write")
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
    for key in ("point", "process", "answer", "lie", "mode", "how", "primary", "host"):
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
