"""A repeated request with the same Idempotency-Key gets the first request's response."""

import asyncio
import json
from collections import Counter

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.merchants import wallets
from manilla.merchants.merchants import CommissionBearer
from manilla.merchants.wallets import WalletStatus
from manilla.services import Services
from tests.payments import steps
from tests.payments.orders import INITIATE, order
from tests.support.client import Merchant, Reply, Site, new_merchant
from tests.support.freshness import outdate
from tests.support.rows import long_rows, pairs

REPLAYED = "idempotent-replayed"


@pytest.fixture
async def merchant(site: Site, db: Database, keyring: Keyring) -> Merchant:
    return await new_merchant(site, db, keyring)


@pytest.fixture
def live(merchant: Merchant) -> Merchant:
    return steps.in_environment(merchant, Environment.PRODUCTION)


def is_fresh(reply: Reply) -> bool:
    return reply.status == 200 and REPLAYED not in reply.headers


def is_replay_of(first: Reply, reply: Reply) -> bool:
    return (reply.status, reply.headers.get(REPLAYED), reply.body) == (200, "true", first.body)


@pytest.mark.parametrize(
    ("key", "environment"), pairs(["7", "a b", "~!@#$%^&*()", "k" * 255], list(Environment))
)
async def test_the_same_key_and_body_replay_the_first_response_byte_for_byte(
    merchant: Merchant, environment: Environment, key: str
) -> None:
    caller = steps.in_environment(merchant, environment)
    body = steps.order_of("90071992547409.93", description='Zoë "x" 😀')
    first = await steps.initiate(caller, body, Idempotency_Key=key)
    assert is_fresh(first)
    for _ in range(2):
        replay = await steps.initiate(caller, body, Idempotency_Key=key)
        assert is_replay_of(first, replay)
        assert replay.headers["x-transaction-id"] == first.headers["x-transaction-id"]


async def test_a_replay_returns_the_original_state(merchant: Merchant, services: Services) -> None:
    body = steps.encoded(order())
    first = await steps.initiate(merchant, body, Idempotency_Key="k")
    await steps.complete(services, merchant, steps.trx_id_of(first))
    await steps.set_commission(services, merchant, "10", CommissionBearer.CUSTOMER)
    await outdate(services)
    assert is_replay_of(first, await steps.initiate(merchant, body, Idempotency_Key="k"))


@pytest.mark.parametrize("change", ["amount", "reference", "a space"])
async def test_the_same_key_with_another_body_is_rejected(merchant: Merchant, change: str) -> None:
    body = steps.order_of("1000")
    first = await steps.initiate(merchant, body, Idempotency_Key="k")
    other = {
        "amount": body.replace(b"1000", b"1001"),
        "reference": body.replace(b"ORDER-", b"OTHER-"),
        "a space": body + b" ",
    }[change]
    reply = await steps.initiate(merchant, other, Idempotency_Key="k")
    assert (reply.status, reply.code) == (422, "DUPLICATE_REFERENCE")
    assert REPLAYED not in reply.headers
    assert is_replay_of(first, await steps.initiate(merchant, body, Idempotency_Key="k"))


async def test_a_retry_without_its_key_is_a_used_reference(merchant: Merchant) -> None:
    body = steps.encoded(order())
    first = await steps.initiate(merchant, body, Idempotency_Key="k")
    for key in (None, "other"):
        reply = await steps.initiate(merchant, body, Idempotency_Key=key)
        assert (reply.status, reply.code) == (422, "DUPLICATE_REFERENCE")
        assert reply.json["trx_id"] == steps.trx_id_of(first)


async def test_a_rejected_reference_stores_no_response(merchant: Merchant) -> None:
    used = order()
    await steps.initiate(merchant, used)
    assert (await steps.initiate(merchant, used, Idempotency_Key="k")).status == 422
    assert is_fresh(await steps.initiate(merchant, order(), Idempotency_Key="k"))


async def test_after_a_failure_the_same_key_and_body_are_processed_again(
    live: Merchant, services: Services
) -> None:
    await steps.set_commission(services, live, "1", CommissionBearer.MERCHANT)
    body = steps.encoded(order())
    refused = await steps.initiate(live, body, Idempotency_Key="k")
    assert (refused.status, refused.code) == (422, "insufficient_balance")
    await steps.fund(services, live, "10.00")
    assert is_fresh(await steps.initiate(live, body, Idempotency_Key="k"))


@pytest.mark.parametrize("body", ["not json", "{}"])
async def test_the_key_of_a_rejected_body_can_be_used_again(merchant: Merchant, body: str) -> None:
    assert (await steps.initiate(merchant, body.encode(), Idempotency_Key="k")).status == 400
    assert is_fresh(await steps.initiate(merchant, order(), Idempotency_Key="k"))


async def test_a_key_belongs_to_one_merchant_environment_and_endpoint(
    merchant: Merchant, live: Merchant, site: Site, db: Database, keyring: Keyring
) -> None:
    neighbour = await new_merchant(site, db, keyring)
    for caller in (merchant, live, neighbour):
        assert is_fresh(await steps.initiate(caller, order(), Idempotency_Key="k"))
        assert is_fresh(await steps.initiate_legacy(caller, order(), Idempotency_Key="k"))


async def test_64_concurrent_requests_with_one_key_and_body_get_one_response(
    merchant: Merchant, db: Database
) -> None:
    body = steps.encoded(order())
    replies = await asyncio.gather(
        *(steps.initiate(merchant, body, Idempotency_Key="k") for _ in range(64))
    )
    assert [reply.status for reply in replies] == [200] * 64
    assert len({reply.body for reply in replies}) == 1
    assert sum(is_fresh(reply) for reply in replies) == 1
    count = await db.value("SELECT count(*) FROM payment WHERE merchant_id = $1", merchant.new.id)
    assert count == 1


async def test_concurrent_requests_of_two_merchants_with_one_key_are_independent(
    merchant: Merchant, live: Merchant, site: Site, db: Database, keyring: Keyring
) -> None:
    callers = [merchant, live, await new_merchant(site, db, keyring)]
    body = steps.encoded(order())
    replies = await asyncio.gather(
        *(steps.initiate(caller, body, Idempotency_Key="k") for caller in callers * 16)
    )
    for which in range(len(callers)):
        own = replies[which :: len(callers)]
        assert sum(map(is_fresh, own)) == 1
        assert ({reply.status for reply in own}, len({reply.body for reply in own})) == ({200}, 1)
    assert len({reply.body for reply in replies}) == len(callers)


@pytest.mark.parametrize("keys", ["a", *long_rows("abcde")])
async def test_one_key_gets_one_response_across_api_processes(
    merchant: Merchant, services: Services, keys: str
) -> None:
    async with steps.second_program(services, merchant) as other:
        for key in keys:
            callers, sent = [merchant, other] * 8, order()
            replies = await asyncio.gather(
                *(steps.initiate(caller, sent, Idempotency_Key=key) for caller in callers)
            )
            assert {reply.status for reply in replies} == {200}
            assert len({reply.body for reply in replies}) == 1
            assert sum(is_fresh(reply) for reply in replies) == 1


async def test_of_64_concurrent_bodies_with_one_key_one_succeeds(
    merchant: Merchant, db: Database
) -> None:
    replies = await asyncio.gather(
        *(steps.initiate(merchant, order(), Idempotency_Key="k") for _ in range(64))
    )
    assert Counter((reply.status, reply.code) for reply in replies) == {
        (200, None): 1,
        (422, "DUPLICATE_REFERENCE"): 63,
    }
    count = await db.value("SELECT count(*) FROM payment WHERE merchant_id = $1", merchant.new.id)
    assert count == 1


@pytest.mark.parametrize("key", ["", "k" * 256, "caf\xe9", "a\tb", "a\x7fb"])
async def test_a_key_that_is_not_1_to_255_printable_characters_is_rejected(
    merchant: Merchant, key: str
) -> None:
    sent = order()
    reply = await steps.initiate(merchant, sent, Idempotency_Key=key)
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert (await steps.initiate(merchant, sent)).status == 200


async def test_a_success_is_replayed_even_if_it_would_be_rejected_now(
    merchant: Merchant, db: Database, services: Services
) -> None:
    body = json.dumps(order()).encode()
    key = "a-wallet-that-closes"
    first = await merchant.call("POST", INITIATE, body, Idempotency_Key=key)
    await wallets.set_status(
        db, merchant.new.id, merchant.environment, "NGN", WalletStatus.INACTIVE
    )
    await outdate(services)
    again = await merchant.call("POST", INITIATE, body, Idempotency_Key=key)
    assert (again.status, again.body) == (200, first.body)
    assert again.headers["idempotent-replayed"] == "true"
    other = json.dumps(order()).encode()
    assert (await merchant.call("POST", INITIATE, other, Idempotency_Key="x")).code == (
        "WALLET_NOT_AVAILABLE"
    )
