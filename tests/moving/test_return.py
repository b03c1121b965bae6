"""A merchant moves to another cell and back, with the transactions of both cells."""

import json
from datetime import timedelta

from manilla.cells.moving import fence
from manilla.cells.moving.stored import Step
from manilla.notify import retention
from tests.moving.movers import Mover

ENDPOINTS = "/api/v1/webhook-endpoints"


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


def _url(name: str) -> bytes:
    return json.dumps({"url": f"https://shop.example/{name}"}).encode()


async def test_a_merchant_changes_its_endpoint_elsewhere_and_returns(mover: Mover) -> None:
    lagos, abuja = (mover.payers[cell].merchant for cell in ("lagos", "abuja"))
    new = {"url": "https://shop.example/first", "events": ["*"]}
    created = await lagos.post(ENDPOINTS, new)
    assert created.status == 200, created.body
    await mover.move()
    path = f"{ENDPOINTS}/{created.json['id']}"
    for number in range(2):
        changed = await abuja.call("PATCH", path, _url(str(number)))
        assert changed.status == 200, changed.body
    await mover.move("lagos")
    for cell in ("lagos", "abuja"):
        assert await mover.broken(cell) == []
    # Changes after the return are checked again.
    await lagos.call("PATCH", path, _url("last"))
    assert await mover.broken("lagos") == []
    await mover.owners["lagos"].execute("UPDATE webhook_endpoint SET url = 'https://other.example'")
    [finding] = await mover.broken("lagos")
    assert finding.name == "webhook_endpoints_are_as_set"


async def test_a_merchant_returns_after_old_notifications_were_deleted(mover: Mover) -> None:
    """Each cell deletes old notifications, also those of the copy that the merchant left."""
    for cell, to in (("lagos", "abuja"), ("abuja", "lagos"), ("lagos", "abuja")):
        await _pay(mover, cell)
        for name in ("lagos", "abuja"):
            await _delete_notifications(mover, name)
            assert await mover.broken(name) == []
        await mover.move(to)
        await _pay(mover, to)
        for name in ("lagos", "abuja"):
            assert await mover.broken(name) == []
    await mover.owners[to].execute("DELETE FROM deleted_notifications")
    [finding] = await mover.broken(to)
    assert finding.name == "final_payouts_were_told"


async def _delete_notifications(mover: Mover, cell: str) -> None:
    """Deletes all notifications in a cell, as if 90 days had passed."""
    owner = mover.owners[cell]
    async with owner.transaction() as connection:
        await fence.pass_fence(connection, mover.merchant_id)
        await connection.execute("ALTER TABLE notification DISABLE TRIGGER USER")
        for table in ("payout", "notification"):
            aged = "created_at = created_at - interval '90 days 1 second'"
            await connection.execute(f"UPDATE {table} SET {aged}")
        await connection.execute("UPDATE notification SET state = 'delivered'")
        await connection.execute("ALTER TABLE notification ENABLE TRIGGER USER")
        await connection.execute("DELETE FROM endpoint_delivery")
        await connection.execute("DELETE FROM delivery_attempt")
    await retention.delete_old(owner, timedelta(days=90))
    assert await owner.number("SELECT count(*) FROM notification") == 0
    assert await mover.owners["lagos"].number("SELECT count(*) FROM deleted_notifications") == 1
