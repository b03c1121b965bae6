"""Archived months, and the months that are old enough to be archived.

A month's files contain whole links of the hash chain, so that an auditor can verify the files with
the chain. The files of a month contain all links that end before the first later posting.
"""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Refusal
from manilla.proofs.verify import (
    HIGHEST_ID,
    LINKS,
    LOWEST_ID,
    NUMBERED_HERE,
    ArchivedMonth,
    Link,
)

FAR = datetime(9999, 1, 1, tzinfo=UTC)
# What to do if the files of a month are missing or changed.
RESTORE = (
    "Check that MANILLA_ARCHIVE_FOLDER is the archive of this database. If so, restore the month's "
    "folder from another copy."
)
_NUMBERED_HERE = NUMBERED_HERE.format(row="p", id="id")


class NotArchived(Refusal):
    message = "The month cannot be archived."


class StoredMonth(msgspec.Struct, frozen=True):
    """A row of the table `archive_month`."""

    month: date
    first_link: int
    last_link: int
    last_id: int
    manifest_sha256: bytes
    transactions: int
    written_at: datetime
    removed_at: datetime | None
    checked_at: datetime
    problem: str | None

    @property
    def name(self) -> str:
        return name_of(self.month)

    @property
    def until(self) -> datetime:
        return end_of(self.month)

    def files(self, archive: Path) -> ArchivedMonth:
        row = {**msgspec.structs.asdict(self), "month": self.month.isoformat()}
        return ArchivedMonth.of(archive, row)


class DueMonth(msgspec.Struct, frozen=True):
    """A month that can be archived, with the links that its files will contain."""

    month: date
    after_id: int
    links: list[Any]  # of `verify.Link`

    @property
    def name(self) -> str:
        return name_of(self.month)

    @property
    def until(self) -> datetime:
        return end_of(self.month)

    @property
    def last_id(self) -> int:
        last: Link = self.links[-1]
        return last.last_id


def name_of(month: date) -> str:
    return f"{month:%Y-%m}"


def end_of(month: date) -> datetime:
    """Returns the start of the next month, in UTC."""
    start = (month.replace(day=1) + timedelta(days=32)).replace(day=1)
    return datetime(start.year, start.month, 1, tzinfo=UTC)


def limit(now: datetime, years: int) -> datetime:
    """Returns the time before which months must end to be archived."""
    return now.replace(year=now.year - years, day=min(now.day, 28))


async def load(db: Database | Connection) -> list[StoredMonth]:
    return await db.rows(StoredMonth, "SELECT * FROM archive_month ORDER BY month")


async def load_links(db: Database | Connection, first: int, last: int) -> list[Link]:
    """Returns the links of the chain from one number to another.

    Skips links with postings that arrived with a merchant, which are never archived.
    """
    sql = f"SELECT * FROM ({LINKS}) AS link WHERE number BETWEEN $1 AND $2 AND merchant_id IS NULL"
    return [Link(**row) for row in await db.records(sql, first, last)]


async def next_due(db: Database, before: datetime) -> DueMonth | None:
    """Returns the oldest month that is not archived and ended before this time, or None."""
    archived = await load(db)
    after_id = archived[-1].last_id if archived else LOWEST_ID
    first_link = archived[-1].last_link + 1 if archived else 1
    oldest = await db.value(
        f"""
        SELECT min(posted_at) FROM posting p
         WHERE id > $1 AND id <= (
               SELECT last_id FROM posting_chain
                WHERE number >= $2 AND merchant_id IS NULL AND postings > 0
                ORDER BY number LIMIT 1)
           AND {_NUMBERED_HERE}""",
        *(after_id, first_link),
    )
    if oldest is None:
        return None
    month = oldest.astimezone(UTC).date().replace(day=1)
    if archived:
        month = max(month, end_of(archived[-1].month).date())
    while end_of(month) <= before:
        later_id = await _first_id_since(db, end_of(month), after_id)
        later_link = await db.value(
            "SELECT min(number) FROM posting_chain"
            " WHERE number >= $1 AND last_id >= $2 AND merchant_id IS NULL",
            *(first_link, HIGHEST_ID if later_id is None else later_id),
        )
        links = await load_links(
            db, first_link, HIGHEST_ID if later_link is None else later_link - 1
        )
        if links:
            return DueMonth(month, after_id, links)
        month = end_of(month).date()
    return None


async def _first_id_since(db: Database, moment: datetime, after_id: int) -> int | None:
    """Returns the lowest id of the postings from this time on, or None if there are none.

    The index on times is a block range index. The first query therefore reads only two days.
    """
    sql = (
        "SELECT min(id) FROM posting p WHERE id > $1 AND posted_at >= $2 AND posted_at < $3"
        f" AND {_NUMBERED_HERE}"
    )
    soon = await db.value(sql, *(after_id, moment, moment + timedelta(days=2)))
    found: int | None = soon or await db.value(sql, after_id, moment, FAR)
    return found


async def save_check(db: Database | Connection, month: StoredMonth, problem: str | None) -> None:
    """Saves the result of verifying a month's files."""
    await db.execute(
        "UPDATE archive_month SET checked_at = now(), problem = $2 WHERE month = $1",
        *(month.month, problem),
    )
