"""Runs due jobs in a worker process."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial

import structlog

from manilla.kit import time_limits
from manilla.kit.batch import RESULT_DELAY_SECONDS, Batcher
from manilla.kit.database.connections import Database
from manilla.kit.errors import Unavailable
from manilla.kit.jobs import Job, NextRun, RunEnd, Work, claims

log = structlog.get_logger(__name__)

RENEW_SECONDS = 5.0
POLL_SECONDS = 0.2
ROUND_SECONDS = 0.1


class Runner:
    """Claims due jobs and runs them until the `stop` event is set."""

    def __init__(self, db: Database, works: Mapping[str, Work]) -> None:
        self._db = db
        self._works = works
        self._running: dict[str, set[asyncio.Task[None]]] = {kind: set() for kind in works}
        self._held: dict[Job, float] = {}  # start time of each job that this process holds
        self._full: set[str] = set()  # job kinds whose capacity was used up at the last claim
        # Maps each kind to the event that is set when a full kind has free capacity again.
        self._freed: dict[str, asyncio.Event] = {}
        self._end: Batcher[Job, None] = Batcher(
            partial(claims.end, db), delay_seconds=RESULT_DELAY_SECONDS
        )
        self._put_off: Batcher[tuple[Job, float], None] = Batcher(
            partial(claims.put_off, db), delay_seconds=RESULT_DELAY_SECONDS
        )

    async def run(self, stop: asyncio.Event) -> None:
        large = [kind for kind, work in self._works.items() if work.is_fair and not work.is_small]
        shared = [kind for kind in self._works if kind not in large]
        lanes = [self._run_together(shared, stop)] if shared else []
        lanes += [self._run_fairly(kind, stop) for kind in large]
        renewing = asyncio.create_task(self._renew())
        try:
            await asyncio.gather(*lanes)
            running = [task for tasks in self._running.values() for task in tasks]
            if running:
                await asyncio.wait(running, timeout=time_limits.current.jobs_stop_seconds)
        finally:
            renewing.cancel()

    async def _run_together(self, kinds: Sequence[str], stop: asyncio.Event) -> None:
        """Runs due jobs of all these kinds in the order of their due times, with shared claims.

        A fair kind leaves the shared claims while more of its jobs are due than can run.
        """
        freed = asyncio.Event()
        self._freed |= dict.fromkeys(kinds, freed)
        fair: dict[str, asyncio.Task[None]] = {}
        while not stop.is_set():
            for kind in [kind for kind, task in fair.items() if task.done()]:
                fair.pop(kind).result()
                self._freed[kind] = freed
            shared = [kind for kind in kinds if kind not in fair]
            free = {kind: limit for kind in shared if (limit := self._free(kind))}
            claimed = await self._claimed(claims.claim(self._db, free)) if free else []
            by_kind = {kind: sum(job.kind == kind for job in claimed) for kind in free}
            for kind, limit in free.items():
                if self._works[kind].is_fair and by_kind[kind] == limit:
                    self._freed[kind] = asyncio.Event()
                    fair[kind] = asyncio.create_task(self._take_turns(kind, stop))
            shared = [kind for kind in shared if kind not in fair]
            freed.clear()
            self._full.difference_update(shared)
            self._full.update(kind for kind in shared if not self._free(kind))
            if all(
                kind in fair or kind in self._full or by_kind[kind] < limit
                for kind, limit in free.items()
            ):
                await _pause(freed, POLL_SECONDS)
        await asyncio.gather(*fair.values())

    async def _run_fairly(self, kind: str, stop: asyncio.Event) -> None:
        """Runs all due jobs, or gives each merchant its turn while more are due than can run."""
        self._freed[kind] = asyncio.Event()
        while not stop.is_set():
            limit = await self._some_free(kind)
            if limit:
                claimed = await self._claimed(claims.claim(self._db, {kind: limit}))
                if len(claimed) == limit:
                    await self._take_turns(kind, stop)
                else:
                    await _pause_between_rounds(stop, len(claimed))

    async def _take_turns(self, kind: str, stop: asyncio.Event) -> None:
        """Claims the merchants' jobs in turn, until no merchant has a due job."""
        turn, found, has_more = -1, 0, False
        while not stop.is_set():
            limit = await self._some_free(kind)
            if not limit:
                continue
            try:
                claimed, last = await claims.claim_fairly(self._db, kind, limit, turn)
            except Unavailable as away:
                log.warning("jobs_not_claimed", **away.facts)
                return
            for job in claimed:
                self._start(job)
            found += len(claimed)
            # If each merchant gets an equal share of the free slots, some slots can remain free.
            has_more |= 2 * len(claimed) >= limit
            if last is not None:
                turn = last
                continue
            if not found:
                return
            if not has_more:
                await _pause_between_rounds(stop, found)
            turn, found, has_more = -1, 0, False  # the next round, from the first merchant

    async def _some_free(self, kind: str) -> int:
        """Returns how many jobs to claim. If the answer is 0, waits until some have ended."""
        limit = self._free(kind)
        if not limit:
            self._freed[kind].clear()
            self._full.add(kind)
            await _pause(self._freed[kind], POLL_SECONDS)
            self._full.discard(kind)
        return limit

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            latest = time.monotonic() - time_limits.current.work_seconds
            held = [job for job, since in self._held.items() if since > latest]
            try:
                if held:
                    await claims.renew(self._db, held)
            except Unavailable as away:
                log.warning("leases_not_renewed", **away.facts)

    async def _claimed(self, claiming: Awaitable[list[Job]]) -> list[Job]:
        try:
            claimed = await claiming
        except Unavailable as away:
            log.warning("jobs_not_claimed", **away.facts)
            return []
        for job in claimed:
            self._start(job)
        return claimed

    def _free(self, kind: str) -> int:
        """Returns how many jobs to claim, or 0 if less than a quarter of the capacity is free.

        Claiming several jobs in one SQL statement reduces the overhead per job.
        """
        limit = self._works[kind].concurrency
        free = limit - len(self._running[kind])
        return free if free >= max(1, limit // 4) else 0

    def _start(self, job: Job) -> None:
        running = self._running[job.kind]
        task = asyncio.create_task(self._do(job))
        running.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            running.discard(task)
            if job.kind in self._full and self._free(job.kind):
                self._freed[job.kind].set()

        task.add_done_callback(ended)

    async def _do(self, job: Job) -> None:
        """Runs one claimed job and records its result."""
        self._held[job] = time.monotonic()
        next_run: NextRun
        try:
            try:
                next_run = await self._works[job.kind].handler(job)
            except Unavailable:
                next_run = 1.0
            except Exception as error:
                log.exception("job_failed", kind=job.kind, subject=job.subject)
                await claims.fail(self._db, job, f"{type(error).__name__}: {error}"[:500])
                return
            if next_run is None:
                await self._end.submit(job)
            elif not isinstance(next_run, RunEnd):
                await self._put_off.submit((job, next_run))
        except Unavailable as away:  # after the lease expires, a worker claims the job again
            log.warning("job_not_ended", kind=job.kind, subject=job.subject, **away.facts)
        finally:
            del self._held[job]


async def _pause_between_rounds(stop: asyncio.Event, found: int) -> None:
    """Pauses while few jobs are due, so that the next claim finds several jobs."""
    await _pause(stop, ROUND_SECONDS if found else POLL_SECONDS)


async def _pause(until: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(until.wait(), seconds)
