"""Old webhooks are deleted, except webhooks that an open transaction or case still needs."""

import pytest

from manilla import worker
from manilla.kit.database.connections import Database
from manilla.platform import settings as platform
from manilla.services import Services
from tests.payments.shop import HOLD, Shop
from tests.payments.webhooks import paid, send
from tests.payouts.payout_merchant import PayoutMerchant, setting
from tests.support.client import Site

BEFORE = "now() - interval '181 days'"


async def _age(db: Database, reference: str, *columns: str) -> None:
    changed = ", ".join(f"{column} = {BEFORE}" for column in columns)
    await db.execute(f"UPDATE webhook SET {changed} WHERE reference = $1", reference)


async def _forget(services: Services) -> None:
    [task] = [each for each in worker.periodic_tasks(services) if each.name == "forget_webhooks"]
    await task.run()


async def _kept(db: Database, reference: str) -> int:
    kept: int = await db.value("SELECT count(*) FROM webhook WHERE reference = $1", reference)
    return kept


async def _paid(shop: Shop) -> str:
    """Creates a paid charge with a stored webhook from its provider."""
    started = await shop.start()
    charge = await shop.choose(started, "providera-ngn")
    await shop.pay(charge)
    await shop.until(started, "success")
    await shop.simulator.until(lambda: _kept(shop.services.db, charge.reference))
    await shop.services.db.execute("DELETE FROM job WHERE subject = $1", charge.reference)
    return charge.reference


async def test_webhooks_are_deleted_after_180_days(shop: Shop) -> None:
    db = shop.services.db
    old, recent = await _paid(shop), await _paid(shop)
    await _age(db, old, "received_at", "last_received_at")
    await _forget(shop.services)
    assert (await _kept(db, old), await _kept(db, recent) > 0) == (0, True)


async def test_a_webhook_that_was_repeated_recently_is_kept(shop: Shop) -> None:
    reference = await _paid(shop)
    await _age(shop.services.db, reference, "received_at")
    await _forget(shop.services)
    assert await _kept(shop.services.db, reference) > 0


async def test_the_retention_is_configurable(shop: Shop) -> None:
    reference = await _paid(shop)
    await _age(shop.services.db, reference, "received_at", "last_received_at")
    async with setting(shop.services, "webhook_retention_days", "365"):
        await _forget(shop.services)
    assert await _kept(shop.services.db, reference) > 0


async def test_a_retention_below_30_days_is_rejected() -> None:
    with pytest.raises(platform.BadSetting):
        platform.parse("webhook_retention_days", "29")


async def test_webhooks_of_an_open_charge_are_kept(shop: Shop, site: Site) -> None:
    charge = await shop.choose(await shop.start(), "providera-ngn")
    assert (await send(site, "providera", paid("providera", charge.reference))).status == 200
    await shop.services.db.execute("DELETE FROM job WHERE subject = $1", charge.reference)
    await _age(shop.services.db, charge.reference, "received_at", "last_received_at")
    await _forget(shop.services)
    assert await _kept(shop.services.db, charge.reference) == 1


async def test_webhooks_of_an_open_case_are_kept(shop: Shop) -> None:
    await shop.change(HOLD)
    started = await shop.start()
    charge = await shop.choose(started, "providera_ngn_va")
    await shop.pay(charge, amount="900.00")
    await shop.until_charge(charge, "suspense")
    await shop.services.db.execute("DELETE FROM job WHERE subject = $1", charge.reference)
    await _age(shop.services.db, charge.reference, "received_at", "last_received_at")
    await _forget(shop.services)
    assert await _kept(shop.services.db, charge.reference) > 0


async def test_webhooks_of_an_open_payout_are_kept(shop: Shop) -> None:
    payer = PayoutMerchant(shop.services, shop.simulator, shop.merchant)
    await payer.fund("2000")
    trx_id = await payer.pay_out()
    await payer.check_until(trx_id, "completed")
    await shop.services.db.execute("DELETE FROM job WHERE subject = $1", trx_id)
    await _age(shop.services.db, trx_id, "received_at", "last_received_at")
    had = await _kept(shop.services.db, trx_id)
    await shop.services.db.execute("UPDATE payout SET status = 'pending' WHERE trx_id = $1", trx_id)
    await _forget(shop.services)
    assert await _kept(shop.services.db, trx_id) == had > 0
    await shop.services.db.execute(
        "UPDATE payout SET status = 'completed' WHERE trx_id = $1", trx_id
    )
    await _forget(shop.services)
    assert await _kept(shop.services.db, trx_id) == 0
