"""A whole cell moves to new hardware: a physical standby is built, and replaces the primary."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from manilla.kit.embedded.postgres import APPLICATION, OWNER
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.merchants import wallets
from manilla.proofs import proofs, verify
from manilla.settings import Settings
from manilla.sql import migrate
from tests.faults.replicated import Replicated
from tests.support.client import Merchant, new_merchant
from tests.support.databases import running
from tests.support.instance import free_port

pytestmark = pytest.mark.long

BALANCES = "/api/v1/balance"


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Replicated]:
    replicated = Replicated(tmp_path)
    try:
        yield await replicated.open()
    finally:
        replicated.close()


async def test_a_cell_works_on_new_hardware_with_all_its_books(
    servers: Replicated, settings: Settings
) -> None:
    await migrate.upgrade(servers.url(OWNER), servers.url(APPLICATION))
    own = msgspec.structs.replace(
        settings,
        database_url=servers.url(APPLICATION),
        migration_url=servers.url(OWNER),
        base_url=f"http://127.0.0.1:{free_port()}",
    )
    async with running(own) as (services, site):
        merchant = await new_merchant(
            site, services.db, services.keyring, environment=Environment.PRODUCTION
        )
        await wallets.fund(
            services.db, merchant.new.id, Environment.PRODUCTION, Money.of("7", "NGN"), "test"
        )
        epoch = await services.db.number("SELECT current_event_epoch()")
    await servers.switch_over()
    async with running(own) as (services, site):
        moved = Merchant(site, merchant.new, merchant.environment)
        assert (await moved.get(BALANCES)).status == 200
        await wallets.fund(
            services.db, merchant.new.id, Environment.PRODUCTION, Money.of("3", "NGN"), "test"
        )
        balance = "SELECT balance_minor FROM wallet WHERE environment = 'production'"
        assert await services.db.number(balance) == 1000
        assert await services.db.number("SELECT current_event_epoch()") == epoch
        assert [each for each in await proofs.check(services.db) if each.count] == []
    assert (await verify.run(servers.url(OWNER), [], None)).findings == []
