"""Work that is due now or later, kept in the database with what caused it.

A job is claimed for a while. Whoever claims it gets a number; each later claim, and each new cause,
raises it. So a worker that was frozen past its lease cannot end a job that another one has taken,
and a cause that arrives while the job runs is not lost when it ends.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta

import msgspec
import structlog

from manilla.kit.batch import Batcher
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
    # Merchant by merchant, however many jobs one of them has waiting; else by when they are due.
    in_turns: bool = False


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
        self._turn = -1  # the merchant who had the last turn

        async def end(ended: Sequence[Job]) -> Sequence[None]:
            return await _end(db, ended)

        async def put_off(later: Sequence[tuple[Job, float]]) -> Sequence[None]:
            return await _put_off(db, later)

        self._end: Batcher[Job, None] = Batcher(end)
        self._put_off: Batcher[tuple[Job, float], None] = Batcher(put_off)

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
        by_time, in_turns = self._free(in_turns=False), self._free(in_turns=True)
        claimed = await claim(self._db, by_time) if by_time else []
        for kind, places in in_turns.items():
            claimed += await self._claim_in_turns(kind, places)
        return claimed

    async def _claim_in_turns(self, kind: str, places: int) -> list[Job]:
        taken = await claim_in_turns(self._db, kind, places, self._turn)
        if not taken and self._turn >= 0:
            taken = await claim_in_turns(self._db, kind, places, -1)  # a new round
        self._turn = max((job.merchant_id for job in taken), default=-1)
        return taken

    def _free(self, *, in_turns: bool) -> dict[str, int]:
        """Places for more; not before some are free, so that claims are worth their statement."""
        return {
            kind: work.places - len(self._running[kind])
            for kind, work in self._works.items()
            if work.in_turns is in_turns
            and work.places - len(self._running[kind]) >= max(1, work.places // 4)
        }

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
                await self._end.submit(job)
            else:
                await self._put_off.submit((job, again_seconds))
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


async def claim_in_turns(db: Database, kind: str, places: int, after_merchant: int) -> list[Job]:
    """A share for each merchant that has something due, beginning after the one who had the last.

    It looks at as many merchants as there are places, and at each one's oldest jobs alone: how
    much waits behind them makes no difference. The kind stands in the statement itself, because
    the index is for that kind alone.
    """
    assert kind.isidentifier()
    return await db.rows(
        Job,
        f"""
        WITH RECURSIVE turn AS (
            (SELECT merchant_id, 1 AS number FROM job
              WHERE kind = '{kind}' AND parked_at IS NULL AND merchant_id > $2
              ORDER BY merchant_id LIMIT 1)
            UNION ALL
            SELECT (SELECT merchant_id FROM job
                     WHERE kind = '{kind}' AND parked_at IS NULL AND merchant_id > turn.merchant_id
                     ORDER BY merchant_id LIMIT 1), turn.number + 1
              FROM turn WHERE turn.merchant_id IS NOT NULL AND turn.number < $1),
        due AS (
            SELECT j.merchant_id, j.subject
              FROM turn
             CROSS JOIN LATERAL (
                   SELECT merchant_id, subject FROM job
                    WHERE job.merchant_id = turn.merchant_id AND kind = '{kind}' AND due_at <= now()
                      AND parked_at IS NULL
                    ORDER BY due_at
                    LIMIT greatest(1, $1 / (SELECT count(*) FROM turn))
                      FOR UPDATE SKIP LOCKED) AS j
             LIMIT $1)
        UPDATE job
           SET due_at = now() + $3, attempts = job.attempts + 1, fence = job.fence + 1
          FROM due
         WHERE job.merchant_id = due.merchant_id AND job.kind = '{kind}'
           AND job.subject = due.subject
        RETURNING job.merchant_id, job.kind, job.subject, job.attempts, job.failures, job.fence""",
        *(places, after_merchant, LEASE),
    )


def _keys(jobs: Sequence[Job]) -> tuple[list[int], list[str], list[str], list[int]]:
    return (
        [job.merchant_id for job in jobs],
        [job.kind for job in jobs],
        [job.subject for job in jobs],
        [job.fence for job in jobs],
    )


# Who holds an older fence than the row has lost the job, and changes nothing.
_MINE = """
      FROM unnest($1::bigint[], $2::text[], $3::text[], $4::integer[]{more})
           AS mine (merchant_id, kind, subject, fence{name})
     WHERE job.merchant_id = mine.merchant_id AND job.kind = mine.kind
       AND job.subject = mine.subject AND job.fence = mine.fence"""


async def _end(db: Database, ended: Sequence[Job]) -> list[None]:
    mine = _MINE.format(more="", name="").replace("FROM unnest", "USING unnest", 1)
    await db.execute("DELETE FROM job" + mine, *_keys(ended))
    return [None] * len(ended)


async def _put_off(db: Database, later: Sequence[tuple[Job, float]]) -> list[None]:
    await db.execute(
        "UPDATE job SET due_at = now() + mine.wait, failures = 0, last_error = NULL"
        + _MINE.format(more=", $5::interval[]", name=", wait"),
        *_keys([job for job, _ in later]),
        [timedelta(seconds=seconds) for _, seconds in later],
    )
    return [None] * len(later)


async def _fail(db: Database, job: Job, error: str) -> None:
    """Tried again ever more seldom; then parked, where a person sees it."""
    failures = job.failures + 1
    wait = timedelta(seconds=min(2**failures, FAILURE_WAIT_SECONDS_MAX))
    await db.execute(
        "UPDATE job SET due_at = now() + $5::interval, failures = $6, last_error = $7,"
        " parked_at = CASE WHEN $8 THEN now() END" + _MINE.format(more="", name=""),
        *_keys([job]),
        *(wait, failures, error, failures >= FAILURES_MAX),
    )
