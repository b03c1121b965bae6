"""One merchant's payments, payouts and notifications, on a database whose plans are logged."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg

from manilla.kit.embedded.postgres import Cluster
from manilla.kit.environment import Environment
from manilla.kit.jobs.claims import claim_fairly
from manilla.kit.jobs.runner import Runner
from manilla.notify import delivery
from manilla.notify.delivery import NotificationDelivery
from manilla.notify.ipn import IpnDestination
from manilla.refunds import initiate
from manilla.settings import Settings
from tests.notify.endpoint_merchant import ENDPOINTS, endpoint_worker
from tests.payments.orders import new_reference
from tests.payments.shop import Shop, Started
from tests.payouts.payout_merchant import PayoutMerchant, setting
from tests.sql.plans import PlanLog
from tests.support.client import new_merchant
from tests.support.databases import database, running
from tests.support.provider_simulator import running_simulator

NAME = "plans"
# With each of these filters, fetching a page with one item reads only two rows.
LISTS = ("payments", "payouts", "refunds")
LIST_QUERIES = (
    "limit=1",
    "limit=1&from=2026-01-01T00:00:00Z&to=2199-01-01T00:00:00Z&status=pending",
    "limit=1&ref_trx=unknown",
)
OTHER_LISTS = ("events?limit=1", "payment-links?limit=1")
LINK = {"title": "Two chairs", "amount": 1000, "currency_code": "NGN"}
State = Callable[[asyncpg.Connection], Awaitable[None]]


class Business:
    """One merchant, and all SQL statements that are executed for its payments and payouts."""

    def __init__(self, payer: PayoutMerchant, shop: Shop) -> None:
        self.payer, self.shop = payer, shop
        self.db = payer.services.db

    async def initiate(self) -> tuple[Started, str]:
        return await self.shop.start(), await self.payer.pay_out()

    async def initiate_and_verify(self) -> None:
        started, payout = await self.initiate()
        assert (await self.shop.verify(started)).status == 200
        assert (await self.payer.verify(payout)).status == 200

    async def initiate_and_list(self) -> None:
        await self.initiate()
        assert (await self.payer.merchant.post("/api/v1/payment-links", LINK)).status == 200
        targets = [f"{name}?{query}" for name in LISTS for query in LIST_QUERIES]
        for target in (*targets, *OTHER_LISTS):
            reply = await self.payer.merchant.get(f"/api/v1/{target}")
            assert reply.status == 200, reply.body

    async def take_and_refund_a_payment(self) -> None:
        started = await self.shop.start()
        await self.shop.pay(await self.shop.choose(started, "providera-ngn"))
        await self.shop.until(started, "success")
        await initiate.start(self.db, started.trx_id, "1", "Returned goods")
        order = {"trx_id": started.trx_id, "amount": 1, "ref_trx": new_reference()}
        assert (await self.payer.merchant.post("/api/v1/initiate-refund", order)).status == 200
        await self.payer.simulator.run_jobs()
        assert (await self.payer.merchant.get("/api/v1/balance")).status == 200

    async def complete_a_payout(self) -> None:
        await self.payer.check_until(await self.payer.pay_out(), "completed")

    async def notify(self) -> None:
        async with delivery.open_client(is_public_only=False, connections=1) as client:
            works = NotificationDelivery(
                IpnDestination(self.db, self.payer.services.directory), client
            ).job_handlers()
            claimed, _ = await claim_fairly(self.db, "notify", 100, -1)
            for job in claimed:
                await Runner(self.db, works)._do(job)

    async def add_endpoint(self, url: str) -> None:
        order = {"url": url, "events": ["*"]}
        assert (await self.payer.merchant.post(ENDPOINTS, order)).status == 200
        await self.payer.services.directory._refresh(0)

    async def notify_endpoint(self) -> None:
        async with endpoint_worker(self.payer.services) as worker:
            claimed, _ = await claim_fairly(self.db, "endpoint", 100, -1)
            runner = Runner(self.db, worker.job_handlers())
            await asyncio.gather(*(runner._do(job) for job in claimed))


@contextlib.asynccontextmanager
async def business(settings: Settings) -> AsyncIterator[Business]:
    async with running(settings) as (services, site), running_simulator(services) as simulator:
        merchant = await new_merchant(
            site, services.db, services.keyring, environment=Environment.PRODUCTION
        )
        payer, shop = (
            PayoutMerchant(services, simulator, merchant),
            Shop(services, simulator, merchant),
        )
        await payer.fund("10000000")
        async with setting(services, "rate_limit_per_minute", "1000000"):
            yield Business(payer, shop)


async def database_in(
    cluster: Cluster, settings: Settings, state: State
) -> tuple[Settings, PlanLog]:
    """Creates a migrated database in this state, and disables updates of its statistics."""
    on = await database(cluster, settings, NAME, is_migrated=True)
    owner = await asyncpg.connect(on.migration_url)
    try:
        for table in await owner.fetch(
            "SELECT relname AS name FROM pg_class"
            " WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
        ):
            await owner.execute(f"ALTER TABLE {table['name']} SET (autovacuum_enabled = off)")
        await state(owner)
    finally:
        await owner.close()
    log = PlanLog(cluster, NAME)
    await log.turn_on()
    return on, log
