"""Measures which share of the primary's CPU time for reads moves to a standby.

`python -m tests.operating.standby_share 100000` creates that many transactions, and runs each kind
of read with and without `MANILLA_DATABASE_READ_URL`. The standby replicates in both cases.
"""

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import msgspec

from bench import cpu, history, merchants
from manilla.kit import crypto
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import APPLICATION, OWNER, SUPERUSER, Cluster
from manilla.kit.embedded.process import Supervisor
from manilla.kit.environment import Environment
from manilla.platform import settings as platform
from manilla.settings import Mode, Settings
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.support import databases, template
from tests.support.client import Merchant
from tests.support.standby import running_standby
from tests.web.signed_in_user import SignedInUser, administrator

NAME = "share"
CLIENTS = 4  # the number of concurrent requests
CONSOLE = "/transactions?kind=payout&environment=sandbox"

Read = Callable[[MerchantDashboard, SignedInUser], Awaitable[None]]


async def _api(shop: MerchantDashboard, _admin: SignedInUser) -> None:
    reply = await shop.merchant.get("/api/v1/payouts?limit=100")
    assert reply.status == 200, reply.body


async def _list(shop: MerchantDashboard, _admin: SignedInUser) -> None:
    assert (await shop.owner.get("/sandbox/payouts")).status == 200


async def _console(_shop: MerchantDashboard, admin: SignedInUser) -> None:
    assert (await admin.get(CONSOLE)).status == 200


async def _chart(shop: MerchantDashboard, _admin: SignedInUser) -> None:
    assert (await shop.owner.get("/sandbox")).status == 200


async def _search(_shop: MerchantDashboard, admin: SignedInUser) -> None:
    assert (await admin.get("/search?q=1500")).status == 200


async def _export(shop: MerchantDashboard, _admin: SignedInUser) -> None:
    reply = await shop.owner.get("/sandbox/payouts?format=csv")
    assert reply.status == 200, reply.body


# Each kind of read, and how often it runs in one measurement.
READS: dict[str, tuple[Read, int]] = {
    "list by API, 100 rows": (_api, 100),
    "list in the dashboard": (_list, 12),
    "list in the console": (_console, 12),
    "home page with charts": (_chart, 12),
    "search in the console": (_search, 12),
    "export as CSV": (_export, 1),
}


async def main(rows: int) -> None:
    with tempfile.TemporaryDirectory(prefix="manilla-share-") as name, template.shared_folder():
        folder, supervisor = Path(name), Supervisor()
        await asyncio.to_thread(template.copy_migrated, folder / "data")
        cluster = await asyncio.to_thread(postgres.prepare, folder / "data")
        await supervisor.start(cluster.program(folder / "postgres.log"))
        try:
            await postgres.wait_until_ready(cluster)
            await _measure(cluster, supervisor, folder, rows)
        finally:
            await supervisor.stop()


async def _measure(cluster: Cluster, supervisor: Supervisor, folder: Path, rows: int) -> None:
    settings = await databases.database(cluster, _settings(cluster), NAME, is_migrated=True)
    async with databases.running(settings) as (services, site):
        shop = await new_dashboard(services, site)
        admin = await administrator(services, site, "share@example.com")
        await platform.change(services.db, "rate_limit_per_minute", "100000")
        added = await merchants.add(services.db, services.keyring, 200, Environment.SANDBOX)
    await _fill(cluster.url(SUPERUSER, NAME), rows, shop.merchant.new.id, added[0].id)
    postmaster = supervisor.pid("postgres")
    assert postmaster is not None
    async with running_standby(cluster, folder) as standby:
        pids = {"primary": postmaster, "standby": standby.pid}
        alone = await _cpu_of_reads(settings, shop, admin, pids)
        settings = msgspec.structs.replace(settings, read_url=standby.url(APPLICATION, NAME))
        shared = await _cpu_of_reads(settings, shop, admin, pids)
    print("| Read | Primary without read URL | Primary with read URL | Standby | Moved away |")
    print("|---|---|---|---|---|")
    for title in READS:
        before, after = alone[title]["primary"], shared[title]["primary"]
        on_standby = shared[title]["standby"]
        print(
            f"| {title} | {before * 1000:.2f} ms | {after * 1000:.2f} ms"
            f" | {on_standby * 1000:.2f} ms | {1 - after / before:.0%} |"
        )


async def _cpu_of_reads(
    settings: Settings, shop: MerchantDashboard, admin: SignedInUser, pids: dict[str, int]
) -> dict[str, dict[str, float]]:
    """Returns the CPU seconds of each server for one read of each kind."""
    found = {}
    async with databases.running(settings) as (services, site):
        await services.watch.look()
        merchant = Merchant(site, shop.merchant.new, shop.merchant.environment)
        owner = msgspec.structs.replace(shop.owner, site=site)
        here = MerchantDashboard(services, merchant, owner)
        user = msgspec.structs.replace(admin, site=site)
        for title, (read, number) in READS.items():
            await read(here, user)  # opens the connections, and plans the statements
            before = {name: cpu.of_server(pid) for name, pid in pids.items()}
            for _ in range(number // CLIENTS or 1):
                await asyncio.gather(*(read(here, user) for _ in range(min(number, CLIENTS))))
            found[title] = {
                name: (cpu.of_server(pid) - before[name]) / number for name, pid in pids.items()
            }
    return found


async def _fill(url: str, rows: int, merchant_id: int, first_notified: int) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(history.MERCHANTS)
    await history.fill_all(url, rows, merchant_id, first_notified)
    await connection.execute("VACUUM (FREEZE, ANALYZE)")
    await connection.close()


def _settings(cluster: Cluster) -> Settings:
    return Settings(
        mode=Mode.DEVELOPMENT,
        database_url=cluster.url(APPLICATION),
        migration_url=cluster.url(OWNER),
        master_keys=(crypto.decode_key(crypto.generate_key()),),
        base_url="http://127.0.0.1",
    )


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000))
