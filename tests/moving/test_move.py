"""A merchant moves to another cell with its transactions, jobs, events and protections."""

from tests.moving.movers import Mover


async def test_a_merchant_works_in_its_new_cell_as_before(mover: Mover) -> None:
    lagos, abuja = mover.payers["lagos"], mover.payers["abuja"]
    body = await lagos.order()
    first = await lagos.send(body, Idempotency_Key="first")
    assert first.status == 200
    await lagos.until(first.json["trx_id"], "completed")
    open_payout = await lagos.pay_out()
    await mover.move()
    assert (await lagos.verify(open_payout)).status == 503
    assert (await abuja.send(body, Idempotency_Key="first")).json == first.json
    assert (await abuja.verify(first.json["trx_id"])).json["status"] == "success"
    await abuja.until(open_payout, "completed")
    later = await abuja.pay_out()
    await abuja.until(later, "completed")
    assert await mover.broken("abuja") == []
    assert await mover.broken("lagos") == []
    assert await mover.is_clean()
