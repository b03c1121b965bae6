"""Old months move to archive files, and the ledger is still verified as a whole."""

import asyncio
import base64
import gzip
import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Self

import asyncpg
import pytest

from manilla.cli.proving import archive as archive_commands
from manilla.kit import crash
from manilla.kit.database.connections import Database
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster
from manilla.kit.errors import Unavailable
from manilla.platform import settings as platform
from manilla.proofs import chain, pack, proofs, verify
from manilla.proofs.archive import archiving, lookup, months, writing
from manilla.proofs.archive.archiving import ArchiveResult
from manilla.proofs.archive.lookup import MonthNotReadable, NotInArchive
from manilla.proofs.archive.months import NotArchived
from manilla.proofs.pack import PackOptions
from manilla.proofs.verify import ArchivedMonth, Verification
from manilla.refunds import initiate
from manilla.settings import Settings
from tests.cli.in_process import InProcessCommand, environment_of
from tests.proofs.ledger_story import LedgerStory
from tests.support.command import manilla
from tests.support.rows import first_short
from tests.support.waiting import until

# All transactions of a test are in months that end before this time.
LATER = datetime.now(UTC) + timedelta(days=3650)

COUNTS = """
    SELECT (SELECT count(*) FROM payment) + (SELECT count(*) FROM payout) AS transactions,
           (SELECT count(*) FROM posting WHERE trx_id <> 'carried_forward') AS postings,
           (SELECT count(*) FROM posting WHERE trx_id = 'carried_forward') AS carried,
           (SELECT count(*) FROM posting
             WHERE kind IN ('funding', 'settle_top_up')) AS administrative,
           (SELECT count(*) FROM timeline) AS events"""

# Transactions that are years old have no jobs, unless they are open. Customers' accounts have jobs.
OLD_JOBS = """
    DELETE FROM job
     WHERE kind <> 'account' AND subject NOT IN (SELECT trx_id FROM payout WHERE status = 'pending')
       AND subject NOT IN (SELECT trx_id FROM dispute WHERE status = 'needs_response')"""

ARCHIVE = """
import asyncio, sys
from datetime import datetime
from pathlib import Path
from manilla.kit import crash
from manilla.kit.database.connections import Database
from manilla.proofs.archive import archiving

async def archive():
    db = await Database.open(sys.argv[1], size=2, name="tests archive")
    async for _ in archiving.run(db, Path(sys.argv[2]), datetime.fromisoformat(sys.argv[3])):
        pass
    await db.close()

crash.arm(Path(sys.argv[4]))
asyncio.run(archive())
"""


class Archive:
    """An archive, with a story whose transactions are old and have no jobs."""

    def __init__(
        self, story: LedgerStory, owner: Database, settings: Settings, folder: Path
    ) -> None:
        self.story = story
        self.owner = owner
        self.settings = settings
        self.folder = folder

    async def run(self) -> list[ArchiveResult]:
        await chain.extend(self.story.db)
        await self.owner.execute(OLD_JOBS)
        return await self.continued()

    async def continued(self) -> list[ArchiveResult]:
        return [each async for each in archiving.run(self.owner, self.folder, LATER)]

    async def run_until(self, point: str, armed: Path) -> None:
        """Runs the archive in a process that is killed at a crash point."""
        await chain.extend(self.story.db)
        await self.owner.execute(OLD_JOBS)
        (armed / point).touch()
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", ARCHIVE, self.settings.migration_url, str(self.folder)]
            + [LATER.isoformat(), str(armed)],
            check=False,
        )
        assert done.returncode == crash.EXIT_CODE

    async def verified(self) -> Verification:
        return await verify.run(self.settings.database_url, [], None, self.folder)

    async def balances(self) -> list[Any]:
        return await self.owner.records(
            """
            SELECT merchant_id, environment, currency, account, sum(amount_minor) FROM entry
             GROUP BY 1, 2, 3, 4 HAVING sum(amount_minor) <> 0 ORDER BY 1, 2, 3, 4"""
        )

    async def assert_sound(self) -> Verification:
        assert [each for each in await proofs.check(self.story.db) if each.count] == []
        verified = await self.verified()
        assert verified.is_sound, verified.findings
        return verified


@pytest.fixture(scope="module")
def archive(
    story: LedgerStory,
    owner: Database,
    settings: Settings,
    tmp_path_factory: pytest.TempPathFactory,
) -> Archive:
    return Archive(story, owner, settings, tmp_path_factory.mktemp("archive"))


async def test_archived_transactions_leave_the_database_and_every_balance_stays(
    archive: Archive,
) -> None:
    before, balances = await archive.owner.record(COUNTS), await archive.balances()
    whole = await archive.assert_sound()
    [result] = await archive.run()
    after = await archive.owner.record(COUNTS)
    assert result.removed == result.transactions == before["transactions"] == 3
    assert after["transactions"] == after["events"] == 0
    assert after["postings"] == before["administrative"]
    assert after["carried"] > 0
    assert await archive.balances() == balances
    verified = await archive.assert_sound()
    assert (verified.postings, verified.entries) == (whole.postings, whole.entries)
    assert verified.balances == whole.balances


async def test_an_open_transaction_stays_and_is_archived_later(archive: Archive) -> None:
    story = archive.story
    await story.take_payment()
    pending = await story.send()
    await story.pay_out("completed")
    [result] = await archive.run()
    assert result.removed == 2
    assert await archive.owner.value("SELECT trx_id FROM payout") == pending
    await archive.assert_sound()
    await story.payer.settle("a", pending, "success")
    await story.payer.until(pending, "completed")
    await story.take_payment()
    [result] = await archive.run()
    assert result.removed == 2
    assert (await archive.owner.record(COUNTS))["transactions"] == 0
    await archive.assert_sound()


@pytest.mark.parametrize(
    "point", ["after_archive_files", "after_archive_saved", "after_archive_removal"]
)
async def test_a_killed_run_is_continued(archive: Archive, tmp_path: Path, point: str) -> None:
    await archive.story.take_payment()
    await archive.story.pay_out("failed")
    balances = await archive.balances()
    await archive.run_until(point, tmp_path)
    assert await archive.balances() == balances
    await archive.assert_sound()
    await archive.run()
    assert (await archive.owner.record(COUNTS))["transactions"] == 0
    assert await archive.balances() == balances
    assert all(month.removed_at for month in await months.load(archive.owner))
    await archive.assert_sound()


async def test_a_gap_in_the_ids_of_postings_does_not_stop_the_archive(archive: Archive) -> None:
    """Rolled back transactions leave gaps, and a link of the chain can lie within a gap."""
    await chain.extend(archive.story.db)
    await archive.owner.value(
        "SELECT setval('posting_id_seq', nextval('posting_id_seq') + $1)", 2 * chain.IDS_MAX
    )
    await archive.story.take_payment()
    [result] = await archive.run()
    assert result.removed == 1
    await archive.assert_sound()


async def test_a_second_process_does_not_archive_at_the_same_time(archive: Archive) -> None:
    async with archive.owner.connection() as connection:
        await connection.value(f"SELECT pg_advisory_lock({archiving.LOCK})")
        with pytest.raises(NotArchived, match="Another process"):
            await archive.run()
        await connection.value(f"SELECT pg_advisory_unlock({archiving.LOCK})")


async def test_a_refund_that_starts_during_the_removal_keeps_its_payment(
    archive: Archive, tmp_path: Path
) -> None:
    story = archive.story
    trx_id = await story.take_payment()
    await archive.run_until("after_archive_saved", tmp_path)

    async def are_waiting(number: int) -> bool:
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype <> 'relation'"
        return await archive.owner.number(waiting) == number

    async with story.db.transaction() as connection:
        await connection.execute(
            "SELECT FROM wallet WHERE merchant_id = $1 FOR UPDATE", story.merchant.new.id
        )
        # The refund has the payment's lock and waits for the wallet. The removal waits for both.
        refund = asyncio.create_task(initiate.start(story.db, trx_id, "100", "Returned goods"))
        await until(lambda: are_waiting(1))
        removal = asyncio.create_task(archive.continued())
        await until(lambda: are_waiting(2))
    started = await refund
    await removal
    kept = "SELECT true FROM payment WHERE trx_id = $1"
    assert await archive.owner.has_row(kept, trx_id)
    await archive.assert_sound()
    await story.finish(started)
    await archive.run()
    assert not await archive.owner.has_row(kept, trx_id)
    await archive.assert_sound()


async def test_a_process_that_has_lost_its_lock_removes_nothing(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, another process could replace the files while this process removes the rows."""
    await archive.story.take_payment()
    before, stored = await archive.owner.record(COUNTS), await months.load(archive.owner)
    write = writing.write

    async def write_and_lose_the_lock(*about: Any) -> ArchivedMonth:
        written = await write(*about)
        await archive.owner.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks"
            " WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
            "   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            "   AND (classid::bigint << 32 | objid::bigint) = hashtext('archive')::bigint"
        )
        return written

    monkeypatch.setattr(writing, "write", write_and_lose_the_lock)
    with pytest.raises(Unavailable):
        await archive.run()
    assert await archive.owner.record(COUNTS) == before
    assert await months.load(archive.owner) == stored
    monkeypatch.undo()
    [result] = await archive.run()
    assert result.removed == 1
    await archive.assert_sound()


async def test_the_folder_of_another_database_is_not_replaced(
    archive: Archive, tmp_path: Path
) -> None:
    await archive.story.take_payment()
    await chain.extend(archive.story.db)
    due = await months.next_due(archive.owner, LATER)
    assert due is not None
    (tmp_path / due.name).mkdir()
    with pytest.raises(NotArchived, match="another database"):
        await writing.write(archive.owner, tmp_path, due)


async def test_archived_transactions_are_found_with_all_their_rows(archive: Archive) -> None:
    trx_id = await archive.story.pay_out("completed")
    await archive.run()
    stored = await months.load(archive.owner)
    found = lookup.find(archive.folder, stored, trx_id)
    assert found["rows"]["payout"][0]["status"] == "completed"
    assert "payout_delivered" in {row["kind"] for row in found["rows"]["posting"]}
    assert sum(row["amount_minor"] for row in found["rows"]["entry"]) == 0
    assert found["rows"]["timeline"]
    with pytest.raises(NotInArchive):
        lookup.find(archive.folder, stored, f"{trx_id[:-1]}{'0' if trx_id[-1] != '0' else '1'}")


async def test_a_transaction_in_a_changed_or_missing_file_is_not_shown(archive: Archive) -> None:
    trx_id = await archive.story.pay_out("completed")
    await archive.run()
    stored = await months.load(archive.owner)
    found = lookup.find(archive.folder, stored, trx_id)
    file = archive.folder / found["month"] / writing.TRANSACTIONS_FILE
    content = file.read_bytes()
    changed = gzip.decompress(content).replace(b"completed", b"cancelled")
    try:
        for damaged in (gzip.compress(changed), content[:-20], b"no gzip"):
            file.write_bytes(damaged)
            with pytest.raises(MonthNotReadable, match="from another copy"):
                lookup.find(archive.folder, stored, trx_id)
        file.unlink()
        with pytest.raises(MonthNotReadable, match=str(file)):
            lookup.find(archive.folder, stored, trx_id)
    finally:
        file.write_bytes(content)
    assert lookup.find(archive.folder, stored, trx_id) == found


async def test_a_folder_that_cannot_be_written_is_named_and_nothing_is_removed(
    archive: Archive, tmp_path: Path
) -> None:
    await archive.story.take_payment()
    before, stored = await archive.owner.record(COUNTS), await months.load(archive.owner)
    file = tmp_path / "file"
    file.touch()
    await chain.extend(archive.story.db)
    due = await months.next_due(archive.owner, LATER)
    assert due is not None
    with pytest.raises(NotArchived, match=f"{file}.*Nothing was removed"):
        await writing.write(archive.owner, file, due)
    assert await archive.owner.record(COUNTS) == before
    assert await months.load(archive.owner) == stored


async def test_a_run_without_the_archived_months_or_the_owners_rights_writes_nothing(
    archive: Archive, tmp_path: Path
) -> None:
    """Otherwise, an archive on a disk that is not mounted would be split between two folders."""
    await archive.story.take_payment()
    await archive.run()
    await archive.story.take_payment()
    before, stored = await archive.owner.record(COUNTS), await months.load(archive.owner)
    with pytest.raises(NotArchived, match=f"does not have the month {stored[0].name}"):
        await Archive(archive.story, archive.owner, archive.settings, tmp_path).run()
    with pytest.raises(NotArchived, match="MANILLA_MIGRATION_URL"):
        [each async for each in archiving.run(archive.story.db, archive.folder, LATER)]
    assert _is_empty(tmp_path)
    assert await archive.owner.record(COUNTS) == before
    assert await months.load(archive.owner) == stored


def _is_empty(folder: Path) -> bool:
    return not any(folder.iterdir())


CARRIED = "(SELECT id FROM posting WHERE trx_id = 'carried_forward')"


@pytest.mark.parametrize(
    ("change", "found_by"),
    first_short(
        [
            (
                "UPDATE entry SET amount_minor = amount_minor + sign(amount_minor)::bigint"
                f" WHERE posting_id IN {CARRIED}",
                "carried",
            ),
            (f"DELETE FROM entry WHERE posting_id IN {CARRIED}", "carried"),
            ("UPDATE posting SET reason = 'another' WHERE kind = 'settle_top_up'", "archive"),
            ("DELETE FROM archive_month", "content"),
            ("UPDATE archive_month SET last_id = 0", "content"),
        ]
    ),
)
async def test_tampering_with_what_replaces_archived_rows_is_found(
    archive: Archive, cluster: Cluster, change: str, found_by: str
) -> None:
    superuser = await asyncpg.connect(cluster.url(postgres.SUPERUSER))
    attempt = superuser.transaction(isolation="repeatable_read")
    await attempt.start()
    try:
        await superuser.execute(f"SET LOCAL session_replication_role = replica; {change}")
        verified = await verify.verify(superuser, archive=archive.folder)
        assert verified.counts[found_by], verified.findings
    finally:
        await attempt.rollback()
        await superuser.close()


@pytest.mark.parametrize(
    "name", first_short([verify.POSTINGS_FILE, verify.ENTRIES_FILE, verify.MANIFEST])
)
async def test_a_changed_file_is_found(archive: Archive, name: str) -> None:
    [month, *_] = await months.load(archive.owner)
    file = archive.folder / month.name / name
    content = file.read_bytes()
    try:
        plain = gzip.decompress(content) if name.endswith(".gz") else content
        changed = plain.replace(b"1", b"2", 1)
        file.write_bytes(gzip.compress(changed) if name.endswith(".gz") else changed)
        assert (await archive.verified()).counts["archive"] == 1
        problem = await archiving.check(archive.owner, archive.folder, month)
        assert problem is not None
        assert name in problem
        [stored, *_] = await months.load(archive.owner)
        assert stored.problem == problem
        file.unlink()
        assert (await archive.verified()).counts["archive"] == 1
    finally:
        file.write_bytes(content)
    assert await archiving.check(archive.owner, archive.folder, month) is None
    await archive.assert_sound()


async def test_without_the_archive_the_missing_postings_are_reported(archive: Archive) -> None:
    verified = await verify.run(archive.settings.database_url, [], None)
    assert [finding.check for finding in verified.findings] == ["archive"]


async def test_the_pack_of_an_auditor_verifies_archived_months(archive: Archive) -> None:
    await archive.story.take_payment()
    await archive.run()
    await archive.story.top_up("100000")
    await archive.story.report_balance()
    proved = await pack.collect(archive.settings.database_url, PackOptions(archive=archive.folder))
    assert [check.name for check in proved.checks if check.count] == []
    assert proved.facts["postings_verified"] > await archive.owner.number(
        "SELECT count(*) FROM posting"
    )
    sealed = PackOptions(archive=archive.folder, seal=verify.Seal.read(proved.seal))
    again = await pack.collect(archive.settings.database_url, sealed)
    assert [check.name for check in again.checks if check.count] == []


async def test_the_independent_program_verifies_the_archive(
    archive: Archive, tmp_path: Path
) -> None:
    program = tmp_path / "verify.py"
    program.write_text(pack.PROGRAM.read_text())
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-I", str(program), archive.settings.database_url]
        + ["--archive", str(archive.folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "Everything is correct." in done.stdout


async def test_rows_that_are_not_archived_cannot_be_deleted(archive: Archive) -> None:
    await archive.story.take_payment()
    for table in ("posting", "entry"):
        with pytest.raises(Exception, match="append-only"):
            await archive.owner.execute(f"DELETE FROM {table}")
        with pytest.raises(Exception, match="append-only"):
            await archive.owner.execute(f"UPDATE {table} SET merchant_id = 1")
        with pytest.raises(Exception, match="permission denied"):
            await archive.story.db.execute(f"DELETE FROM {table}")


async def test_the_command_lists_verifies_and_finds(archive: Archive, tmp_path: Path) -> None:
    trx_id = await archive.story.pay_out("completed")
    await archive.run()
    environment = {
        "MANILLA_DATABASE_URL": archive.settings.database_url,
        "MANILLA_MIGRATION_URL": archive.settings.migration_url,
        "MANILLA_MASTER_KEY": base64.b64encode(archive.settings.master_keys[0]).decode(),
        "MANILLA_ARCHIVE_FOLDER": str(archive.folder),
    }

    async def command(*words: str) -> Any:
        done = await asyncio.to_thread(manilla, *words, "--json", **environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    listed = await command("archive", "list")
    assert [row["problem"] for row in listed] == [None] * len(listed)
    assert all(row["ok"] for row in await command("archive", "verify"))
    assert (await command("archive", "find", trx_id))["trx_id"] == trx_id
    assert await command("archive", "run") == []
    assert (await command("ledger", "check", "--with-archive"))["ok"]

    wrong = {**environment, "MANILLA_ARCHIVE_FOLDER": str(tmp_path)}
    done = await asyncio.to_thread(manilla, "archive", "verify", "--json", **wrong)
    assert done.returncode == 1
    assert all(str(tmp_path) in row["problem"] for row in json.loads(done.stdout))
    assert "Check that MANILLA_ARCHIVE_FOLDER is" in done.stderr
    assert all(row["ok"] for row in await command("archive", "verify"))


class _Ahead(datetime):
    """The clock of a host that is 20 years ahead."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls.fromtimestamp(time.time() + timedelta(days=20 * 365).total_seconds(), tz)


async def test_a_host_whose_clock_is_ahead_does_not_archive_recent_months(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    await archive.story.take_payment()
    await chain.extend(archive.story.db)
    await archive.owner.execute(OLD_JOBS)
    before, stored = await archive.owner.record(COUNTS), await months.load(archive.owner)
    monkeypatch.setattr(archive_commands, "datetime", _Ahead)
    command = InProcessCommand(
        archive_commands.app,
        {
            **environment_of(archive.settings),
            "MANILLA_MIGRATION_URL": archive.settings.migration_url,
            "MANILLA_ARCHIVE_FOLDER": str(archive.folder),
        },
    )
    assert await command.printed("run") == []
    assert await archive.owner.record(COUNTS) == before
    assert await months.load(archive.owner) == stored


def test_books_are_kept_for_at_least_seven_years() -> None:
    with pytest.raises(platform.BadSetting):
        platform.parse("book_retention_years", "6")
    assert platform.parse("book_retention_years", "7") == 7
    assert months.limit(datetime(2026, 11, 18, tzinfo=UTC), 7) == datetime(2019, 11, 18, tzinfo=UTC)


def test_each_merchants_transactions_are_removed_in_the_order_of_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise, each payment before a payout would leave a carried posting until the payout."""
    monkeypatch.setattr(archiving, "BATCH", 2)
    payments, payouts = [(1, "T1"), (2, "T2"), (1, "T4")], [(1, "T3"), (2, "T5")]
    lines = [
        json.dumps({"trx_id": trx_id, "merchant_id": merchant_id, "ids": [trx_id]}).encode()
        for merchant_id, trx_id in payments + payouts
    ]
    batches = list(archiving._batches(lines))
    assert batches == [(1, ["T1", "T3"]), (1, ["T4"]), (2, ["T2", "T5"])]
