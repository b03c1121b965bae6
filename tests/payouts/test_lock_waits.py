"""Payouts of different merchants do not wait for each other."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import asyncpg

from manilla import worker
from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster
from manilla.kit.environment import Environment
from manilla.kit.jobs.runner import Runner
from manilla.services import Services
from manilla.settings import Settings
from manilla.wiring import open_services
from tests.client import Site, new_merchant
from tests.lock_waits import watched
from tests.payouts.payout_merchant import PayoutMerchant
from tests.provider_simulator import ProviderSimulator
from tests.waiting import until, until_true

MERCHANTS, PAYOUTS = 4, 10


@contextlib.asynccontextmanager
async def _slow_commits(cluster: Cluster) -> AsyncIterator[None]:
    """Makes each commit take 10 ms longer, so that locks are held long enough to be seen."""
    connection = await asyncpg.connect(cluster.url(postgres.SUPERUSER, "postgres"))
    try:
        await connection.execute("ALTER SYSTEM SET commit_delay = 10000")
        await connection.execute("ALTER SYSTEM SET commit_siblings = 0")
        await connection.execute("SELECT pg_reload_conf()")
        yield
    finally:
        await connection.execute("ALTER SYSTEM RESET commit_delay")
        await connection.execute("ALTER SYSTEM RESET commit_siblings")
        await connection.execute("SELECT pg_reload_conf()")
        await connection.close()


@contextlib.asynccontextmanager
async def _two_workers(services: Services, settings: Settings) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with open_services(settings, name="second worker", connections=5) as second:
        running = [
            asyncio.create_task(Runner(each.db, worker.works(each)).run(stop))
            for each in (services, second)
        ]
        try:
            yield
        finally:
            stop.set()
            await asyncio.gather(*running)


async def test_payouts_of_different_merchants_do_not_wait_for_each_other(
    services: Services,
    settings: Settings,
    simulator: ProviderSimulator,
    site: Site,
    db: Database,
    keyring: Keyring,
    cluster: Cluster,
) -> None:
    payers = []
    for _ in range(MERCHANTS):
        merchant = await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)
        payer = PayoutMerchant(services, simulator, merchant)
        await payer.fund("1000000")
        payers.append(payer)
    for payer in payers:
        await payer.order()  # postpones the jobs of earlier tests
    await services.banks.refresh()
    created: list[str] = []

    async def are_completed() -> bool:
        number: int = await db.value(
            "SELECT count(*) FROM payout WHERE trx_id = ANY($1) AND status = 'completed'", created
        )
        return number == len(created)

    async with (
        _slow_commits(cluster),
        watched(cluster) as waits,
        _two_workers(services, settings),
    ):
        orders = [payer.pay_out() for payer in payers for _ in range(PAYOUTS)]
        created += await asyncio.gather(*orders)
        await until(are_completed)
    assert waits.between_merchants() == {}


async def test_a_wait_for_a_row_of_no_merchant_is_seen(owner: Database, cluster: Cluster) -> None:
    await owner.execute("INSERT INTO setting (key, value) VALUES ('test', '1')")
    change = "UPDATE setting SET value = '2' WHERE key = 'test'"
    async with watched(cluster) as waits:
        async with owner.transaction() as first:
            await first.execute(change)
            second = asyncio.create_task(owner.execute(change))
            await until_true(lambda: list(waits.between_merchants()) == ["setting"])
        await second
    await owner.execute("DELETE FROM setting WHERE key = 'test'")
