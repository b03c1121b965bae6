"""A move is continued or taken back after a crash of PostgreSQL. Both cells are on one server.

The replication slot survives, because the same server starts again.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from manilla.cells.moving import fence
from manilla.cells.moving.stored import Step
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster
from manilla.kit.errors import Refusal
from manilla.settings import Settings
from tests.moving.movers import Mover, two_cells
from tests.moving.outcome import check, prepare
from tests.support import template
from tests.support.timeouts import TIMEOUT_SECONDS

pytestmark = pytest.mark.long

SLOTS = "SELECT count(*) FROM pg_replication_slots WHERE invalidation_reason IS NULL"


@pytest.fixture(scope="module")
async def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """A server that only these tests use."""
    async with template.running_cluster(tmp_path_factory.mktemp("crashing") / "data") as cluster:
        yield cluster


@pytest.fixture
async def crashing(own_cluster: Cluster, settings: Settings) -> AsyncIterator[Mover]:
    async with two_cells(own_cluster, settings) as both:
        yield both


def _server_pid(cluster: Cluster) -> int | None:
    file: Path = cluster.folder / "postmaster.pid"
    with contextlib.suppress(OSError, IndexError):
        return int(file.read_text().split()[0])
    return None


async def _crash(mover: Mover, cluster: Cluster) -> None:
    """Kills the server, and waits until it has started again."""
    killed = _server_pid(cluster)
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while _server_pid(cluster) in (None, killed):
            await asyncio.sleep(0.05)
    await postgres.wait_until_ready(cluster)
    await mover.reconnect("lagos", "abuja")


@pytest.mark.parametrize(
    ("step", "slots"),
    [
        (Step.PREPARE, 0),
        (Step.PUBLISH, 1),
        (Step.COPY, 1),
        (Step.CLOSE, 1),
        (Step.FENCE, 1),
        (Step.CATCH_UP, 1),
        (Step.DISCONNECT, 0),
        (Step.ACTIVATE, 0),
    ],
)
async def test_a_move_continues_after_a_crash_of_the_database(
    crashing: Mover, own_cluster: Cluster, step: Step, slots: int
) -> None:
    payouts = await prepare(crashing)
    await crashing.move_until(step)
    await _crash(crashing, own_cluster)
    assert await crashing.owners["lagos"].number(SLOTS) == slots
    await crashing.resume()
    await check(crashing, "abuja", payouts)


@pytest.mark.parametrize("step", [Step.PUBLISH, Step.COPY, Step.FENCE, Step.DISCONNECT])
async def test_a_move_is_taken_back_after_a_crash_of_the_database(
    crashing: Mover, own_cluster: Cluster, step: Step
) -> None:
    payouts = await prepare(crashing)
    await crashing.move_until(step)
    await _crash(crashing, own_cluster)
    await crashing.abort()
    await check(crashing, "lagos", payouts)


@pytest.mark.parametrize("step", [Step.COPY, Step.CATCH_UP, Step.ACTIVATE])
async def test_the_database_crashes_while_a_step_runs(
    crashing: Mover, own_cluster: Cluster, step: Step
) -> None:
    """The command repeats the step, or stops with an error and can be continued."""
    payouts = await prepare(crashing)
    crash: asyncio.Task[None] | None = None

    async def crash_before(ended: Step, _seconds: float) -> None:
        nonlocal crash
        if [*Step].index(ended) + 1 == [*Step].index(step) and crash is None:
            crash = asyncio.create_task(_crash(crashing, own_cluster))

    with contextlib.suppress(Refusal):
        await crashing.move("abuja", crash_before)
    assert crash is not None
    await crash
    if await fence.state(crashing.owners["lagos"], crashing.merchant_id) != "left":
        await crashing.resume()
    await crashing.pair.look()
    await check(crashing, "abuja", payouts)
