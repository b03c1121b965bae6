"""The hash chain covers every posting exactly once, under concurrent writers and after crashes."""

import asyncio
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from manilla import worker
from manilla.kit import crash
from manilla.kit.database.connections import Database
from manilla.ledger import posting
from manilla.proofs import chain, verify
from manilla.proofs.verify import Verification
from manilla.services import Services
from manilla.settings import Settings
from tests.ledger.test_postings import move, open_wallets
from tests.support.waiting import until

_merchants = iter(range(3_000_000, 4_000_000))

EXTEND = """
import asyncio, sys
from pathlib import Path
from manilla.kit import crash
from manilla.kit.database.connections import Database
from manilla.proofs import chain

async def extend():
    db = await Database.open(sys.argv[1], size=2, name="tests worker")
    await chain.extend(db)
    await db.close()

crash.arm(Path(sys.argv[2]))
asyncio.run(extend())
"""


@pytest.fixture
async def merchant_id(db: Database) -> int:
    merchant_id = next(_merchants)
    await open_wallets(db, merchant_id, 1_000_000)
    return merchant_id


async def _verified(settings: Settings) -> Verification:
    return await verify.run(settings.database_url, [], None)


async def test_each_posting_is_in_one_link(
    db: Database, settings: Settings, merchant_id: int
) -> None:
    for _ in range(3):
        await posting.post(db, [move(merchant_id, -100, fee=7), move(merchant_id, 50)])
        await chain.extend(db)
    found = await _verified(settings)
    assert found.is_sound, found.findings
    assert found.unlinked_postings == 0
    assert sum(link.postings for link in found.links) == await db.number(
        "SELECT count(*) FROM posting"
    )
    assert sum(link.entries for link in found.links) == await db.number(
        "SELECT count(*) FROM entry"
    )


async def test_a_task_of_the_worker_extends_the_chain(
    services: Services, settings: Settings, merchant_id: int
) -> None:
    await posting.post(services.db, [move(merchant_id, -100)])
    [task] = [each for each in worker.periodic_tasks(services) if each.name == "chain_postings"]
    await task.run()
    found = await _verified(settings)
    assert found.is_sound, found.findings
    assert found.unlinked_postings == 0


async def test_the_chain_is_unchanged_without_new_postings(
    db: Database, settings: Settings, merchant_id: int
) -> None:
    await chain.extend(db)
    head = (await _verified(settings)).head
    await chain.extend(db)
    assert (await _verified(settings)).head == head


async def test_a_link_waits_for_a_transaction_that_has_an_earlier_id(
    db: Database, settings: Settings, merchant_id: int
) -> None:
    other = next(_merchants)
    await open_wallets(db, other, 1_000_000)
    await chain.extend(db)
    before = await db.number("SELECT last_id FROM posting_chain_head")
    async with db.transaction() as slow:
        await posting.post(slow, [move(merchant_id, -100)])
        await posting.post(db, [move(other, -100)])
        extending = asyncio.create_task(chain.extend(db))
        await until(lambda: _has_listed_transactions(db))
        assert await db.number("SELECT last_id FROM posting_chain_head") == before
    await extending
    found = await _verified(settings)
    assert found.is_sound, found.findings
    assert found.unlinked_postings == 0
    assert found.links[-1].postings == 2


async def _has_listed_transactions(db: Database) -> bool:
    """Returns whether another session has read which transactions have drawn an id."""
    return await db.has_row(
        "SELECT true FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query = $1",
        chain.DRAWING,
    )


async def test_a_transaction_that_hangs_delays_the_chain_and_nothing_else(
    db: Database, settings: Settings, merchant_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain, "WAIT_SECONDS", 0)
    other = next(_merchants)
    await open_wallets(db, other)
    async with db.transaction() as slow:
        await posting.post(slow, [move(merchant_id, -100)])
        await chain.extend(db)
        await posting.post(db, [move(other, 100)])
        found = await _verified(settings)
        assert found.is_sound, found.findings
        assert found.unlinked_postings > 0
    await chain.extend(db)
    found = await _verified(settings)
    assert found.is_sound, found.findings
    assert found.unlinked_postings == 0


async def test_several_workers_and_writers_at_once_keep_one_chain(
    db: Database, settings: Settings
) -> None:
    merchants = [next(_merchants) for _ in range(4)]
    for each in merchants:
        await open_wallets(db, each, 1_000_000)
    writing = True

    async def write(merchant_id: int) -> None:
        for number in range(30):
            async with db.transaction() as connection:
                await posting.post(connection, [move(merchant_id, -10 - number)])
                if number % 3 == 0:
                    # The transaction stays open while other transactions draw later ids.
                    await asyncio.sleep(0)
                    await posting.post(connection, [move(merchant_id, 5)])

    async def extend() -> None:
        while writing:
            await chain.extend(db)

    workers = [asyncio.create_task(extend()) for _ in range(3)]
    await asyncio.gather(*(write(each) for each in merchants))
    writing = False
    await asyncio.gather(*workers)
    await chain.extend(db)
    found = await _verified(settings)
    assert found.is_sound, found.findings
    assert found.unlinked_postings == 0
    assert all(before.last_id + 1 == link.first_id for before, link in pairwise(found.links))
    assert sum(link.postings for link in found.links) == await db.number(
        "SELECT count(*) FROM posting"
    )


@pytest.mark.parametrize("point", ["before_link_commit", "after_link_commit"])
async def test_a_worker_that_crashes_leaves_a_whole_link_or_none(
    db: Database, settings: Settings, merchant_id: int, tmp_path: Path, point: str
) -> None:
    await chain.extend(db)
    await posting.post(db, [move(merchant_id, -100)])
    links = await db.number("SELECT number FROM posting_chain_head")
    (tmp_path / point).touch()
    crashed = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", EXTEND, settings.database_url, str(tmp_path)],
        check=False,
    )
    assert crashed.returncode == crash.EXIT_CODE
    was_committed = point == "after_link_commit"
    assert await db.number("SELECT number FROM posting_chain_head") == links + was_committed

    async def is_extended() -> bool:
        # The crashed process holds the lock until PostgreSQL notices that it has gone.
        await chain.extend(db)
        return await db.number("SELECT number FROM posting_chain_head") == links + 1

    await until(is_extended)
    found = await _verified(settings)
    assert found.is_sound, found.findings
    assert (len(found.links), found.unlinked_postings) == (links + 1, 0)
