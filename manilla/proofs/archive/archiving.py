"""Moves old months to the archive: writes files, verifies them, and then removes the rows.

Each step can be repeated. A run that was interrupted is continued by the next run.
"""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import datetime
from pathlib import Path

import msgspec
import structlog

from manilla.audit import audit
from manilla.kit import crash
from manilla.kit.database.connections import Connection, Database
from manilla.proofs.archive import months, writing
from manilla.proofs.archive.lookup import read_transactions
from manilla.proofs.archive.months import DueMonth, NotArchived, StoredMonth
from manilla.proofs.verify import ArchivedMonth

log = structlog.get_logger(__name__)

BATCH = 1_000
LOCK = "hashtext('archive')"


class _Head(msgspec.Struct, frozen=True):
    """The start of a line of a month's transactions."""

    merchant_id: int
    trx_id: str


_HEAD = msgspec.json.Decoder(_Head)


class ArchiveResult(msgspec.Struct, frozen=True):
    month: str
    transactions: int  # in the month's files
    removed: int  # from the database, in this run


async def run(db: Database, archive: Path, before: datetime) -> AsyncIterator[ArchiveResult]:
    """Archives all months that ended before this time. `db` is opened by the tables' owner.

    The session that holds the lock also saves months and removes rows. If the session is lost,
    another process can get the lock, and this process can no longer change anything.
    """
    async with db.connection() as connection:
        await _check_before(connection, archive)
        if not await connection.value(f"SELECT pg_try_advisory_lock({LOCK})"):
            raise NotArchived("Another process is archiving. Wait until it has ended.")
        try:
            for month in await months.load(db):
                if month.removed_at is None:
                    yield await _remove(connection, archive, month)
            while (due := await months.next_due(db, before)) is not None:
                written = await writing.write(db, archive, due)
                crash.point("after_archive_files")
                yield await _remove(connection, archive, await _save(connection, due, written))
        finally:
            await connection.value(f"SELECT pg_advisory_unlock({LOCK})")


async def _check_before(connection: Connection, archive: Path) -> None:
    """Raises an error if the run would fail after writing files, or would split the archive."""
    if not await connection.value("SELECT has_table_privilege('archive_month', 'INSERT')"):
        raise NotArchived(
            "Only the owner of the tables can archive months. Set MANILLA_MIGRATION_URL to the "
            "owner's connection."
        )
    for month in await months.load(connection):
        # The disk with the archive may not be mounted.
        if not (archive / month.name).is_dir():
            raise NotArchived(f"{archive} does not have the month {month.name}. {months.RESTORE}")


async def _save(connection: Connection, due: DueMonth, written: ArchivedMonth) -> StoredMonth:
    """Saves that the month's files are complete. From now on, its rows may be removed."""
    transactions = sum(1 for _ in read_transactions(written.folder))
    async with connection.transaction():
        await connection.execute(
            """
            INSERT INTO archive_month (month, first_link, last_link, last_id, manifest_sha256,
                                       transactions, checked_at)
            VALUES ($1, $2, $3, $4, $5, $6, now())""",
            *(due.month, written.first_link, written.last_link, written.last_id),
            *(written.manifest_sha256, transactions),
        )
        await audit.record(
            connection,
            "archive.write",
            f"archive:{due.name}",
            manifest_sha256=written.manifest_sha256.hex(),
            transactions=transactions,
        )
    crash.point("after_archive_saved")
    return (await months.load(connection))[-1]


async def _remove(connection: Connection, archive: Path, month: StoredMonth) -> ArchiveResult:
    """Verifies the month's files again, and removes its transactions from the database."""
    if (problem := await check(connection, archive, month)) is not None:
        raise NotArchived(f"{problem} {months.RESTORE}")
    removed = 0
    for merchant_id, ids in _batches(read_transactions(archive / month.name)):
        gone = await connection.value(
            "SELECT archive_remove($1, $2, $3, $4)",
            *(merchant_id, ids, month.last_id, month.until),
        )
        crash.point("after_archive_removal")
        removed += len(gone)
    await connection.execute(
        "UPDATE archive_month SET removed_at = now() WHERE month = $1", month.month
    )
    log.info("month_archived", month=month.name, removed=removed)
    return ArchiveResult(month.name, month.transactions, removed)


async def check(db: Database | Connection, archive: Path, month: StoredMonth) -> str | None:
    """Verifies a month's files, and saves the result. Returns the problem, or None if correct."""
    links = await months.load_links(db, month.first_link, month.last_link)
    try:
        writing.check_files(month.files(archive), links)
        problem = None
    except NotArchived as error:
        problem = error.text
    await months.save_check(db, month, problem)
    return problem


def _batches(lines: Iterable[bytes]) -> Iterator[tuple[int, list[str]]]:
    """Yields each merchant with ids of its transactions, up to `BATCH` at a time.

    A merchant's payments and payouts are in the order of their ids, and therefore of their time. If
    all payments were removed first, each of them would leave a carried posting, because the wallet
    entries of payouts are between them, and each removal replaces all of the merchant's carried
    postings. The ids of a month take about 100 bytes of memory each.
    """
    merchants: dict[int, list[str]] = defaultdict(list)
    for line in lines:
        head = _HEAD.decode(line)
        merchants[head.merchant_id].append(head.trx_id)
    for merchant_id in sorted(merchants):
        ids = sorted(merchants[merchant_id])
        for start in range(0, len(ids), BATCH):
            yield merchant_id, ids[start : start + BATCH]
