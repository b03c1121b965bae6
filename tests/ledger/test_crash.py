"""PostgreSQL is killed under load. Acknowledged postings stay stored, and others get an error."""

import asyncio
import json
import os
import signal
from functools import partial
from pathlib import Path

import pytest

from manilla.kit.database.connections import Database
from manilla.kit.errors import Unavailable
from manilla.ledger import invariants
from manilla.ledger.posting import PostingOutcome
from tests.ledger.test_postings import batched_postings, move, open_wallets
from tests.support.instance import Instance
from tests.support.waiting import until, until_true

pytestmark = pytest.mark.long

MERCHANTS = range(5_000_000, 5_000_020)


@pytest.mark.long
async def test_no_acknowledged_posting_is_lost_and_service_resumes_automatically(
    tmp_path: Path,
) -> None:
    instance = Instance(tmp_path / "data", "--no-demo").wait()
    try:
        url = json.loads((instance.folder / "instance.json").read_text())["database_url"]
        db = await Database.open(url, size=8, name="tests")
        for merchant in MERCHANTS:
            await open_wallets(db, merchant)
        batcher = batched_postings(db)
        acknowledged: list[str] = []
        refusals = 0
        running = True

        async def merchant_pays_in(merchant: int) -> None:
            nonlocal refusals
            while running:
                posting = move(merchant, 1)
                try:
                    result = await batcher.submit(posting)
                except Unavailable:
                    refusals += 1
                    await asyncio.sleep(0.02)
                else:
                    assert result.outcome is PostingOutcome.POSTED
                    acknowledged.append(posting.trx_id)

        load = [asyncio.create_task(merchant_pays_in(merchant)) for merchant in MERCHANTS]
        for _ in range(3):
            before = len(acknowledged)
            # The load continues after PostgreSQL was killed.
            while len(acknowledged) < before + 200:
                await asyncio.sleep(0.01)
            killed = instance.postmaster()
            os.kill(killed, signal.SIGKILL)
            await until_true(partial(_is_restarted, instance, killed))
        running = False
        await asyncio.gather(*load)
        assert refusals
        assert await _are_in_the_books(db, acknowledged)
        assert not [f for f in await invariants.check(db, invariants.LEDGER) if f.count]
        await db.close()
    finally:
        assert instance.stop() == 0


def _is_restarted(instance: Instance, killed: int) -> bool:
    try:
        return instance.postmaster() != killed
    except (OSError, IndexError):  # The server is still writing its process id file.
        return False


async def _are_in_the_books(db: Database, trx_ids: list[str]) -> bool:
    async def count() -> int | None:
        try:
            found: int = await db.value(
                "SELECT count(*) FROM posting WHERE trx_id = ANY($1::text[])", trx_ids
            )
        except Unavailable:  # The server may still be recovering from the previous crash.
            return None
        return found

    return await until(count) == len(set(trx_ids)) == len(trx_ids)
