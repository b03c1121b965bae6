"""Concurrent lookups in the directory of API callers share one load and get no outdated data."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from manilla.kit.changes import ChangeWatch
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.merchants import merchants, queries
from manilla.merchants.directory import Directory
from manilla.merchants.merchants import MerchantUpdate
from manilla.merchants.queries import MerchantRow
from manilla.services import Services
from tests.support.client import Merchant, Site, new_merchant
from tests.support.timeouts import TIMEOUT_SECONDS

Load = Callable[[Database, int], Awaitable[MerchantRow | None]]


class Loads:
    """Counts directory loads. The first load pauses after its query until the test resumes it."""

    def __init__(self, load: Load) -> None:
        self.count = 0
        self.advance = asyncio.Event()
        self._load = load

    async def __call__(self, db: Database, merchant_id: int) -> MerchantRow | None:
        self.count += 1
        is_first = self.count == 1
        row = await self._load(db, merchant_id)
        if is_first:
            await self.advance.wait()
        return row

    async def begun(self, count: int) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while self.count < count:
                await asyncio.sleep(0)


@pytest.fixture
async def merchant(site: Site, db: Database, keyring: Keyring) -> Merchant:
    return await new_merchant(site, db, keyring)


@pytest.fixture
def directory(services: Services) -> Directory:
    """A directory that has not loaded any merchant."""
    return Directory(services.db, services.keyring, ChangeWatch(services.db))


@pytest.fixture
def loads(merchant: Merchant, monkeypatch: pytest.MonkeyPatch) -> Loads:
    loads = Loads(queries.merchant)
    monkeypatch.setattr(queries, "merchant", loads)
    return loads


async def test_a_hundred_concurrent_first_requests_cause_one_load(
    directory: Directory, merchant: Merchant, loads: Loads
) -> None:
    asking = [
        asyncio.create_task(directory.of(merchant.environment, merchant.new.id)) for _ in range(100)
    ]
    await loads.begun(1)
    asking.pop().cancel()  # Canceling one caller does not cancel the load for the other callers.
    loads.advance.set()
    found = await asyncio.gather(*asking)
    assert {caller.merchant_id for caller in found} == {merchant.new.id}
    await directory.of(merchant.environment, merchant.new.id)
    assert loads.count == 1


async def test_a_load_started_before_a_change_is_not_used_after_it(
    directory: Directory, merchant: Merchant, loads: Loads, db: Database, keyring: Keyring
) -> None:
    early = asyncio.create_task(directory.of(merchant.environment, merchant.new.id))
    await loads.begun(1)
    await merchants.change(db, keyring, merchant.new.id, MerchantUpdate(payouts_enabled=False))
    await directory._refresh(0)
    late = await directory.of(merchant.environment, merchant.new.id)
    assert late.payouts_enabled is False
    loads.advance.set()
    await early
    assert (await directory.of(merchant.environment, merchant.new.id)).payouts_enabled is False
