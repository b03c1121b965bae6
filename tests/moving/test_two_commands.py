"""A command that has lost its lock does nothing after another command has continued the move."""

import asyncio

import pytest

from manilla.cells.moving import fence
from manilla.cells.moving.fence import Overtaken
from manilla.cells.moving.stored import Step
from tests.moving.movers import Mover


class _Paused:
    """A command that waits after a step, and whose session with the lock was ended."""

    def __init__(self, mover: Mover, after: Step) -> None:
        self._mover, self._after = mover, after
        self._reached, self._go = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(mover.move("abuja", self._pause))

    async def _pause(self, step: Step, _seconds: float) -> None:
        if step is self._after:
            await self._mover.owners["lagos"].execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks"
                " WHERE locktype = 'advisory' AND database ="
                " (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
            self._reached.set()
            await self._go.wait()

    async def wait(self) -> None:
        await self._reached.wait()

    async def end(self) -> None:
        self._go.set()
        await self._task


async def test_a_command_that_was_overtaken_stops(mover: Mover) -> None:
    first = _Paused(mover, Step.COPY)
    await first.wait()
    await mover.resume()
    with pytest.raises(Overtaken):
        await first.end()
    assert await fence.state(mover.owners["lagos"], mover.merchant_id) == "left"
    assert await fence.state(mover.owners["abuja"], mover.merchant_id) is None
    assert (await mover.payers["abuja"].ask()).status == 200


async def test_a_command_stops_after_another_one_took_the_move_back(mover: Mover) -> None:
    first = _Paused(mover, Step.DISCONNECT)
    await first.wait()
    await mover.abort()
    with pytest.raises(Overtaken):
        await first.end()
    for cell in ("lagos", "abuja"):
        assert await fence.state(mover.owners[cell], mover.merchant_id) is None
    assert (await mover.payers["lagos"].ask()).status == 200
    await mover.move()
    assert await mover.broken("abuja") == []


async def test_the_second_cell_starts_only_if_the_first_is_fenced(mover: Mover) -> None:
    await mover.move_until(Step.DISCONNECT)
    await mover.owners["lagos"].execute("UPDATE merchant_fence SET state = 'closing'")
    await mover.owners["lagos"].execute("UPDATE merchant_move SET step = 'disconnect'")
    with pytest.raises(Overtaken):
        await mover.resume()
    assert await fence.state(mover.owners["abuja"], mover.merchant_id) == "arriving"
    await mover.abort()
    assert (await mover.payers["lagos"].ask()).status == 200
