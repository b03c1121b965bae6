"""A move is continued or taken back after a failover of a cell's database to its standby."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from manilla.cells.moving import fence
from manilla.cells.moving.fence import CannotMove
from manilla.cells.moving.replication import SlotLost, name_of
from manilla.cells.moving.stored import Step
from manilla.kit.embedded.postgres import Cluster
from manilla.kit.errors import Unavailable
from manilla.settings import Settings
from tests.faults.replicated import SLOT, Replicated
from tests.moving.movers import Mover, two_cells
from tests.moving.outcome import check, events, prepare, stopped_copy
from tests.support import template
from tests.support.waiting import until

pytestmark = pytest.mark.long

# What the manual says about a move that survives a failover.
SYNCHRONIZED = MappingProxyType(
    {
        "sync_replication_slots": "on",
        "hot_standby_feedback": "on",
        "synchronized_standby_slots": SLOT,
    }
)
EARLY = MappingProxyType({**SYNCHRONIZED, "synchronized_standby_slots": ""})
LOST_CHANGE = """
    INSERT INTO timeline (merchant_id, trx_id, number, event, from_status, to_status, detail)
    SELECT merchant_id, trx_id, 99, event, from_status, to_status, 'lost' FROM timeline
     WHERE trx_id = $1 LIMIT 1"""


@contextlib.asynccontextmanager
async def _servers(folder: Path, settings: Mapping[str, str]) -> AsyncIterator[Replicated]:
    data = folder / "replicated"
    await asyncio.to_thread(template.copy_migrated, data)
    servers = Replicated(data, settings=settings)
    try:
        yield await servers.open()
    finally:
        servers.close()


class Failover:
    """A mover, and the servers of one of its cells."""

    def __init__(self, mover: Mover, servers: Replicated, cell: str) -> None:
        self.mover, self.servers, self.cell = mover, servers, cell

    async def slot_is_synchronized(self) -> None:
        """Waits until the standby can replace the primary of the first cell."""
        await self.servers.until_synchronized(name_of(self.mover.merchant_id))

    async def fail_over(self) -> None:
        await self.servers.lose_the_primary()
        await self.mover.reconnect(self.cell)


@contextlib.asynccontextmanager
async def _first_cell(
    cluster: Cluster, settings: Settings, folder: Path, server_settings: Mapping[str, str]
) -> AsyncIterator[Failover]:
    async with (
        _servers(folder, server_settings) as servers,
        two_cells(servers.servers, settings, second=cluster) as mover,
    ):
        yield Failover(mover, servers, "lagos")


@pytest.fixture
async def first(cluster: Cluster, settings: Settings, tmp_path: Path) -> AsyncIterator[Failover]:
    async with _first_cell(cluster, settings, tmp_path, SYNCHRONIZED) as failover:
        yield failover


@pytest.fixture
async def unprepared(
    cluster: Cluster, settings: Settings, tmp_path: Path
) -> AsyncIterator[Failover]:
    async with _first_cell(cluster, settings, tmp_path, {}) as failover:
        yield failover


@pytest.fixture
async def early(cluster: Cluster, settings: Settings, tmp_path: Path) -> AsyncIterator[Failover]:
    """The second cell can receive commits earlier than the first cell's standby."""
    async with _first_cell(cluster, settings, tmp_path, EARLY) as failover:
        yield failover


@pytest.fixture
async def second(cluster: Cluster, settings: Settings, tmp_path: Path) -> AsyncIterator[Failover]:
    async with (
        _servers(tmp_path, {}) as servers,
        two_cells(cluster, settings, second=servers.servers) as mover,
    ):
        yield Failover(mover, servers, "abuja")


async def _check_events(mover: Mover, before: list[str], payouts: tuple[str, ...]) -> None:
    """Checks that a reader gets the events of all payouts, each one once, in an unchanged order."""
    every, _ = await events(mover, "abuja", None)
    assert every[: len(before)] == before
    assert len(every) == len(set(every)) == len(payouts)


@pytest.mark.parametrize("step", [Step.COPY, Step.CLOSE, Step.FENCE, Step.CATCH_UP])
async def test_a_move_continues_after_a_failover_of_the_first_cell(
    first: Failover, step: Step
) -> None:
    mover = first.mover
    payouts = await prepare(mover)
    before, _ = await events(mover, "lagos", None)
    await mover.move_until(step)
    await first.slot_is_synchronized()
    await first.fail_over()
    await mover.resume()
    await check(mover, "abuja", payouts)
    await _check_events(mover, before, payouts)


async def test_the_first_cell_fails_over_while_the_rows_are_copied(first: Failover) -> None:
    mover = first.mover
    payouts = await prepare(mover)
    before, _ = await events(mover, "lagos", None)
    async with stopped_copy(mover) as moving:
        await first.slot_is_synchronized()
        await first.fail_over()
    with contextlib.suppress(Unavailable):
        await moving
    if await fence.state(mover.owners["lagos"], mover.merchant_id) != "left":
        await mover.resume()
    await mover.pair.look()
    await check(mover, "abuja", payouts)
    await _check_events(mover, before, payouts)


@pytest.mark.parametrize("step", [Step.COPY, Step.FENCE])
async def test_a_move_is_taken_back_after_a_failover_of_the_first_cell(
    first: Failover, step: Step
) -> None:
    payouts = await prepare(first.mover)
    await first.mover.move_until(step)
    await first.slot_is_synchronized()
    await first.fail_over()
    await first.mover.abort()
    await check(first.mover, "lagos", payouts)


@pytest.mark.parametrize("step", [Step.COPY, Step.FENCE])
async def test_a_move_whose_slot_was_not_synchronized_is_taken_back(
    unprepared: Failover, step: Step
) -> None:
    mover = unprepared.mover
    payouts = await prepare(mover)
    await mover.move_until(step)
    await unprepared.fail_over()
    with pytest.raises(SlotLost):
        await mover.resume()
    await mover.abort()
    await check(mover, "lagos", payouts)
    await mover.move()
    await check(mover, "abuja", payouts)


async def test_a_slot_that_is_lost_before_the_copy_is_created_again(unprepared: Failover) -> None:
    payouts = await prepare(unprepared.mover)
    await unprepared.mover.move_until(Step.PUBLISH)
    await unprepared.fail_over()
    await unprepared.mover.resume()
    await check(unprepared.mover, "abuja", payouts)


async def test_a_second_cell_with_a_change_that_the_new_primary_lost_is_not_activated(
    early: Failover,
) -> None:
    mover = early.mover
    payouts = await prepare(mover)
    await mover.move_until(Step.COPY)
    await early.slot_is_synchronized()
    early.servers.lose_the_standby()
    # No process notices this change, which no standby confirms.
    changing = asyncio.create_task(mover.owners["lagos"].execute(LOST_CHANGE, payouts[0]))

    async def has_arrived() -> bool:
        return await mover.owners["abuja"].has_row(
            "SELECT true FROM timeline WHERE detail = 'lost' LIMIT 1"
        )

    await until(has_arrived)
    await early.fail_over()
    with pytest.raises(Unavailable):
        await changing
    with pytest.raises(CannotMove, match="the rows in the table timeline differ"):
        await mover.resume()
    await mover.abort()
    await check(mover, "lagos", payouts)


async def test_the_second_cell_must_not_become_a_synchronous_standby(
    unprepared: Failover,
) -> None:
    await unprepared.servers.set_on_primary("synchronous_standby_names", "*")

    async def is_rejected() -> bool:
        try:
            await unprepared.mover.begin()
        except CannotMove as rejection:
            return "`synchronous_standby_names` must name its standbys" in str(rejection)
        await unprepared.mover.abort()
        return False

    await until(is_rejected)  # the server reads the setting soon


@pytest.mark.parametrize("step", [Step.COPY, Step.FENCE, Step.ACTIVATE])
async def test_a_move_continues_after_a_failover_of_the_second_cell(
    second: Failover, step: Step
) -> None:
    mover = second.mover
    payouts = await prepare(mover)
    before, _ = await events(mover, "lagos", None)
    await mover.move_until(step)
    await second.fail_over()
    await mover.resume()
    await check(mover, "abuja", payouts)
    await _check_events(mover, before, payouts)


@pytest.mark.parametrize("step", [Step.COPY, Step.FENCE])
async def test_a_move_is_taken_back_after_a_failover_of_the_second_cell(
    second: Failover, step: Step
) -> None:
    payouts = await prepare(second.mover)
    await second.mover.move_until(step)
    await second.fail_over()
    await second.mover.abort()
    await check(second.mover, "lagos", payouts)
