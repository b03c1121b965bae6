"""The lists return only the caller's payments and payouts, newest first, in the verify format."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.ledger.trx_ids import moment_of
from manilla.payouts import decisions
from tests.lists.pages import every, get, ids, page
from tests.payments import steps
from tests.payments.orders import INITIATE, order
from tests.payouts.payout_merchant import MANUAL, PayoutMerchant
from tests.support.client import Merchant, new_merchant


class Kind(msgspec.Struct, frozen=True):
    """A transaction type, with functions that create such transactions in the sandbox."""

    path: str
    verify: str
    job: str
    create: Callable[[PayoutMerchant, str | None], Awaitable[str]]


async def _new_payment(payer: PayoutMerchant, scenario: str | None) -> str:
    return await steps.new_payment(payer.merchant, scenario)


async def _new_payout(payer: PayoutMerchant, scenario: str | None) -> str:
    reply = await payer.send(await payer.order(), X_Sandbox_Scenario=scenario)
    assert reply.status == 200, reply.body
    trx_id: str = reply.json["trx_id"]
    return trx_id


PAYMENTS = Kind("/api/v1/payments", "/api/v1/verify-payment/", "payment.sandbox", _new_payment)
PAYOUTS = Kind("/api/v1/payouts", "/api/v1/verify-payout/", "payout.sandbox", _new_payout)
KINDS = {"payments": PAYMENTS, "payouts": PAYOUTS}
both = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())


async def _ended(payer: PayoutMerchant, kind: Kind, scenario: str) -> str:
    trx_id = await kind.create(payer, scenario)
    await payer.simulator.run_job_now(kind.job, trx_id)
    return trx_id


async def _one_of_each(payer: PayoutMerchant, kind: Kind) -> dict[str, str]:
    return {
        "success": await _ended(payer, kind, "success"),
        "failed": await _ended(payer, kind, "failed"),
        "pending": await kind.create(payer, "pending"),
    }


@both
async def test_an_item_is_the_verify_response_with_the_time_of_creation(
    sandbox_payer: PayoutMerchant, kind: Kind
) -> None:
    made = await _one_of_each(sandbox_payer, kind)
    items = await every(sandbox_payer.merchant, kind.path)
    assert ids(items) == [made["pending"], made["failed"], made["success"]]
    for item in items:
        verified = (await sandbox_payer.merchant.get(kind.verify + item["trx_id"])).json
        assert item == {"created_at": item["created_at"], **verified}
        assert datetime.fromisoformat(item["created_at"]).tzinfo is not None


@both
async def test_a_status_filter_takes_the_words_of_verify(
    sandbox_payer: PayoutMerchant, kind: Kind
) -> None:
    made = await _one_of_each(sandbox_payer, kind)
    for status, trx_id in made.items():
        items = await every(sandbox_payer.merchant, kind.path, status=status)
        assert [(item["trx_id"], item["status"]) for item in items] == [(trx_id, status)]
    for unknown in ("completed", "canceled", "SUCCESS"):
        reply = await get(sandbox_payer.merchant, kind.path, status=unknown)
        assert (reply.status, set(reply.json["errors"])) == (400, {"status"})


async def test_a_canceled_payout_is_listed_as_failed(
    sandbox_payer: PayoutMerchant, db: Database
) -> None:
    trx_id = await sandbox_payer.pay_out(MANUAL)
    await decisions.reject(db, sandbox_payer.services.rails, trx_id, "The bank is closed.")
    assert ids(await every(sandbox_payer.merchant, PAYOUTS.path, status="failed")) == [trx_id]


@both
async def test_a_reference_finds_one_transaction(sandbox_payer: PayoutMerchant, kind: Kind) -> None:
    first, second = [await kind.create(sandbox_payer, "pending") for _ in range(2)]
    merchant = sandbox_payer.merchant
    reference = (await merchant.get(kind.verify + first)).json["ref_trx"]
    found = await page(merchant, kind.path, ref_trx=reference)
    assert (ids(found["data"]), found["next_cursor"]) == ([first], None)
    assert second not in ids(found["data"])
    nothing: Any = {"data": [], "next_cursor": None}
    assert await page(merchant, kind.path, ref_trx=reference, status="failed") == nothing
    assert await page(merchant, kind.path, ref_trx=reference.lower()) == nothing
    created = found["data"][0]["created_at"]
    assert await page(merchant, kind.path, ref_trx=reference, until=created) == nothing


@both
async def test_from_includes_its_time_and_to_excludes_it(
    sandbox_payer: PayoutMerchant, kind: Kind
) -> None:
    made = [await kind.create(sandbox_payer, "pending") for _ in range(4)]
    merchant = sandbox_payer.merchant
    times = {item["trx_id"]: item["created_at"] for item in await every(merchant, kind.path)}
    second, fourth = times[made[1]], times[made[3]]
    between = await every(merchant, kind.path, since=second, until=fourth)
    assert ids(between) == [made[2], made[1]]
    lagos = datetime.fromisoformat(second) + timedelta(hours=1)
    in_lagos = lagos.strftime("%Y-%m-%dT%H:%M:%S.%f+01:00")
    assert ids(await every(merchant, kind.path, since=in_lagos)) == [made[3], made[2], made[1]]
    assert ids(await every(merchant, kind.path, until=in_lagos)) == [made[0]]
    far = {"since": "0001-01-01T00:00:00+14:00", "until": "9999-12-31T23:59:59-14:00"}
    assert ids(await every(merchant, kind.path, **far)) == made[::-1]


@both
async def test_pages_neither_repeat_nor_skip_while_transactions_arrive(
    sandbox_payer: PayoutMerchant, kind: Kind
) -> None:
    made = [await kind.create(sandbox_payer, "pending") for _ in range(7)]
    merchant, found = sandbox_payer.merchant, []
    answer = await page(merchant, kind.path, limit=2)
    while True:
        found += ids(answer["data"])
        if answer["next_cursor"] is None:
            break
        assert len(answer["data"]) == 2
        await kind.create(sandbox_payer, "pending")
        answer = await page(merchant, kind.path, limit=2, cursor=answer["next_cursor"])
    assert found == made[::-1]


@both
async def test_a_list_shows_only_the_callers_transactions_in_its_environment(
    sandbox_payer: PayoutMerchant, db: Database, keyring: Keyring, kind: Kind
) -> None:
    trx_id = await kind.create(sandbox_payer, "pending")
    merchant = sandbox_payer.merchant
    other = await new_merchant(merchant.site, db, keyring)
    in_production = msgspec.structs.replace(merchant, environment=Environment.PRODUCTION)
    reference = (await merchant.get(kind.verify + trx_id)).json["ref_trx"]
    for stranger in (other, in_production):
        assert await every(stranger, kind.path) == []
        assert await every(stranger, kind.path, ref_trx=reference) == []
    assert ids(await every(merchant, kind.path)) == [trx_id]


@both
async def test_pages_requested_at_the_same_time_have_the_items_of_their_caller(
    sandbox_payer: PayoutMerchant, db: Database, keyring: Keyring, kind: Kind
) -> None:
    made = [await kind.create(sandbox_payer, "pending") for _ in range(3)][::-1]
    merchant = sandbox_payer.merchant
    other = await new_merchant(merchant.site, db, keyring)
    created = (await page(merchant, kind.path, limit=1))["data"][0]["created_at"]
    requested = [
        (merchant, {"limit": 2}, made[:2]),
        (other, {}, []),
        (merchant, {"limit": 1}, made[:1]),
        (merchant, {"until": created}, made[1:]),
        (merchant, {"limit": 3}, made),
        (merchant, {"since": created, "status": "pending"}, made[:1]),
    ]
    pages = await asyncio.gather(*(page(who, kind.path, **query) for who, query, _ in requested))
    assert [ids(each["data"]) for each in pages] == [expected for _, _, expected in requested]


async def test_a_cursor_of_one_list_is_not_valid_in_another(sandbox_payer: PayoutMerchant) -> None:
    for kind in KINDS.values():
        for _ in range(2):
            await kind.create(sandbox_payer, "pending")
    merchant = sandbox_payer.merchant
    cursor = (await page(merchant, PAYMENTS.path, limit=1))["next_cursor"]
    reply = await get(merchant, PAYOUTS.path, cursor=cursor)
    assert (reply.status, set(reply.json["errors"])) == (400, {"cursor"})


async def test_production_and_sandbox_payments_of_one_merchant_stay_apart(
    sandbox_payer: PayoutMerchant,
) -> None:
    sandbox = sandbox_payer.merchant
    production = msgspec.structs.replace(sandbox, environment=Environment.PRODUCTION)
    made: dict[Merchant, list[str]] = {sandbox: [], production: []}
    for merchant in (sandbox, production, production, sandbox, production):
        reply: Any = await merchant.post(INITIATE, order())
        made[merchant].append(steps.trx_id_of(reply))
    for merchant, trx_ids in made.items():
        for limit in (1, 2, 3, 4, 5):
            pages = await every(merchant, PAYMENTS.path, limit=limit)
            assert ids(pages) == trx_ids[::-1]
        full = await page(merchant, PAYMENTS.path, limit=2)
        assert ids(full["data"]) == trx_ids[::-1][:2]


@both
async def test_a_list_is_in_the_order_of_the_times_that_it_shows(
    sandbox_payer: PayoutMerchant, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns()
    # If processes have different clocks, requests are not stored in the order of their arrival.
    for seconds in (0.0, -0.2, 0.3, -0.1, -0.1):
        monkeypatch.setattr(time, "time_ns", lambda at=seconds: now + int(at * 1e9))
        await kind.create(sandbox_payer, "pending")
    items = await every(sandbox_payer.merchant, kind.path, limit=2)
    times = [item["created_at"] for item in items]
    assert times == sorted(times, reverse=True)
    assert len(set(times)) == 4
    for item in items:
        moment = moment_of(item["trx_id"])
        assert moment == datetime.fromisoformat(item["created_at"])
        [same] = await every(
            sandbox_payer.merchant, kind.path, ref_trx=item["ref_trx"], since=item["created_at"]
        )
        assert same == item


@both
@pytest.mark.parametrize("name", ["cursor", "ref_trx", "limit", "status", "from", "to"])
async def test_a_parameter_without_a_value_is_rejected(
    sandbox_payer: PayoutMerchant, kind: Kind, name: str
) -> None:
    reply = await sandbox_payer.merchant.get(f"{kind.path}?{name}=")
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert reply.json["errors"] == {name: "Expected a value. Omit the parameter if you have none."}
