"""A merchant moves to another cell and back, with the transactions of both cells."""

from manilla.cells.moving.stored import Step
from tests.moving.movers import Mover


async def _pay(mover: Mover, cell: str) -> str:
    trx_id = await mover.payers[cell].pay_out()
    await mover.payers[cell].until(trx_id, "completed")
    return trx_id


async def test_a_merchant_returns_with_what_it_did_elsewhere(mover: Mover) -> None:
    lagos = mover.payers["lagos"]
    payouts = [await _pay(mover, "lagos")]
    await mover.move()
    payouts += [await _pay(mover, "abuja"), await mover.payers["abuja"].pay_out()]
    await mover.move("lagos")
    await lagos.until(payouts[-1], "completed")
    payouts.append(await _pay(mover, "lagos"))
    for trx_id in payouts:
        assert (await lagos.verify(trx_id)).json["status"] == "success"
    assert len(await mover.payers["lagos"].transfers()) == len(payouts)
    for cell in ("lagos", "abuja"):
        assert await mover.broken(cell) == []
    assert await mover.is_clean()


async def test_a_return_that_is_taken_back_can_be_repeated(mover: Mover) -> None:
    payouts = [await _pay(mover, "lagos")]
    await mover.move()
    payouts.append(await _pay(mover, "abuja"))
    await mover.move_until(Step.CATCH_UP, "lagos")
    await mover.abort("lagos")
    for cell in ("lagos", "abuja"):
        assert await mover.broken(cell) == []
    payouts.append(await _pay(mover, "abuja"))
    await mover.move("lagos")
    payouts.append(await _pay(mover, "lagos"))
    for cell in ("lagos", "abuja"):
        assert await mover.broken(cell) == []
    assert len(await mover.payers["lagos"].transfers()) == len(payouts)
