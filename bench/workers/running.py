"""Runs jobs with Manilla's own job runner in one process, for the requested time."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import msgspec
import uvloop

import bench.frame
from manilla import wiring
from manilla.kit import logs
from manilla.kit.jobs import Handler, Job, NextRun, Work
from manilla.kit.jobs.runner import Runner
from manilla.services import Services
from manilla.settings import Mode, Settings
from manilla.worker import CONNECTIONS

Works = Callable[[Services], AbstractAsyncContextManager[dict[str, Work]]]


class Order(msgspec.Struct, frozen=True):
    seconds: float


class Counter:
    """Counts the jobs that a handler has finished, for the merchants from `first_merchant` on.

    `is_done` checks the handler's result.
    """

    def __init__(self, is_done: Callable[[NextRun], bool], first_merchant: int) -> None:
        self._is_done = is_done
        self._first_merchant = first_merchant
        self.done = 0

    def counted(self, work: Work) -> Work:
        handler: Handler = work.handler

        async def do(job: Job) -> NextRun:
            next_run = await handler(job)
            self.done += job.merchant_id >= self._first_merchant and self._is_done(next_run)
            return next_run

        return msgspec.structs.replace(work, handler=do)


def main(
    kind: str,
    opened: Works,
    is_done: Callable[[NextRun], bool],
    total: str,
    first_merchant: int = 0,
) -> None:
    """Runs the worker. `total` is an SQL count that must grow by the number of finished jobs."""
    logs.configure("bench")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_main(kind, opened, Counter(is_done, first_merchant), total))


async def _main(kind: str, opened: Works, counter: Counter, total: str) -> None:
    settings = Settings.read(os.environ, assumed_mode=Mode.DEVELOPMENT)
    in_all = 0
    async with (
        wiring.open_services(settings, name="bench", connections=CONNECTIONS) as opened_services,
        opened(opened_services) as works,
    ):
        before = await opened_services.db.value(total)
        counted = {**works, kind: counter.counted(works[kind])}
        print("{}", flush=True)
        async for order in _orders():
            counter.done = 0
            work = await _run(Runner(opened_services.db, counted), counter, order.seconds)
            in_all += counter.done
            print(msgspec.json.encode(work).decode(), flush=True)
        found = await opened_services.db.value(total) - before
        assert found == in_all, f"counted {in_all} jobs, but the database has {found}"


async def _run(runner: Runner, counter: Counter, seconds: float) -> bench.frame.Work:
    """Returns the work done within the time. Jobs in progress still finish afterwards."""
    stop, began, works = asyncio.Event(), time.monotonic(), list[bench.frame.Work]()

    def end() -> None:
        works.append(bench.frame.Work(counter.done, time.monotonic() - began))
        stop.set()

    asyncio.get_running_loop().call_later(seconds, end)
    await runner.run(stop)
    return works[0]


async def _orders() -> AsyncIterator[Order]:
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield msgspec.json.decode(line, type=Order)
