"""Failed jobs, which have used all their attempts and need an administrator."""

from datetime import datetime

import msgspec

from manilla.kit import listing
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import Reads, columns
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, Conditions, Page
from manilla.kit.listing.sorting import (
    RecordFilter,
    Selection,
    SortKeys,
    SortOrder,
    Totals,
    read_as,
)


class FailedJob(msgspec.Struct, frozen=True):
    merchant_id: int  # 0 if the merchant is unknown
    kind: str
    subject: str
    attempts: int
    failures: int
    parked_at: datetime
    last_error: str | None


FIELDS = Fields(FailedJob, merchant_id=lambda job: job.merchant_id or None)


_KEY = ("parked_at", "merchant_id", "kind", "subject")
_ORDERS = {
    SortOrder.NEWEST: SortKeys(_KEY, tuple[datetime, int, str, str]),
    SortOrder.OLDEST: SortKeys(_KEY, tuple[datetime, int, str, str], False),
}


class FailedJobFilter(RecordFilter, frozen=True, kw_only=True):
    merchant_id: listing.Number | None = None
    kind: str | None = None
    search: str | None = None  # the job's exact subject


async def failed_jobs(
    db: Reads, wanted: FailedJobFilter, *, after: str | None = None, limit: int = PAGE_ROWS
) -> Page[FailedJob]:
    return await _selected(wanted).page(db, read_as(FailedJob), wanted.sort, after, limit)


async def totals(db: Reads, wanted: FailedJobFilter) -> Totals:
    return await _selected(wanted).count(db)


def _selected(wanted: FailedJobFilter) -> Selection:
    conditions = (
        Conditions()
        .add("parked_at IS NOT NULL")
        .add_given("merchant_id = {}", wanted.merchant_id)
        .add_given("kind = {}", wanted.kind)
        .add_given("subject = {}", listing.search_text(wanted.search))
        .add_given("parked_at >= {}", wanted.since)
        .add_given("parked_at < {}", wanted.until)
    )
    return Selection("job", columns(FailedJob), _ORDERS, conditions)


async def count_failed_jobs(db: Database) -> int:
    return await db.number("SELECT count(*) FROM job WHERE parked_at IS NOT NULL")


async def release(connection: Connection, merchant_id: int, kind: str, subject: str) -> bool:
    """Makes a failed job due now, with a full set of retries.

    Returns False if the job is no longer a failed job.
    """
    return await connection.has_row(
        """
        UPDATE job SET parked_at = NULL, failures = 0, due_at = now(), fence = fence + 1
         WHERE merchant_id = $1 AND kind = $2 AND subject = $3 AND parked_at IS NOT NULL
        RETURNING true""",
        *(merchant_id, kind, subject),
    )
