import asyncio
import random
from collections import Counter

import msgspec

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.merchants.merchants import MerchantStatus
from manilla.platform import settings as platform
from manilla.services import Services
from tests.support.client import Merchant, Reply, Site, new_merchant
from tests.support.freshness import outdate

PATH = "/api/v1/site-info"


async def test_the_121st_request_of_a_minute_is_rejected(merchant: Merchant) -> None:
    replies = await asyncio.gather(*(merchant.get(PATH) for _ in range(130)))
    assert Counter(reply.status for reply in replies) == {200: 120, 429: 10}
    refused = next(reply for reply in replies if reply.status == 429)
    assert refused.code == "RATE_LIMIT_EXCEEDED"
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert '"merchant";r=0;t=' in refused.headers["ratelimit"]


async def test_another_ip_or_merchant_has_its_own_limit(
    merchant: Merchant, site: Site, db: Database, keyring: Keyring
) -> None:
    replies = await asyncio.gather(*(merchant.get(PATH) for _ in range(130)))
    assert 429 in {reply.status for reply in replies}
    elsewhere = msgspec.structs.replace(merchant, site=site.from_new_ip())
    neighbor = await new_merchant(merchant.site, db, keyring)
    neighbor = msgspec.structs.replace(neighbor, site=merchant.site)
    for other in (elsewhere, neighbor):
        assert (await other.get(PATH)).status == 200


async def test_both_environments_share_one_limit(merchant: Merchant) -> None:
    live = msgspec.structs.replace(merchant, environment=Environment.PRODUCTION)
    replies = await asyncio.gather(*(who.get(PATH) for who in (merchant, live) for _ in range(65)))
    assert Counter(reply.status for reply in replies) == {200: 120, 429: 10}


def new_network() -> str:
    """Returns an IPv6 /64 network that no other test uses."""
    return f"2001:db8:{random.randrange(0x10000):x}:{random.randrange(0x10000):x}"


def calling_from(merchant: Merchant, address: str) -> Merchant:
    return msgspec.structs.replace(merchant, site=Site(merchant.site.port, address))


def remaining(reply: Reply) -> int:
    return int(reply.headers["ratelimit"].split(";r=")[1].split(";")[0])


async def test_an_ipv6_network_counts_as_one_client(merchant: Merchant) -> None:
    network = new_network()
    hosts = [f"{network}::1", f"{network}::2", f"{network}:0:0:ffff:1", f"{network}::1".upper()]
    replies = [await calling_from(merchant, host).get(PATH) for host in hosts]
    assert [remaining(reply) for reply in replies] == [119, 118, 117, 116]
    neighbor = await calling_from(merchant, f"{new_network()}::1").get(PATH)
    assert remaining(neighbor) == 119


async def test_an_ipv4_mapped_ipv6_address_counts_as_ipv4(merchant: Merchant) -> None:
    address = merchant.site.address
    replies = [
        await calling_from(merchant, written).get(PATH)
        for written in (address, f"::ffff:{address}", f"0:0:0:0:0:FFFF:{address}")
    ]
    assert [remaining(reply) for reply in replies] == [119, 118, 117]


async def test_failed_authentication_counts_per_ipv6_network(merchant: Merchant) -> None:
    network = new_network()
    guesses = await asyncio.gather(
        *(
            calling_from(merchant, f"{network}::{host:x}").get(PATH, X_API_Key="guess")
            for host in range(125)
        )
    )
    assert Counter(reply.status for reply in guesses) == {401: 120, 429: 5}


async def test_failed_authentication_counts_per_ip_and_blocks_only_failing_calls(
    merchant: Merchant,
) -> None:
    guesses = await asyncio.gather(*(merchant.get(PATH, X_API_Key="guess") for _ in range(125)))
    assert Counter(reply.status for reply in guesses) == {401: 120, 429: 5}
    assert (await merchant.get(PATH)).status == 200
    unknown = await merchant.get("/api/v1/nothing")
    assert unknown.status == 404


async def test_rejected_calls_count_too(site: Site, db: Database, keyring: Keyring) -> None:
    """The API checks the rate limit first, before the merchant's status and the request body."""
    pending = await new_merchant(site, db, keyring, MerchantStatus.PENDING, Environment.PRODUCTION)
    replies = await asyncio.gather(*(pending.get(PATH) for _ in range(121)))
    assert Counter(reply.status for reply in replies) == {403: 120, 429: 1}


async def test_the_limit_is_configurable(
    merchant: Merchant, db: Database, services: Services
) -> None:
    try:
        await platform.change(db, "rate_limit_per_minute", "2")
        await outdate(services)
        statuses = [(await merchant.get(PATH)).status for _ in range(3)]
    finally:
        await platform.change(db, "rate_limit_per_minute", "120")
    assert statuses == [200, 200, 429]
    await outdate(services)
