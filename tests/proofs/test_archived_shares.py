"""A payment is archived before its shares. A held or short share keeps its payment."""

from manilla.splits import service
from tests.proofs.test_archive import Archive, archive
from tests.splits.steps import Splits, percent

__all__ = ["archive"]

PAYMENTS = "SELECT count(*) FROM payment WHERE trx_id = $1"
SHARES = "SELECT count(*) FROM split WHERE payment_trx_id = $1"


async def test_a_payment_is_archived_before_its_shares_and_not_while_one_is_held(
    archive: Archive,
) -> None:
    splits = Splits(archive.story.shop)
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)], "hold": "release"})
    trx_id = paid.started.trx_id
    await archive.run()
    assert await archive.owner.number(PAYMENTS, trx_id) == 1
    await archive.assert_sound()
    await service.release(splits.db, splits.tenant, trx_id, None)
    balances = await archive.balances()
    await archive.run()
    assert await archive.owner.number(PAYMENTS, trx_id) == 0
    await splits.shop.fund("1")  # the next month has a posting
    balances = await archive.balances()
    await archive.run()
    assert await archive.owner.number(SHARES, trx_id) == 0
    assert await archive.balances() == balances
    await archive.assert_sound()
