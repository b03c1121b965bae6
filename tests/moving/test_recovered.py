"""A move never replaces the rows of a merchant that the second cell acts for."""

import pytest

from manilla.cells.moving import fence
from manilla.cells.moving.fence import CannotMove
from manilla.cells.moving.stored import Step
from tests.moving.movers import Mover


async def _forget(mover: Mover, cell: str) -> None:
    """Removes what a cell knows of its moves, as a recovery to an earlier moment does."""
    owner = mover.owners[cell]
    for table in ("merchant_fence", "moved_merchant", "merchant_move"):
        await owner.execute(f"DELETE FROM {table} WHERE merchant_id = $1", mover.merchant_id)
    await fence.create_triggers(owner)
    await mover.pair.look()


async def test_a_cell_that_was_recovered_does_not_move_over_the_merchant(mover: Mover) -> None:
    abuja = mover.payers["abuja"]
    await mover.move()
    trx_id = await abuja.pay_out()
    await abuja.until(trx_id, "completed")
    await _forget(mover, "lagos")
    balance = await mover.balance("abuja")
    with pytest.raises(CannotMove, match="abuja says that the merchant lives there"):
        await mover.move()
    assert await mover.balance("abuja") == balance
    assert (await abuja.verify(trx_id)).json["status"] == "success"


async def test_a_merchant_that_settles_after_the_check_is_not_replaced(mover: Mover) -> None:
    """The second cell's rows are checked again in the step that would replace them."""
    await mover.move_until(Step.VERIFY)
    owner = mover.owners["abuja"]
    await owner.execute(
        "INSERT INTO moved_merchant (merchant_id, cell) VALUES ($1, 'abuja')", mover.merchant_id
    )
    with pytest.raises(CannotMove, match="abuja says that the merchant lives there"):
        await mover.resume()
    assert await owner.number("SELECT count(*) FROM merchant_fence") == 0
    await mover.abort()
    assert (await mover.payers["lagos"].ask()).status == 200


async def test_rows_that_no_move_has_copied_are_not_replaced(mover: Mover) -> None:
    await mover.move_until(Step.COPY)
    await mover.abort()
    await mover.owners["abuja"].execute(
        "INSERT INTO merchant OVERRIDING SYSTEM VALUE"
        " SELECT * FROM jsonb_populate_record(NULL::merchant, $1::text::jsonb)",
        await mover.db("lagos").value(
            "SELECT to_jsonb(m)::text FROM merchant m WHERE id = $1", mover.merchant_id
        ),
    )
    with pytest.raises(CannotMove, match="has rows of the merchant that no move has copied"):
        await mover.move()


async def test_a_move_of_a_recovered_cell_does_not_continue_over_the_merchant(mover: Mover) -> None:
    """The first cell was recovered to a moment during a move that has ended in the second."""
    await mover.move()
    await mover.owners["lagos"].execute(
        "UPDATE merchant_move SET step = 'publish', activated_at = NULL, ended_at = NULL"
    )
    with pytest.raises(CannotMove, match="this cell's database only knows its step publish"):
        await mover.resume()
    assert (await mover.payers["abuja"].ask()).status == 200
    assert await mover.is_clean()
