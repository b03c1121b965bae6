"""The restore drill: after restoring an older backup, no transfer is sent twice."""

import asyncio
import base64
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from manilla.kit.embedded.postgres import Cluster
from manilla.kit.environment import Environment
from manilla.ledger import invariants
from manilla.proofs import restored
from manilla.settings import Settings
from manilla.sql import migrate
from tests.client import Merchant, Site, new_merchant
from tests.databases import database, running
from tests.invariants import ALL
from tests.payouts.payout_merchant import PayoutMerchant
from tests.provider_simulator import ProviderSimulator, running_simulator
from tests.timeouts import TIMEOUT_SECONDS

pytestmark = pytest.mark.long

SLOW = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}


async def script(project: Path, name: str, file: Path, cluster: Cluster, on: Settings) -> str:
    """Runs a script from `deploy/` as an operator does, and returns its output."""
    program = file.with_name("programs") / "manilla"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m manilla "$@"\n')
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PG_BIN": str(cluster.binaries),
        "MANILLA_MODE": "production",
        "MANILLA_DATABASE_URL": on.database_url,
        "MANILLA_MIGRATION_URL": on.migration_url,
        "MANILLA_MASTER_KEY": base64.b64encode(on.master_keys[0]).decode(),
    }
    done = await asyncio.to_thread(
        subprocess.run,
        [project / "deploy" / name, file],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
        env=environment,
        cwd=project,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


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
        await script(project, "backup.sh", tmp_path / "backup", cluster, before)

        # Two payouts are sent after the backup, and the backup contains only one of them.
        await old.db.execute("UPDATE job SET due_at = 'infinity' WHERE subject = $1", waiting)
        await simulator.run_job_now("transfer", taken)
        lost = await payer.pay_out()
        await simulator.run_job_now("transfer", lost)
        made = await sent(simulator)

        said = await script(project, "drill.sh", tmp_path / "backup", cluster, after)
        async with running(after) as (new, new_site):
            await check_restored(
                PayoutMerchant(
                    new,
                    ProviderSimulator(new, simulator._session, simulator.url, simulator._tested),
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

    # During the hold, new payouts are accepted but not sent, and sent payouts are queried.
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
