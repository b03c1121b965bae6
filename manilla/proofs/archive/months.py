"""Archived months, and the months that are old enough to be archived.

A month's files contain whole links of the hash chain, so that an auditor can verify the files with
the chain. The files of a month contain all links that end before the first later posting.
"""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from manilla.kit.db import Connection, Database
from manilla.kit.errors import Refusal
from manilla.proofs.verify import LINKS, LOWEST_ID, ArchivedMonth, Link


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


async def next_due(db: Database, before: datetime) -> DueMonth | None:
    """Returns the oldest month that is not archived and ended before this time, or None."""
    archived = await load(db)
    after_id = archived[-1].last_id if archived else LOWEST_ID
    rows = await db.records(LINKS)
    links = [Link(**row) for row in rows if row["first_id"] > after_id]
    oldest = await db.value(
        "SELECT min(posted_at) FROM posting WHERE id > $1 AND trx_id <> 'carried_forward'", after_id
    )
    if oldest is None:
        return None
    month = oldest.astimezone(UTC).date().replace(day=1)
    if archived:
        month = max(month, end_of(archived[-1].month).date())
    while end_of(month) <= before:
        later_id = await db.value(
            "SELECT min(id) FROM posting WHERE id > $1 AND posted_at >= $2",
            *(after_id, end_of(month)),
        )
        whole = [link for link in links if later_id is None or link.last_id < later_id]
        if whole:
            return DueMonth(month, after_id, whole)
        month = end_of(month).date()
    return None


async def save_check(db: Database, month: StoredMonth, problem: str | None) -> None:
    """Saves the result of verifying a month's files."""
    await db.execute(
        "UPDATE archive_month SET checked_at = now(), problem = $2 WHERE month = $1",
        *(month.month, problem),
    )
