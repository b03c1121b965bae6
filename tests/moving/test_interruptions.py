"""A move that was interrupted at any step can be continued, or taken back until its activation."""

import pytest

from manilla.cells import registry
from manilla.cells.moving.stored import STEPS, MoveIsOpen, Step, TooLate
from tests.moving.movers import Mover

REVERSIBLE = STEPS[: STEPS.index(Step.ACTIVATE)]
FINAL = STEPS[STEPS.index(Step.ACTIVATE) :]


async def _prepare(mover: Mover) -> tuple[str, str]:
    """Returns a completed payout and a payout that is not sent yet."""
    lagos = mover.payers["lagos"]
    done = await lagos.pay_out()
    await lagos.until(done, "completed")
    return done, await lagos.pay_out()


async def _check(mover: Mover, cell: str, other: str, payouts: tuple[str, str]) -> None:
    payer = mover.payers[cell]
    assert (await mover.payers[other].verify(payouts[0])).status in (401, 503)
    assert (await payer.verify(payouts[0])).json["status"] == "success"
    await payer.until(payouts[1], "completed")
    assert len(await mover.payers["lagos"].transfers()) == 2
    for name in (cell, other):
        assert await mover.broken(name) == []
    assert await mover.is_clean()


async def _continue_after(mover: Mover, step: Step) -> None:
    payouts = await _prepare(mover)
    await mover.move_until(step)
    with pytest.raises(MoveIsOpen):
        await mover.move()
    await mover.resume()
    await _check(mover, "abuja", "lagos", payouts)


async def _abort_after(mover: Mover, step: Step) -> None:
    payouts = await _prepare(mover)
    await mover.move_until(step)
    is_rejected = await registry.fenced_seconds(mover.db("lagos")) > 0
    assert is_rejected == (STEPS.index(step) >= STEPS.index(Step.CLOSE))
    await mover.abort()
    assert await registry.fenced_seconds(mover.db("lagos")) == 0
    assert await mover.db("abuja").number("SELECT count(*) FROM merchant_fence") == 0
    await _check(mover, "lagos", "abuja", payouts)


@pytest.mark.parametrize("step", [Step.COPY, Step.ACTIVATE])
async def test_a_killed_move_continues(mover: Mover, step: Step) -> None:
    await _continue_after(mover, step)


async def test_a_move_is_taken_back_under_the_fence(mover: Mover) -> None:
    await _abort_after(mover, Step.CATCH_UP)


@pytest.mark.parametrize("step", STEPS[1:])
async def test_a_move_continues_after_every_step(mover: Mover, step: Step) -> None:
    await _continue_after(mover, step)


@pytest.mark.parametrize("step", REVERSIBLE[1:])
async def test_a_move_is_taken_back_at_every_step(mover: Mover, step: Step) -> None:
    await _abort_after(mover, step)


@pytest.mark.parametrize("step", FINAL)
async def test_an_activated_move_is_not_taken_back(mover: Mover, step: Step) -> None:
    payouts = await _prepare(mover)
    await mover.move_until(step)
    with pytest.raises(TooLate):
        await mover.abort()
    await mover.resume()
    await _check(mover, "abuja", "lagos", payouts)


async def test_a_move_that_was_taken_back_can_start_again(mover: Mover) -> None:
    payouts = await _prepare(mover)
    await mover.move_until(Step.COPY)
    await mover.abort()
    await mover.move()
    await _check(mover, "abuja", "lagos", payouts)
