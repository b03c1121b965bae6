"""Every payment request counts once. A request beyond the limit writes nothing."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import msgspec
import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.merchants.merchants import MerchantStatus
from manilla.services import Services
from tests.payments import steps
from tests.payments.orders import order
from tests.support.client import Merchant, Reply, Site, new_merchant


@pytest.fixture
async def merchant(site: Site, db: Database, keyring: Keyring) -> Merchant:
    return await new_merchant(site, db, keyring)


@pytest.fixture
async def _two_a_minute(services: Services) -> AsyncIterator[None]:
    async with steps.setting(services, "rate_limit_per_minute", 2):
        yield


def remaining(reply: Reply) -> int:
    assert reply.headers["ratelimit-policy"].startswith('"merchant";q=')
    return int(reply.headers["ratelimit"].split(";r=")[1].split(";")[0])


def from_elsewhere(merchant: Merchant) -> Merchant:
    return msgspec.structs.replace(merchant, site=merchant.site.from_new_ip())


async def test_every_request_counts_once_whatever_its_response(merchant: Merchant) -> None:
    used = order()
    replies = [
        await steps.initiate(merchant, used, Idempotency_Key="k"),
        await steps.initiate(merchant, used, Idempotency_Key="k"),
        await steps.initiate(merchant, used),
        await steps.initiate(merchant, order(), Idempotency_Key="k"),
        await steps.initiate(merchant, order(currency_code="USD")),
        await steps.initiate(merchant, order(payment_amount=0)),
        await steps.initiate(merchant, b"not json"),
        await steps.initiate(merchant, order(), X_Sandbox_Scenario="unknown"),
        await steps.initiate(merchant, order(), Idempotency_Key=""),
        await steps.initiate_legacy(merchant, order()),
        await steps.initiate_legacy(merchant, {}),
    ]
    trx_id = steps.trx_id_of(replies[0])
    unknown = trx_id[:-1] + ("0" if trx_id[-1] != "0" else "1")
    replies += [await steps.verify(merchant, asked) for asked in (trx_id, "TXN1", unknown)]
    assert [reply.status for reply in replies] == [
        *(200, 200, 422, 422, 422, 400, 400, 400, 400),
        *(200, 400),
        *(200, 404, 404),
    ]
    assert [remaining(reply) for reply in replies] == list(range(119, 119 - len(replies), -1))


async def test_concurrent_requests_with_one_reference_count_once_each(merchant: Merchant) -> None:
    sent = order()
    await asyncio.gather(*(steps.initiate(merchant, sent) for _ in range(64)))
    assert remaining(await steps.initiate(merchant, order())) == 120 - 65


async def test_concurrent_requests_with_one_key_count_once_each(merchant: Merchant) -> None:
    sent = order()
    await asyncio.gather(*(steps.initiate(merchant, sent, Idempotency_Key="k") for _ in range(64)))
    assert remaining(await steps.initiate(merchant, order())) == 120 - 65


@pytest.mark.usefixtures("_two_a_minute")
async def test_the_limit_is_checked_before_the_body(merchant: Merchant) -> None:
    for _ in range(2):
        assert (await steps.initiate(merchant, b"not json")).status == 400
    bodies = [order(), order(currency_code="USD"), order(payment_amount=0), b"not json", b"{}"]
    for body in bodies:
        reply = await steps.initiate(merchant, body)
        assert (reply.status, reply.code) == (429, "RATE_LIMIT_EXCEEDED")
        assert 1 <= int(reply.headers["retry-after"]) <= 60
        assert remaining(reply) == 0
    unknown = await steps.initiate(merchant, order(), X_Sandbox_Scenario="unknown")
    assert unknown.status == 429


@pytest.mark.usefixtures("_two_a_minute")
async def test_the_limit_is_checked_before_the_merchants_status(
    site: Site, db: Database, keyring: Keyring
) -> None:
    pending = await new_merchant(site, db, keyring, MerchantStatus.PENDING, Environment.PRODUCTION)
    statuses = [(await steps.initiate(pending, order())).status for _ in range(3)]
    assert statuses == [403, 403, 429]


@pytest.mark.usefixtures("_two_a_minute")
async def test_the_limit_is_checked_before_references_and_replays(merchant: Merchant) -> None:
    sent = order()
    first = await steps.initiate(merchant, sent, Idempotency_Key="k")
    await steps.initiate(merchant, sent, Idempotency_Key="k")
    replay = await steps.initiate(merchant, sent, Idempotency_Key="k")
    duplicate = await steps.initiate(merchant, sent)
    asked = await steps.verify(merchant, steps.trx_id_of(first))
    unknown = await steps.verify(merchant, "TXN1")
    assert [r.status for r in (replay, duplicate, asked, unknown)] == [429] * 4


@pytest.mark.usefixtures("_two_a_minute")
async def test_both_endpoints_share_one_limit(merchant: Merchant) -> None:
    assert (await steps.initiate(merchant, order())).status == 200
    assert (await steps.initiate_legacy(merchant, order())).status == 200
    assert (await steps.initiate(merchant, order())).status == 429
    assert (await steps.initiate_legacy(merchant, order())).status == 429


@pytest.mark.usefixtures("_two_a_minute")
async def test_beyond_the_limit_no_payment_is_created(merchant: Merchant) -> None:
    sent = [order() for _ in range(10)]
    replies = await asyncio.gather(*(steps.initiate(merchant, body) for body in sent))
    assert Counter(reply.status for reply in replies) == {200: 2, 429: 8}
    again = [await steps.initiate(from_elsewhere(merchant), body) for body in sent]
    for reply, later in zip(replies, again, strict=True):
        assert later.status == (422 if reply.status == 200 else 200)


@pytest.mark.usefixtures("_two_a_minute")
async def test_beyond_the_limit_no_response_is_stored(merchant: Merchant) -> None:
    for _ in range(2):
        await steps.initiate(merchant, order())
    sent = order()
    assert (await steps.initiate(merchant, sent, Idempotency_Key="k")).status == 429
    later = await steps.initiate(from_elsewhere(merchant), sent, Idempotency_Key="k")
    assert (later.status, later.headers.get("idempotent-replayed")) == (200, None)


async def test_the_limit_is_exact_across_api_processes(
    merchant: Merchant, services: Services
) -> None:
    async with steps.second_program(services, merchant) as other:
        callers = [merchant, other] * 65
        replies = await asyncio.gather(*(steps.initiate(caller, order()) for caller in callers))
    assert Counter(reply.status for reply in replies) == {200: 120, 429: 10}
    left = sorted(remaining(reply) for reply in replies if reply.status == 200)
    assert left == list(range(120))
