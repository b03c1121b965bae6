"""SQL functions and privileges of a new version are installed under load without errors."""

import asyncio
import json
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from manilla.sql.migrate import newest_revision
from tests.faults.live_instance import LiveInstance

pytestmark = pytest.mark.long

CALLERS = 8


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[LiveInstance]:
    running = await LiveInstance(tmp_path).open()
    yield running
    await running.close()


async def test_35_functions_and_privileges_are_replaced_under_load_without_a_5xx(
    running: LiveInstance,
) -> None:
    answers: Counter[str] = Counter()
    done = asyncio.Event()
    calling = [asyncio.create_task(_call(running, answers, done)) for _ in range(CALLERS)]
    for _ in range(5):
        await _forget_the_functions(running)
        before = answers.total()
        migrated = await asyncio.to_thread(running.instance.command, "migrate")
        assert migrated == {"version": newest_revision()}
        assert answers.total() > before  # Requests were made during the migration.
    done.set()
    await asyncio.gather(*calling)
    assert set(answers) == {"pending"}
    assert await running.invariants_hold()


async def _call(running: LiveInstance, answers: Counter[str], done: asyncio.Event) -> None:
    while not done.is_set():
        checkout = await running.start(ref_trx=secrets.token_hex(8))
        answers[await running.status(checkout)] += 1


async def _forget_the_functions(running: LiveInstance) -> None:
    """Marks the SQL functions as outdated, as in a database that the previous version created."""
    instance = json.loads((running.instance.folder / "instance.json").read_text())
    owner = await asyncpg.connect(instance["migration_url"])
    await owner.execute("UPDATE function_set SET digest = 'another'")
    await owner.close()
