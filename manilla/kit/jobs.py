"""Work that a worker process does now or later, stored in the same database as its cause.

A worker claims a job by taking a lease, and renews it while it works, so the jobs of a dead worker
soon become free. Each claim and each new cause raises the job's fence, a number; the worker keeps
the fence of its claim. A worker that stalled past its lease therefore cannot end a job that another
worker has claimed since. A cause that arrives while the job runs is not lost either: the job
becomes due again when it ends.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial

import msgspec
import structlog

from manilla.kit.batch import Batcher
from manilla.kit.db import Connection, Database
from manilla.kit.errors import Unavailable

log = structlog.get_logger(__name__)

LEASE = timedelta(seconds=30)
RENEW_SECONDS = 5.0
WORK_SECONDS_MAX = 180.0  # a job that takes longer hangs, and its lease is no longer renewed
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
    fence: int  # as of this claim


# Does the work. Returns None when done, or the number of seconds until the next attempt.
Handler = Callable[[Job], Awaitable[float | None]]


class Work(msgspec.Struct, frozen=True):
    """The handler for one kind of job, and its concurrency."""

    handler: Handler
    concurrency: int
    # True: fair scheduling, merchant by merchant, however many jobs a merchant has waiting. False:
    # by due time.
    in_turns: bool = False


async def put(
    connection: Connection | Database,
    merchant_id: int,
    kind: str,
    subject: str,
    *,
    in_seconds: float = 0,
) -> None:
    """Adds a job. If the subject already has one, the earlier due time applies."""
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
    """Deletes a job that is no longer needed."""
    await connection.execute(
        "DELETE FROM job WHERE merchant_id = $1 AND kind = $2 AND subject = $3",
        *(merchant_id, kind, subject),
    )


async def wake(connection: Connection, merchant_id: int, kinds: Sequence[str]) -> None:
    """Makes a merchant's jobs due now, because what they waited for has changed.

    Skips jobs that another session has locked, which stay due at their own time: workers lock
    several jobs in any order, so waiting for a lock could deadlock.
    """
    await connection.execute(
        """
        UPDATE job SET due_at = least(due_at, now()), fence = fence + 1
         WHERE ctid = ANY (ARRAY(
               SELECT ctid FROM job
                WHERE merchant_id = $1 AND kind = ANY ($2::text[]) AND parked_at IS NULL
                  FOR UPDATE SKIP LOCKED))""",
        *(merchant_id, list(kinds)),
    )


async def is_held(connection: Connection, job: Job) -> bool:
    """Whether the worker still holds the job. Locks the job, so the result holds until commit."""
    held = await connection.value(
        """
        SELECT true FROM job
         WHERE merchant_id = $1 AND kind = $2 AND subject = $3 AND lease = $4 FOR UPDATE""",
        *(job.merchant_id, job.kind, job.subject, job.fence),
    )
    return bool(held)


class Runner:
    """Claims due jobs and runs them until `stop` is set."""

    def __init__(self, db: Database, works: Mapping[str, Work]) -> None:
        self._db = db
        self._works = works
        self._running: dict[str, set[asyncio.Task[None]]] = {kind: set() for kind in works}
        self._held: dict[Job, float] = {}  # start time of each job that this process holds
        self._full: set[str] = set()  # kinds with no capacity at the last claim
        self._freed = asyncio.Event()
        self._end: Batcher[Job, None] = Batcher(partial(_end, db))
        self._put_off: Batcher[tuple[Job, float], None] = Batcher(partial(_put_off, db))

    async def run(self, stop: asyncio.Event) -> None:
        by_time = [kind for kind, work in self._works.items() if not work.in_turns]
        lanes = [self._run_by_time(by_time, stop)] if by_time else []
        lanes += [
            self._run_in_turns(kind, stop) for kind, work in self._works.items() if work.in_turns
        ]
        renewing = asyncio.create_task(self._renew())
        try:
            await asyncio.gather(*lanes)
            running = [task for tasks in self._running.values() for task in tasks]
            if running:
                await asyncio.wait(running, timeout=STOP_SECONDS)
        finally:
            renewing.cancel()

    async def _run_by_time(self, kinds: Sequence[str], stop: asyncio.Event) -> None:
        while not stop.is_set():
            free = {kind: limit for kind in kinds if (limit := self._free(kind))}
            claimed = await self._claimed(claim(self._db, free)) if free else []
            by_kind = {kind: sum(job.kind == kind for job in claimed) for kind in free}
            self._freed.clear()
            self._full = {kind for kind in kinds if not self._free(kind)}
            if all(by_kind[kind] < limit or kind in self._full for kind, limit in free.items()):
                await _pause(self._freed)

    async def _run_in_turns(self, kind: str, stop: asyncio.Event) -> None:
        turn, found_any = -1, False
        while not stop.is_set():
            limit = self._free(kind)
            if not limit:
                await asyncio.wait(self._running[kind], return_when=asyncio.FIRST_COMPLETED)
                continue
            try:
                claimed, last = await claim_in_turns(self._db, kind, limit, turn)
            except Unavailable as away:
                log.warning("jobs_not_claimed", **away.facts)
                claimed, last = [], None
            for job in claimed:
                self._start(job)
            found_any |= bool(claimed)
            if last is not None:
                turn = last
                continue
            if not found_any:
                await _pause(stop)
            turn, found_any = -1, False  # start the next round with the first merchant

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            latest = time.monotonic() - WORK_SECONDS_MAX
            held = [job for job, since in self._held.items() if since > latest]
            try:
                if held:
                    await _renew(self._db, held)
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
        """Returns how many more jobs to claim; 0 until a quarter of the capacity is free.

        Claiming several jobs at once makes the statement worth its cost.
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
                self._freed.set()

        task.add_done_callback(ended)

    async def _do(self, job: Job) -> None:
        """Runs one claimed job and records its result."""
        self._held[job] = time.monotonic()
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
        except Unavailable as away:  # the lease will run out, and another claim follows
            log.warning("job_not_ended", kind=job.kind, subject=job.subject, **away.facts)
        finally:
            del self._held[job]


async def _pause(until: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(until.wait(), POLL_SECONDS)


_IS_FREE = "parked_at IS NULL AND (leased_until IS NULL OR leased_until <= now())"
# Updates the rows that `due` has locked by ctid, a plan that suits any number of waiting jobs.
_CLAIM = """
        UPDATE job
           SET leased_until = now() + $3, attempts = attempts + 1,
               (fence, lease) = (SELECT number, number FROM nextval('job_fence') AS number
                                  WHERE job.kind IS NOT NULL)  -- one for each job
         WHERE ctid = ANY (ARRAY(SELECT place FROM due))
        RETURNING merchant_id, kind, subject, attempts, failures, fence"""


async def claim(db: Database, limits: Mapping[str, int]) -> list[Job]:
    """Claims up to the given number of jobs per kind, the longest due first."""
    return await db.rows(
        Job,
        f"""
        WITH due AS (
            SELECT j.place
              FROM unnest($1::text[], $2::integer[]) AS k (kind, limits)
             CROSS JOIN LATERAL (
                   SELECT ctid AS place FROM job
                    WHERE job.kind = k.kind AND due_at <= now() AND {_IS_FREE}
                    ORDER BY due_at LIMIT k.limits
                      FOR UPDATE SKIP LOCKED) AS j)
        {_CLAIM}""",
        list(limits),
        list(limits.values()),
        LEASE,
    )


async def claim_in_turns(
    db: Database, kind: str, limit: int, after_merchant: int
) -> tuple[list[Job], int | None]:
    """Claims an equal share of due jobs for each merchant, starting after `after_merchant`.

    It visits as many merchants as there are free slots, and only the oldest jobs of each, so the
    length of a merchant's queue makes no difference. If the share is one, it takes the merchant's
    first job, which the visit has already found, and searches for another one only if that job is
    locked or leased.

    Also returns the last merchant visited, or None if no merchants remain. The kind is part of the
    SQL text because the partial index covers only that kind.
    """
    assert kind.isidentifier()
    waits = f"kind = '{kind}' AND parked_at IS NULL"
    records = await db.records(
        f"""
        WITH RECURSIVE turn AS (
            (SELECT merchant_id, ctid AS head, 1 AS number FROM job
              WHERE {waits} AND merchant_id > $2
              ORDER BY merchant_id, due_at LIMIT 1)
            UNION ALL
            SELECT next.merchant_id, next.head, turn.number + 1
              FROM turn
             CROSS JOIN LATERAL (
                   SELECT merchant_id, ctid AS head FROM job
                    WHERE {waits} AND merchant_id > turn.merchant_id
                    ORDER BY merchant_id, due_at LIMIT 1) AS next
             WHERE turn.number < $1),
        share AS (SELECT greatest(1, $1 / greatest(1, count(*))) AS jobs FROM turn),
        due AS (
            SELECT mine.place FROM turn
             CROSS JOIN LATERAL (
                   SELECT place FROM (
                          SELECT ctid AS place FROM job
                           WHERE ctid = turn.head AND (SELECT jobs FROM share) = 1
                             AND {waits} AND due_at <= now() AND {_IS_FREE}
                             FOR UPDATE SKIP LOCKED) AS head
                    UNION ALL
                   SELECT place FROM (
                          SELECT ctid AS place FROM job
                           WHERE merchant_id BETWEEN turn.merchant_id AND turn.merchant_id
                             AND {waits} AND due_at <= now() AND {_IS_FREE}
                           -- The order of `job_turns` alone: not through other merchants' jobs.
                           ORDER BY merchant_id, due_at LIMIT (SELECT jobs FROM share)
                             FOR UPDATE SKIP LOCKED) AS behind
                    LIMIT (SELECT jobs FROM share)) AS mine
             LIMIT $1),
        claimed AS (
        {_CLAIM})
        SELECT last.merchant_id AS last_merchant, claimed.*
          FROM (SELECT CASE WHEN count(merchant_id) = $1 THEN max(merchant_id) END AS merchant_id
                  FROM turn) AS last
          LEFT JOIN claimed ON true""",
        *(limit, after_merchant, LEASE),
    )
    last_merchant: int | None = records[0]["last_merchant"]
    claimed = [dict(record) for record in records if record["subject"] is not None]
    return [msgspec.convert(fields, Job) for fields in claimed], last_merchant


def _keys(jobs: Sequence[Job]) -> tuple[list[int], list[str], list[str], list[int]]:
    return (
        [job.merchant_id for job in jobs],
        [job.kind for job in jobs],
        [job.subject for job in jobs],
        [job.fence for job in jobs],
    )


# A worker that has lost the lease changes nothing. A worker that still has the lease but not the
# newest fence gives the job back, and it is due now, because a new cause has arrived since the
# claim.
_MINE = """
      FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]{more})
           AS mine (merchant_id, kind, subject, fence{name})
     WHERE job.merchant_id = mine.merchant_id AND job.kind = mine.kind
       AND job.subject = mine.subject AND job.lease = mine.fence"""
_GIVE_BACK = "lease = NULL, leased_until = NULL"
# A cause that arrived in the meantime may have set a due time in the future.
_DUE_AGAIN = "greatest(job.due_at, now())"


async def _renew(db: Database, held: Sequence[Job]) -> None:
    """Renews the leases, skipping locked jobs: another statement is already ending those."""
    mine = _MINE.format(more="", name="").replace("FROM unnest", "FROM job, unnest", 1)
    await db.execute(
        f"""
        WITH due AS (SELECT job.ctid AS place {mine} FOR UPDATE OF job SKIP LOCKED)
        UPDATE job SET leased_until = now() + $5
         WHERE ctid = ANY (ARRAY(SELECT place FROM due))""",
        *_keys(held),
        LEASE,
    )


async def _end(db: Database, ended: Sequence[Job]) -> list[None]:
    mine = _MINE.format(more="", name="")
    async with db.transaction() as connection:
        await connection.execute(
            "DELETE FROM job"
            + mine.replace("FROM unnest", "USING unnest", 1)
            + " AND job.fence = mine.fence",
            *_keys(ended),
        )
        await connection.execute(
            f"UPDATE job SET {_GIVE_BACK}, due_at = {_DUE_AGAIN}" + mine, *_keys(ended)
        )
    return [None] * len(ended)


async def _put_off(db: Database, later: Sequence[tuple[Job, float]]) -> list[None]:
    due_at = f"CASE WHEN job.fence = mine.fence THEN now() + mine.wait ELSE {_DUE_AGAIN} END"
    await db.execute(
        f"UPDATE job SET {_GIVE_BACK}, due_at = {due_at}, failures = 0, last_error = NULL"
        + _MINE.format(more=", $5::interval[]", name=", wait"),
        *_keys([job for job, _ in later]),
        [timedelta(seconds=seconds) for _, seconds in later],
    )
    return [None] * len(later)


async def _fail(db: Database, job: Job, error: str) -> None:
    """Schedules a retry with increasing delay.

    After FAILURES_MAX failures the job waits for a person.
    """
    failures = job.failures + 1
    wait = timedelta(seconds=min(2**failures, FAILURE_WAIT_SECONDS_MAX))
    await db.execute(
        f"UPDATE job SET {_GIVE_BACK}, due_at = now() + $5::interval, failures = $6,"
        " last_error = $7, parked_at = CASE WHEN $8 THEN now() END"
        + _MINE.format(more="", name=""),
        *_keys([job]),
        *(wait, failures, error, failures >= FAILURES_MAX),
    )
