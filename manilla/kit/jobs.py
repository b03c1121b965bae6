"""Work that is due now or later, kept in the database with what caused it.

A job is claimed for a while. Whoever claims it gets a number; each later claim, and each new cause,
raises it. So a worker that was frozen past its lease cannot end a job that another one has taken,
and a cause that arrives while the job runs is not lost when it ends.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

import msgspec
import structlog

from manilla.kit.db import Connection, Database
from manilla.kit.errors import Unavailable

log = structlog.get_logger(__name__)

LEASE = timedelta(seconds=90)
POLL_SECONDS = 0.2
STOP_SECONDS = 10
FAILURES_MAX = 12
FAILURE_WAIT_SECONDS_MAX = 300


class Job(msgspec.Struct, frozen=True):
    merchant_id: int
    kind: str
    subject: str
    attempts: int
    failures: int
    fence: int


# Does the work; None: it is done. A number: again in so many seconds.
Handler = Callable[[Job], Awaitable[float | None]]


class Work(msgspec.Struct, frozen=True):
    """How jobs of a kind are done, and how many of them at once."""

    handler: Handler
    places: int


async def put(
    connection: Connection | Database,
    merchant_id: int,
    kind: str,
    subject: str,
    *,
    in_seconds: float = 0,
) -> None:
    """One job for each subject: where there is one already, it is due at the earlier time."""
    await connection.execute(
        """
        INSERT INTO job (merchant_id, kind, subject, due_at)
        VALUES ($1, $2, $3, now() + $4::interval)
            ON CONFLICT (merchant_id, kind, subject) DO UPDATE
           SET due_at = least(job.due_at, excluded.due_at), fence = job.fence + 1,
               parked_at = NULL, failures = 0""",
        *(merchant_id, kind, subject, timedelta(seconds=in_seconds)),
    )


async def forget(connection: Connection, merchant_id: int, kind: str, subject: str) -> None:
    """What the job was for has happened in another way."""
    await connection.execute(
        "DELETE FROM job WHERE merchant_id = $1 AND kind = $2 AND subject = $3",
        *(merchant_id, kind, subject),
    )


class Runner:
    """Claims what is due and does it, until it is told to stop."""

    def __init__(self, db: Database, works: Mapping[str, Work]) -> None:
        self._db = db
        self._works = works
        self._running: dict[str, set[asyncio.Task[None]]] = {kind: set() for kind in works}
        self._freed = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                claimed = await self._claim()
            except Unavailable:
                log.warning("jobs_not_claimed")
                claimed = []
            for job in claimed:
                self._start(job)
            if not claimed:
                await self._rest(stop)
        await self._finish()

    async def _claim(self) -> list[Job]:
        free = {
            kind: work.places - len(self._running[kind])
            for kind, work in self._works.items()
            if work.places > len(self._running[kind])
        }
        return await claim(self._db, free) if free else []

    def _start(self, job: Job) -> None:
        task = asyncio.create_task(self._do(job))
        running = self._running[job.kind]
        running.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            running.discard(task)
            self._freed.set()

        task.add_done_callback(ended)

    async def _rest(self, stop: asyncio.Event) -> None:
        """Until the next look, or until a job has ended that others may have waited for."""
        self._freed.clear()
        waits = [asyncio.create_task(event.wait()) for event in (self._freed, stop)]
        await asyncio.wait(waits, timeout=POLL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def _finish(self) -> None:
        running = [task for tasks in self._running.values() for task in tasks]
        if running:
            await asyncio.wait(running, timeout=STOP_SECONDS)

    async def _do(self, job: Job) -> None:
        try:
            try:
                again_seconds = await self._works[job.kind].handler(job)
            except Unavailable:
                again_seconds = 1.0
            except Exception as error:
                log.exception("job_failed", kind=job.kind, subject=job.subject)
                await _fail(self._db, job, f"{type(error).__name__}: {error}"[:500])
                return
            if again_seconds is None:
                await _end(self._db, job)
            else:
                await _put_off(self._db, job, again_seconds)
        except Unavailable:
            log.warning("job_not_ended", kind=job.kind, subject=job.subject)  # its lease will end


async def claim(db: Database, places: Mapping[str, int]) -> list[Job]:
    return await db.rows(
        Job,
        """
        WITH due AS (
            SELECT j.merchant_id, j.kind, j.subject
              FROM unnest($1::text[], $2::integer[]) AS k (kind, places)
             CROSS JOIN LATERAL (
                   SELECT merchant_id, kind, subject FROM job
                    WHERE job.kind = k.kind AND due_at <= now() AND parked_at IS NULL
                    ORDER BY due_at LIMIT k.places
                      FOR UPDATE SKIP LOCKED) AS j)
        UPDATE job
           SET due_at = now() + $3, attempts = job.attempts + 1, fence = job.fence + 1
          FROM due
         WHERE job.merchant_id = due.merchant_id AND job.kind = due.kind
           AND job.subject = due.subject
        RETURNING job.merchant_id, job.kind, job.subject, job.attempts, job.failures, job.fence""",
        list(places),
        list(places.values()),
        LEASE,
    )


_MINE = " WHERE merchant_id = $1 AND kind = $2 AND subject = $3 AND fence = $4"


def _key(job: Job) -> tuple[Any, ...]:
    return (job.merchant_id, job.kind, job.subject, job.fence)


async def _end(db: Database, job: Job) -> None:
    await db.execute("DELETE FROM job" + _MINE, *_key(job))


async def _put_off(db: Database, job: Job, seconds: float) -> None:
    await db.execute(
        "UPDATE job SET due_at = now() + $5::interval, failures = 0, last_error = NULL" + _MINE,
        *_key(job),
        timedelta(seconds=seconds),
    )


async def _fail(db: Database, job: Job, error: str) -> None:
    """Tried again ever more seldom; then parked, where a person sees it."""
    failures = job.failures + 1
    wait = timedelta(seconds=min(2**failures, FAILURE_WAIT_SECONDS_MAX))
    await db.execute(
        """
        UPDATE job SET due_at = now() + $5::interval, failures = $6, last_error = $7,
               parked_at = CASE WHEN $8 THEN now() END"""
        + _MINE,
        *_key(job),
        *(wait, failures, error, failures >= FAILURES_MAX),
    )
