"""Counts the waiting, running and failed jobs of each kind."""

from datetime import datetime

import msgspec

from manilla.kit.database.connections import Database


class JobQueue(msgspec.Struct, frozen=True):
    kind: str
    count: int
    due: int  # jobs that are due and that no worker has claimed yet
    running: int
    failed: int
    oldest_due_at: datetime | None
    next_due_at: datetime | None


async def job_queues(db: Database) -> list[JobQueue]:
    return await db.rows(
        JobQueue,
        """
        SELECT kind, count(*) AS count,
               count(*) FILTER (WHERE is_due AND NOT is_running) AS due,
               count(*) FILTER (WHERE is_running) AS running,
               count(*) FILTER (WHERE parked_at IS NOT NULL) AS failed,
               min(due_at) FILTER (WHERE is_due AND NOT is_running) AS oldest_due_at,
               min(due_at) FILTER (WHERE due_at > now() AND parked_at IS NULL) AS next_due_at
          FROM (SELECT kind, due_at, parked_at, parked_at IS NULL AND due_at <= now() AS is_due,
                       coalesce(leased_until > now(), false) AS is_running
                  FROM job) AS each
         GROUP BY kind ORDER BY kind""",
    )
