"""Failed jobs, which have used all their attempts and wait for an administrator."""

from datetime import datetime

import msgspec

from manilla.kit import listing
from manilla.kit.db import Connection, Database
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, PAGE_ROWS_MAX, Conditions, Page


class FailedJob(msgspec.Struct, frozen=True):
    merchant_id: int  # 0 if the merchant is unknown
    kind: str
    subject: str
    attempts: int
    failures: int
    parked_at: datetime
    last_error: str | None


FIELDS = Fields(FailedJob, merchant_id=lambda job: job.merchant_id or None)


class FailedJobFilter(msgspec.Struct, frozen=True, kw_only=True):
    merchant_id: listing.Number | None = None
    kind: str | None = None
    search: str | None = None  # exact subject of the job


async def failed_jobs(
    db: Database, wanted: FailedJobFilter, *, after: str | None = None, limit: int = PAGE_ROWS
) -> Page[FailedJob]:
    """Returns one page of failed jobs, newest first."""
    limit = min(limit, PAGE_ROWS_MAX)
    conditions = (
        Conditions()
        .add_given("merchant_id = {}", wanted.merchant_id)
        .add_given("kind = {}", wanted.kind)
        .add_given("subject = {}", listing.searched(wanted.search))
    )
    key = listing.read_cursor(tuple[datetime, int, str, str], after)
    if key is not None:
        conditions.add("(parked_at, merchant_id, kind, subject) < ({}, {}, {}, {})", *key)
    rows = await db.rows(
        FailedJob,
        f"""
        SELECT merchant_id, kind, subject, attempts, failures, parked_at, last_error FROM job
         WHERE parked_at IS NOT NULL AND {conditions.sql}
         ORDER BY parked_at DESC, merchant_id DESC, kind DESC, subject DESC LIMIT {limit}""",
        *conditions.values,
    )
    if len(rows) < limit:
        return Page(rows)
    last = rows[-1]
    return Page(rows, listing.cursor((last.parked_at, last.merchant_id, last.kind, last.subject)))


async def count_failed_jobs(db: Database) -> int:
    return await db.number("SELECT count(*) FROM job WHERE parked_at IS NOT NULL")


async def release(connection: Connection, merchant_id: int, kind: str, subject: str) -> bool:
    """Makes a failed job due now, with a full set of retries.

    Returns False if it is no longer a failed job.
    """
    return await connection.has_row(
        """
        UPDATE job SET parked_at = NULL, failures = 0, due_at = now(), fence = fence + 1
         WHERE merchant_id = $1 AND kind = $2 AND subject = $3 AND parked_at IS NOT NULL
        RETURNING true""",
        *(merchant_id, kind, subject),
    )
