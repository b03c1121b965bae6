import asyncio
from collections import Counter

import msgspec

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.ledger.posting import Environment
from manilla.merchants.merchants import Status
from manilla.platform import settings as platform
from tests.client import Merchant, Site, new_merchant

PATH = "/api/v1/site-info"


async def test_the_121st_request_of_a_minute_is_refused(merchant: Merchant) -> None:
    replies = await asyncio.gather(*(merchant.get(PATH) for _ in range(130)))
    assert Counter(reply.status for reply in replies) == {200: 120, 429: 10}
    refused = next(reply for reply in replies if reply.status == 429)
    assert refused.code == "RATE_LIMIT_EXCEEDED"
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert '"merchant";r=0;t=' in refused.headers["ratelimit"]


async def test_another_address_environment_or_merchant_has_its_own_limit(
    merchant: Merchant, site: Site, db: Database, keyring: Keyring
) -> None:
    await asyncio.gather(*(merchant.get(PATH) for _ in range(120)))
    assert (await merchant.get(PATH)).status == 429
    elsewhere = msgspec.structs.replace(merchant, site=site.elsewhere())
    live = msgspec.structs.replace(merchant, environment=Environment.PRODUCTION)
    neighbour = await new_merchant(merchant.site, db, keyring)
    neighbour = msgspec.structs.replace(neighbour, site=merchant.site)
    for other in (elsewhere, live, neighbour):
        assert (await other.get(PATH)).status == 200


async def test_failed_authentication_counts_per_address_and_stops_only_failing_calls(
    merchant: Merchant,
) -> None:
    guesses = await asyncio.gather(*(merchant.get(PATH, X_API_Key="guess") for _ in range(125)))
    assert Counter(reply.status for reply in guesses) == {401: 120, 429: 5}
    assert (await merchant.get(PATH)).status == 200
    unknown = await merchant.get("/api/v1/nothing")
    assert unknown.status == 404


async def test_refused_calls_count_too(site: Site, db: Database, keyring: Keyring) -> None:
    """The limit comes before availability and the body: what is refused there was counted."""
    pending = await new_merchant(site, db, keyring, Status.PENDING, Environment.PRODUCTION)
    replies = await asyncio.gather(*(pending.get(PATH) for _ in range(121)))
    assert Counter(reply.status for reply in replies) == {403: 120, 429: 1}


async def test_the_limit_is_a_setting(merchant: Merchant, db: Database) -> None:
    try:
        await platform.change(db, "rate_limit_per_minute", "2")
        await asyncio.sleep(1)
        statuses = [(await merchant.get(PATH)).status for _ in range(3)]
    finally:
        await platform.change(db, "rate_limit_per_minute", "120")
    assert statuses == [200, 200, 429]
    await asyncio.sleep(1)
