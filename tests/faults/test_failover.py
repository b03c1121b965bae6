"""The primary fails and the standby is promoted. No acknowledged payment is lost."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.live_instance import LiveInstance, trx_of
from tests.faults.replicated import Replicated
from tests.payments.orders import VERIFY
from tests.support import limits

pytestmark = pytest.mark.long

CALLERS = 8
# With these short time limits, requests do not wait long for a hanging primary.
SHORT = {
    "host_connect_seconds": 3,
    "acquire_seconds": 5,
    "request_seconds": 5,
    "statement_seconds": 5,
    "web_statement_seconds": 5,
    "statement_grace_seconds": 1,
}


@pytest.fixture
async def replicated(tmp_path: Path) -> AsyncIterator[Replicated]:
    replicated = Replicated(tmp_path)
    try:
        yield await replicated.open()
    finally:
        replicated.close()


@pytest.fixture
async def running(
    tmp_path: Path, replicated: Replicated, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[LiveInstance]:
    for name, value in (replicated.environment | limits.as_variables(**SHORT)).items():
        monkeypatch.setenv(name, value)
    running = await LiveInstance(tmp_path).open()
    yield running
    await running.close()


@pytest.mark.parametrize("is_frozen", [False, True], ids=["lost", "frozen"])
async def test_38_losing_the_primary_loses_no_data_and_the_standby_takes_over(
    running: LiveInstance, replicated: Replicated, is_frozen: bool
) -> None:
    acknowledged: list[str] = []
    done = asyncio.Event()
    calling = [asyncio.create_task(_pay_in(running, acknowledged, done)) for _ in range(CALLERS)]

    async def has_taken(more: int) -> None:
        reached = len(acknowledged) + more

        async def is_reached() -> bool:
            for caller in calling:
                assert not caller.done() or caller.exception() is None, caller.exception()
            return len(acknowledged) >= reached

        await running.until(is_reached)

    await has_taken(200)
    await (replicated.freeze_the_primary() if is_frozen else replicated.lose_the_primary())
    await has_taken(200)
    done.set()
    await asyncio.gather(*calling)
    for trx_id in acknowledged:
        assert (await running.call("GET", VERIFY + trx_id)).json["status"] == "pending"
    await running.db.close()  # This connection is still open to the old primary.
    await running.open()
    assert await running.invariants_hold()


async def _pay_in(running: LiveInstance, acknowledged: list[str], done: asyncio.Event) -> None:
    """Creates payments one after the other, until the test ends, and ignores errors."""
    while not done.is_set():
        reply = await running.initiate(ref_trx=secrets.token_hex(8))
        assert reply.status in (200, 503), reply.body
        if reply.status == 200:
            acknowledged.append(trx_of(reply.json["payment_url"]))
