"""Jobs: work that a worker process does later, stored in the same database as the data.

A worker claims a job by taking a lease, and renews the lease while it works. If a worker dies, its
leases end and other workers can claim its jobs. Each job has a fence: a number that every claim,
and every new event about the job's subject, increases. The worker remembers the fence of its claim.
A worker that stalled past its lease therefore cannot end a job that another worker has claimed
since. An event that arrives while the job runs is not lost either: the job becomes due again when
it ends.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from enum import Enum

import msgspec

from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import Reads, columns


class Job(msgspec.Struct, frozen=True):
    merchant_id: int
    kind: str
    subject: str
    attempts: int
    failures: int
    fence: int  # the job's fence value when the worker claimed the job


class RunEnd(Enum):
    """What the handler has already done with the job, in one of its own SQL statements."""

    DELETED = "deleted"
    PUT_OFF = "put off"


# A job handler returns None when the job is done, or the number of seconds until the next attempt.
NextRun = float | RunEnd | None
Handler = Callable[[Job], Awaitable[NextRun]]


# Kinds with less concurrency share their claims, because each claim takes CPU time.
SHARED_BELOW = 16


class Work(msgspec.Struct, frozen=True):
    """The handler for one kind of job, and how many such jobs a worker runs concurrently."""

    handler: Handler
    concurrency: int
    # If True, merchants take turns, no matter how many jobs of each merchant are waiting. The kind
    # needs an index by merchant and due time. If False, jobs run in order of their due time.
    is_fair: bool = False

    @property
    def is_small(self) -> bool:
        """Whether the kind is claimed together with other kinds while few of its jobs are due."""
        return self.concurrency < SHARED_BELOW


def put_from(rows: str) -> str:
    """Returns the SQL that adds the jobs which the query `rows` selects.

    The query selects merchant, kind, subject and due time. If a subject already has a job of this
    kind, the earlier due time applies.
    """
    return f"""
        INSERT INTO job (merchant_id, kind, subject, due_at)
        {rows}
            ON CONFLICT (merchant_id, kind, subject) DO UPDATE
           SET due_at = least(job.due_at, excluded.due_at), fence = job.fence + 1,
               parked_at = NULL, failures = 0"""


_PUT = put_from("VALUES ($1, $2, $3, now() + $4::interval)")


async def put(
    connection: Connection | Database,
    merchant_id: int,
    kind: str,
    subject: str,
    *,
    in_seconds: float = 0,
) -> None:
    """Adds a job. If the subject already has a job of this kind, the earlier due time applies."""
    await connection.execute(_PUT, *(merchant_id, kind, subject, timedelta(seconds=in_seconds)))


async def put_missing(
    db: Database, kind: str, subjects: Sequence[str], *, in_seconds: float = 0
) -> None:
    """Adds a platform job, which belongs to no merchant, for each subject that has no job yet."""
    await db.execute(
        """
        INSERT INTO job (merchant_id, kind, subject, due_at)
        SELECT 0, $1, subject, now() + $3::interval FROM unnest($2::text[]) AS subject
            ON CONFLICT DO NOTHING""",
        *(kind, list(subjects), timedelta(seconds=in_seconds)),
    )


async def postpone(
    connection: Connection | Database, merchant_id: int, kind: str, subject: str, wait: timedelta
) -> None:
    """Delays a job, so that it runs after the `wait` time at the earliest."""
    await connection.execute(
        """
        UPDATE job SET due_at = greatest(due_at, now() + $4::interval)
         WHERE merchant_id = $1 AND kind = $2 AND subject = $3""",
        *(merchant_id, kind, subject, wait),
    )


async def due_at(db: Database, merchant_id: int, kind: str, subject: str) -> datetime | None:
    found: datetime | None = await db.value(
        "SELECT due_at FROM job WHERE merchant_id = $1 AND kind = $2 AND subject = $3",
        *(merchant_id, kind, subject),
    )
    return found


class JobProgress(msgspec.Struct, frozen=True):
    """The runs of a job so far, and its next run."""

    attempts: int
    failures: int
    due_at: datetime
    parked_at: datetime | None
    last_error: str | None
    result: str | None  # what was found out last, see `claims.save_results` and `save_result`
    result_at: datetime | None


async def progress(
    db: Reads, merchant_id: int, kind: str, subjects: Sequence[str]
) -> dict[str, JobProgress]:
    """Maps each subject that has a job of this kind now to the job's progress."""
    records = await db.records(
        f"""
        SELECT subject, {columns(JobProgress)} FROM job
         WHERE merchant_id = $1 AND kind = $2 AND subject = ANY ($3::text[])""",
        *(merchant_id, kind, list(subjects)),
    )
    return {record["subject"]: JobProgress(*list(record)[1:]) for record in records}


async def save_result(
    db: Connection | Database, merchant_id: int, kind: str, subject: str, result: str
) -> None:
    """Saves what was found out about a job's subject outside the job, if there is such a job."""
    await db.execute(
        """
        UPDATE job SET result = $4, result_at = now()
         WHERE merchant_id = $1 AND kind = $2 AND subject = $3""",
        *(merchant_id, kind, subject, result),
    )


async def delete(connection: Connection, merchant_id: int, kind: str, subject: str) -> None:
    await connection.execute(
        "DELETE FROM job WHERE merchant_id = $1 AND kind = $2 AND subject = $3",
        *(merchant_id, kind, subject),
    )


async def delete_unless_changed(
    connection: Connection, merchant_id: int, kind: str, subject: str
) -> None:
    """Deletes a job, unless an event has arrived since a worker or an administrator claimed it."""
    await connection.execute(
        """
        DELETE FROM job
         WHERE merchant_id = $1 AND kind = $2 AND subject = $3
           AND (lease IS NULL OR lease = fence)""",
        *(merchant_id, kind, subject),
    )


async def wake(connection: Connection, merchant_id: int, kinds: Sequence[str]) -> None:
    """Makes a merchant's jobs due now, because the condition that the jobs waited for has changed.

    Skips jobs that another session has locked; these jobs keep their due time. Workers lock several
    jobs in any order, so waiting for a lock could cause a deadlock.
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
    """Returns True if the worker still holds the job.

    Locks the job's row, so that no other worker can claim the job before the commit.
    """
    return await connection.has_row(
        """
        SELECT true FROM job
         WHERE merchant_id = $1 AND kind = $2 AND subject = $3 AND lease = $4 FOR UPDATE""",
        *(job.merchant_id, job.kind, job.subject, job.fence),
    )
