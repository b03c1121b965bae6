"""One SQL statement creates several payments' first charges, each of them once."""

import asyncio
from typing import Any

import pytest

from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.payments import states, store
from manilla.payments.charges import PaymentClosed
from manilla.payments.first_charges import CHECK, GATEWAY_CHOSEN
from manilla.payments.payment import Charge, ChargeStatus, PaymentErrorCode, PaymentStatus
from manilla.payments.states import PaymentEvent
from manilla.payments.ways import way_of
from manilla.providers.port import Channel
from tests.payments.shop import Shop, Started
from tests.support.waiting import until

METHOD = "providera-ngn"
CANCELED = PaymentErrorCode.PAYMENT_CANCELED


async def charges(shop: Shop, started: Started) -> list[Charge]:
    return await store.charges(shop.services.db, shop.merchant.new.id, started.trx_id)


async def has_job(db: Database, charge: Charge) -> bool:
    return await db.has_row(
        "SELECT FROM job WHERE merchant_id = $1 AND kind = $2 AND subject = $3",
        *(charge.merchant_id, CHECK, charge.reference),
    )


@pytest.fixture
def statements(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of charges in each shared statement."""
    sizes: list[int] = []
    add = shop.services.charges._first_charges._add
    write = add._batcher._run

    async def counted(items: Any) -> Any:
        sizes.append(len(items))
        return await write(items)

    monkeypatch.setattr(add._batcher, "_run", counted)
    return sizes


async def test_concurrent_customers_share_statements_and_get_a_charge_with_a_job_each(
    shop: Shop, db: Database, statements: list[int]
) -> None:
    started = [await shop.start() for _ in range(8)]
    opened = await asyncio.gather(*(shop.choose(each, METHOD) for each in started))
    assert [charge.trx_id for charge in opened] == [each.trx_id for each in started]
    for each, charge in zip(started, opened, strict=True):
        assert [found.status for found in await charges(shop, each)] == [ChargeStatus.OPEN]
        assert await has_job(db, charge)
    assert sum(statements) == 8
    assert len(statements) < 8


async def test_a_double_click_gets_the_same_charge(shop: Shop) -> None:
    started = await shop.start()
    opened = await asyncio.gather(*(shop.choose(started, METHOD) for _ in range(6)))
    assert {charge.reference for charge in opened} == {f"{started.trx_id}-1"}
    assert len(await charges(shop, started)) == 1


async def test_a_payment_that_ends_after_it_was_loaded_gets_no_charge(
    shop: Shop, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = await shop.start()
    first = shop.services.charges._first_charges
    add = first.add

    async def end_first(*given: Any) -> bool:
        await states.give_up(
            *(db, shop.merchant.new.id, started.trx_id),
            *(PaymentEvent.CANCELED, CANCELED),
        )
        return await add(*given)

    monkeypatch.setattr(first, "add", end_first)
    with pytest.raises(PaymentClosed):
        await shop.choose(started, METHOD)
    assert await charges(shop, started) == []


async def test_a_payment_that_waits_for_a_lock_is_checked_after_the_wait(
    shop: Shop, owner: Database
) -> None:
    started = await shop.start()
    key = shop.merchant.new.id, started.trx_id
    change = (
        "UPDATE payment SET status = $3, error_code = $4 WHERE merchant_id = $1 AND trx_id = $2"
    )
    async with owner.transaction() as connection:
        await connection.execute(change, *key, PaymentStatus.FAILED, CANCELED)
        choosing = asyncio.create_task(shop.choose(started, METHOD))
        await until(lambda: owner.has_row("SELECT FROM pg_locks WHERE NOT granted"))
    with pytest.raises(PaymentClosed):
        await choosing
    assert await charges(shop, started) == []
    await owner.execute(change, *key, PaymentStatus.PENDING, None)


async def test_the_reason_for_the_gateway_is_in_the_timeline(shop: Shop, db: Database) -> None:
    assert shop.merchant.environment is Environment.PRODUCTION
    started = await shop.start()
    await shop.choose(started, way_of(Channel.CARD))
    found = await db.records(
        "SELECT number, from_status, to_status, detail, facts::text FROM timeline"
        " WHERE merchant_id = $1 AND trx_id = $2 AND event = $3",
        *(shop.merchant.new.id, started.trx_id, GATEWAY_CHOSEN),
    )
    assert [(each["from_status"], each["to_status"]) for each in found] == [("pending", "pending")]
    assert found[0]["detail"]
    assert found[0]["facts"] != "{}"
