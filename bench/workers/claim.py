"""Claims waiting deliveries repeatedly, and returns them to the queue each time.

The order names the measured step: `claim` or `release`. Only this step is timed, and the number of
waiting deliveries is the same for each claim. Released jobs go to the end of their merchant's
queue, like deliveries that are repeated later.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import uvloop

from bench import cpu
from bench.frame import Work
from bench.workers import UNCOUNTED_URL
from manilla.kit.database.connections import Database
from manilla.kit.jobs import Job, claims
from manilla.notify.delivery import CONCURRENCY
from manilla.notify.outbox import DELIVER


class Order(msgspec.Struct, frozen=True):
    step: str
    seconds: float


class Step:
    """A step with its own database connection, so that its CPU time can be read."""

    def __init__(self, db: Database, backend: int) -> None:
        self.db = db
        self._backend = backend
        self.seconds, self.program_seconds, self.database_seconds = 0.0, 0.0, 0.0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        began, program = time.monotonic(), time.process_time()
        database = cpu.of_process(self._backend)
        yield
        self.seconds += time.monotonic() - began
        self.program_seconds += time.process_time() - program
        self.database_seconds += cpu.of_process(self._backend) - database


async def main() -> None:
    # pg_stat_statements counts only the statements of the application's role.
    counted = await Database.open(os.environ["MANILLA_DATABASE_URL"], size=1, name="bench")
    uncounted = await Database.open(os.environ[UNCOUNTED_URL], size=1, name="bench")
    print("{}", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = msgspec.json.decode(line, type=Order)
        measured, other = [
            Step(db, await db.number("SELECT pg_backend_pid()")) for db in (counted, uncounted)
        ]
        if order.step == "claim":
            done = await _repeat(measured, other, order.seconds)
        else:
            done = await _repeat(other, measured, order.seconds)
        work = Work(
            done,
            measured.seconds,
            other_program_seconds=other.program_seconds,
            other_database_seconds=other.database_seconds,
        )
        print(msgspec.json.encode(work).decode(), flush=True)
    await counted.close()
    await uncounted.close()


async def _repeat(claiming: Step, releasing: Step, seconds: float) -> int:
    deadline, done = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        async with claiming.running():
            claimed: list[Job]
            claimed, _ = await claims.claim_fairly(
                claiming.db, DELIVER, CONCURRENCY, after_merchant=-1
            )
        assert len(claimed) == CONCURRENCY  # every claim must return the same number of jobs
        async with releasing.running():
            await claims.put_off(releasing.db, [(job, 0) for job in claimed])
        done += 1
    return done


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
