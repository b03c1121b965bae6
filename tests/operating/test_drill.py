"""The restore drill: after restoring an older backup, no transfer is sent twice."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from manilla.cli.audit import read_kept
from manilla.kit.embedded.postgres import Cluster
from manilla.kit.environment import Environment
from manilla.ledger import invariants
from manilla.platform import settings as platform
from manilla.proofs import going_live, restored
from manilla.settings import Settings
from manilla.sql import migrate
from tests.operating.hosts import ManillaHost
from tests.payouts.payout_merchant import PayoutMerchant, see_changes
from tests.support.client import Merchant, Site, new_merchant
from tests.support.databases import database, running
from tests.support.invariants import ALL
from tests.support.provider_simulator import ProviderSimulator, running_simulator

pytestmark = pytest.mark.long

SLOW = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}


async def sent(simulator: ProviderSimulator) -> list[str]:
    listed = (await simulator.read("a/transfers"))["transfers"]
    return sorted(transfer["reference"] for transfer in listed)


async def test_nothing_is_paid_twice_after_restoring_an_older_backup(
    cluster: Cluster, settings: Settings, project: Path, tmp_path: Path
) -> None:
    before = await database(cluster, settings, "drill_before")
    after = await database(cluster, settings, "drill_after")
    await migrate.upgrade(before.migration_url, before.database_url)
    async with running(before) as (old, site), running_simulator(old) as simulator:
        merchant = await new_merchant(site, old.db, old.keyring, environment=Environment.PRODUCTION)
        payer = PayoutMerchant(old, simulator, merchant)
        await payer.fund("10000")
        await simulator.control("a/faults", SLOW)

        under_way = await payer.pay_out()
        await simulator.run_jobs()
        taken, waiting = await payer.pay_out(), await payer.pay_out()
        first = ManillaHost(project, tmp_path, cluster.binaries, before)
        await first.run(f"'{project}/deploy/backup.sh' backup")

        # Two payouts are sent after the backup, and the backup contains only one of them.
        await old.db.execute("UPDATE job SET due_at = 'infinity' WHERE subject = $1", waiting)
        await simulator.run_job_now("transfer", taken)
        lost = await payer.pay_out()
        await simulator.run_job_now("transfer", lost)
        made = await sent(simulator)

        second = ManillaHost(project, tmp_path, cluster.binaries, after)
        said = await second.run(f"'{project}/deploy/drill.sh' backup")
        # The drill prints the command that records it in the live instance.
        [record] = [line.split() for line in said.splitlines() if "manilla audit drill" in line]
        ended_at = await going_live.record_drill(old.db, read_kept(record[-1]))
        assert ended_at <= datetime.now(UTC)
        async with running(after) as (new, new_site):
            await check_restored(
                PayoutMerchant(
                    new,
                    simulator.used_by(new),
                    _moved(merchant, new_site),
                ),
                *(under_way, taken, waiting, lost),
                made=made,
                said=said,
            )


def _moved(merchant: Merchant, site: Site) -> Merchant:
    return msgspec.structs.replace(merchant, site=site.from_new_ip())


async def check_restored(
    payer: PayoutMerchant,
    under_way: str,
    taken: str,
    waiting: str,
    lost: str,
    *,
    made: list[str],
    said: str,
) -> None:
    services, simulator = payer.services, payer.simulator
    line_of = {words[0]: words for line in said.splitlines() if (words := line.split())}
    assert line_of[taken][-3:] == ["will", "be", "queried"]
    assert line_of[waiting][-4:] == ["will", "be", "sent", "on", "release"][-4:]

    # During the hold, new payouts can be accepted but are not sent, and sent payouts are queried.
    assert (await payer.ask()).json["error_code"] == "merchant_payout_disabled"
    await platform.change(services.db, "withdrawals_enabled", "true")
    await see_changes(services)
    new = await payer.pay_out()
    for reference in (under_way, taken):
        await payer.settle("a", reference, "success")
        await payer.check_until(reference, "completed")
    await payer.check_now(waiting)
    assert await sent(simulator) == made

    found = await restored.missing(services.db, services.rails, "providera", made)
    assert [each.reference for each in found] == [lost]

    await restored.release(services.db, services.rails)
    await simulator.run_job_now("transfer", waiting)
    await simulator.run_job_now("transfer", new)
    assert await sent(simulator) == sorted([*made, waiting, new])
    assert [f.name for f in await invariants.check(services.db, ALL) if f.count] == []
