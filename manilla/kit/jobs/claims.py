"""Claims jobs, renews their leases, and records how they ended."""

import functools
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from manilla.kit import time_limits
from manilla.kit.database.connections import Database
from manilla.kit.jobs import Job

FAILURES_MAX = 12
FAILURE_WAIT_SECONDS_MAX = 300
HELD_AT_MOST = timedelta(seconds=90)

KIND = re.compile(r"[a-z]+(\.[a-z]+)?")
_IS_FREE = "parked_at IS NULL AND (leased_until IS NULL OR leased_until <= now())"
_READ_MAX = 16  # a claim reads at most this many merchants for each free slot
# Updates the rows that `due` has locked. Finding them by ctid is fast for any number of jobs.
_CLAIM = """
        UPDATE job
           SET leased_until = now() + $3, attempts = attempts + 1,
               -- The condition refers to the job, so that each job gets a number of its own. In
               -- FROM, a function without such a reference returns one number for all jobs.
               (fence, lease) = (SELECT number, number
                                   FROM (SELECT nextval('job_fence') AS number
                                          WHERE job.kind IS NOT NULL) AS new)
         WHERE ctid = ANY (ARRAY(SELECT place FROM due))
        RETURNING merchant_id, kind, subject, attempts, failures, fence"""


def _lease() -> timedelta:
    return timedelta(seconds=time_limits.current.lease_seconds)


async def claim(db: Database, limits: Mapping[str, int]) -> list[Job]:
    """Claims up to the given number of jobs of each kind, in the order of their due times."""
    return await db.rows_by_key(
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
        _lease(),
    )


async def claim_fairly(
    db: Database, kind: str, limit: int, after_merchant: int
) -> tuple[list[Job], int | None]:
    """Claims an equal share of due jobs for each merchant, starting after `after_merchant`.

    Also returns the last merchant that was read, or None if no merchants remain.
    """
    records = await db.records_by_key(_fair_claim(kind), limit, after_merchant, _lease())
    last_merchant: int | None = records[0]["last_merchant"]
    # The columns after the first one are the fields of a job.
    return [Job(*record[1:]) for record in records if record["subject"] is not None], last_merchant


@functools.cache
def _fair_claim(kind: str) -> str:
    """Returns the SQL that claims $1 jobs from the merchants after $2.

    The query reads as many merchants with due jobs as there are free slots, and only the oldest
    jobs of each merchant, so a merchant's long queue does not make it slower. If the share is one,
    the query claims the merchant's first job, which it has already found. It searches for another
    job only if the first job is locked or leased. The kind is part of the SQL text because the
    partial indexes cover only some kinds.
    """
    assert KIND.fullmatch(kind)
    waits = f"kind = '{kind}' AND parked_at IS NULL"
    first_after = f"""
                SELECT merchant_id, ctid AS head, due_at <= now() AS is_due FROM job
                 WHERE {waits} AND merchant_id > %s
                 ORDER BY merchant_id, due_at LIMIT 1"""
    free = f"""
                SELECT ctid AS place FROM job
                 WHERE {waits} AND due_at <= now() AND {_IS_FREE} AND %s
                   FOR UPDATE SKIP LOCKED"""
    head = free % "ctid = turn.head AND (SELECT jobs FROM share) = 1"
    # In the order of the merchant's part of the index, so without reading other merchants' jobs.
    behind = free % (
        "merchant_id BETWEEN turn.merchant_id AND turn.merchant_id"
        " ORDER BY merchant_id, due_at LIMIT (SELECT jobs FROM share)"
    )
    return f"""
        WITH RECURSIVE turn AS (
            SELECT first.*, 1 AS read, first.is_due::integer AS number
              FROM ({first_after % "$2"}) AS first
            UNION ALL
            SELECT next.*, turn.read + 1, turn.number + next.is_due::integer
              FROM turn CROSS JOIN LATERAL ({first_after % "turn.merchant_id"}) AS next
             WHERE turn.number < $1 AND turn.read < {_READ_MAX} * $1),
        share AS (
            SELECT greatest(1, $1 / greatest(1, count(*))) AS jobs FROM turn WHERE is_due),
        due AS (
            SELECT mine.place FROM (SELECT * FROM turn WHERE is_due) AS turn
             CROSS JOIN LATERAL (
                   SELECT place FROM ({head}) AS head
                    UNION ALL
                   SELECT place FROM ({behind}) AS behind
                    LIMIT (SELECT jobs FROM share)) AS mine
             LIMIT $1),
        claimed AS (
        {_CLAIM})
        SELECT last.merchant_id AS last_merchant, claimed.*
          FROM (SELECT CASE WHEN max(number) = $1 OR max(read) = {_READ_MAX} * $1
                            THEN max(merchant_id) END AS merchant_id
                  FROM turn) AS last
          LEFT JOIN claimed ON true"""


KEY = ("merchant_id", "kind", "subject", "fence")  # a claimed job's key: the row, and the claim
_KEY_OF_MINE = ", ".join(f"mine.{name}" for name in KEY)


def key(job: Job) -> tuple[int, str, str, int]:
    return job.merchant_id, job.kind, job.subject, job.fence


def keys(jobs: Sequence[Job]) -> tuple[list[int], list[str], list[str], list[int]]:
    return (
        [job.merchant_id for job in jobs],
        [job.kind for job in jobs],
        [job.subject for job in jobs],
        [job.fence for job in jobs],
    )


def _mine(first: int = 1, more: str = "", name: str = "") -> str:
    """Returns the SQL that selects the jobs whose `keys` are the parameters from number `first` on.

    A worker that has lost its lease on the job changes nothing. If the lease is valid but the job's
    fence is newer, an event has arrived since the claim. The worker then releases the job, so that
    it becomes due again.
    """
    merchants, kinds, subjects, fences = (f"${number}" for number in range(first, first + 4))
    return f"""
      FROM unnest({merchants}::bigint[], {kinds}::text[], {subjects}::text[], {fences}::bigint[]
                  {more}) AS mine (merchant_id, kind, subject, fence{name})
     WHERE job.merchant_id = ANY (ARRAY[mine.merchant_id]) AND job.kind = mine.kind
       AND job.subject = mine.subject AND job.lease = mine.fence"""


_MINE = _mine()
_GIVE_BACK = "lease = NULL, leased_until = NULL"
# An event that arrived while the job ran may have set a due time in the future.
_DUE_AGAIN = "greatest(job.due_at, now())"


def deletion(first: int = 1, *, after: Sequence[str] = ()) -> str:
    """Returns the SQL that deletes jobs, except jobs with an event since the claim.

    The parameters from number `first` on are the jobs' `keys`. Returns the deleted jobs' `KEY`s.
    `after` names the parts (WITH) of the same SQL statement that must run before. PostgreSQL
    evaluates conditions that do not depend on a row first.
    """
    mine = _mine(first).replace("FROM unnest", "USING unnest", 1)
    order = "".join(f" AND (SELECT count(*) FROM {part}) >= 0" for part in after)
    return f"DELETE FROM job {mine} AND job.fence = mine.fence{order} RETURNING {_KEY_OF_MINE}"


def putting_off(first: int = 1) -> str:
    """Returns the SQL that releases jobs until a later time, or until now after an event.

    The parameters from number `first` on are the jobs' `keys`, and the waits.
    """
    due_at = f"CASE WHEN job.fence = mine.fence THEN now() + mine.wait ELSE {_DUE_AGAIN} END"
    return f"""
    UPDATE job SET {_GIVE_BACK}, due_at = {due_at}, failures = 0, last_error = NULL
    {_mine(first, f", ${first + 4}::interval[]", ", wait")}"""


async def renew(db: Database, held: Sequence[Job]) -> None:
    """Renews the leases of these jobs.

    Skips locked jobs. The SQL statement that has locked a job is about to finish it.
    """
    mine = _MINE.replace("FROM unnest", "FROM job, unnest", 1)
    await db.records_by_key(
        f"""
        WITH due AS (SELECT job.ctid AS place {mine} FOR UPDATE OF job SKIP LOCKED)
        UPDATE job SET leased_until = now() + $5
         WHERE ctid = ANY (ARRAY(SELECT place FROM due))""",
        *keys(held),
        _lease(),
    )


_DELETE = deletion()
_RELEASE = f"UPDATE job SET {_GIVE_BACK}, due_at = {_DUE_AGAIN} {_MINE}"
_PUT_OFF = putting_off()


async def end(db: Database, ended: Sequence[Job]) -> list[None]:
    deleted = await db.records_by_key(_DELETE, *keys(ended))
    if len(deleted) < len(ended):
        # The jobs that were not deleted had an event since the claim, or their lease was lost.
        await db.records_by_key(_RELEASE, *keys(ended))
    return [None] * len(ended)


async def put_off(db: Database, later: Sequence[tuple[Job, float]]) -> list[None]:
    await db.records_by_key(
        _PUT_OFF,
        *keys([job for job, _ in later]),
        [timedelta(seconds=seconds) for _, seconds in later],
    )
    return [None] * len(later)


async def save_results(db: Database, results: Sequence[tuple[Job, str]]) -> list[None]:
    """Saves what the jobs' runs have found out. A worker that has lost a job changes nothing."""
    mine = _mine(1, ", $5::text[]", ", result")
    await db.records_by_key(
        f"UPDATE job SET result = mine.result, result_at = now() {mine}",
        *keys([job for job, _ in results]),
        [result for _, result in results],
    )
    return [None] * len(results)


async def fail(db: Database, job: Job, error: str) -> None:
    """Schedules a retry after a delay that increases with each failure.

    After FAILURES_MAX failures the job is marked as failed and waits for an administrator.
    """
    failures = job.failures + 1
    wait = timedelta(seconds=min(2**failures, FAILURE_WAIT_SECONDS_MAX))
    await db.execute(
        f"UPDATE job SET {_GIVE_BACK}, due_at = now() + $5::interval, failures = $6,"
        " last_error = $7, parked_at = CASE WHEN $8 THEN now() END" + _MINE,
        *keys([job]),
        *(wait, failures, error, failures >= FAILURES_MAX),
    )


@asynccontextmanager
async def hold_job(
    db: Database, merchant_id: int, kind: str, subject: str
) -> AsyncIterator[Job | None]:
    """Holds a job, so that no worker runs it. Yields None if a worker already holds the job.

    Creates the job if it does not exist. After the block, workers can claim the job if it still
    exists.
    """
    fence = await db.value(
        """
        WITH new AS (SELECT nextval('job_fence') AS fence)
        INSERT INTO job AS j (merchant_id, kind, subject, due_at, fence, lease, leased_until)
        SELECT $1, $2, $3, now(), fence, fence, now() + $4::interval FROM new
            ON CONFLICT (merchant_id, kind, subject) DO UPDATE
           SET fence = excluded.fence, lease = excluded.lease, leased_until = excluded.leased_until
         WHERE j.leased_until IS NULL OR j.leased_until <= now()
        RETURNING fence""",
        *(merchant_id, kind, subject, HELD_AT_MOST),
    )
    if fence is None:
        yield None
        return
    job = Job(merchant_id, kind, subject, 0, 0, fence)
    try:
        yield job
    finally:
        await db.execute(f"UPDATE job SET {_GIVE_BACK}" + _MINE, *keys([job]))
