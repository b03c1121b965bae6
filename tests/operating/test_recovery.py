"""Recovery: no transfer is sent twice, even if the database lacks the last transactions.

The tests run the commands of `docs/operating/recovery.md`.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

import aiohttp
import msgspec
import pytest

from manilla.kit.embedded import postgres
from manilla.kit.environment import Environment
from manilla.ledger import invariants
from manilla.payouts import decisions
from manilla.services import Services
from manilla.settings import Settings
from tests.operating import hosts
from tests.operating.hosts import DatabaseHost, ManillaHost
from tests.payouts.payout_merchant import ACCOUNT, PayoutMerchant, see_changes, setting
from tests.payouts.routing.routed import AUTO, GTBANK
from tests.support import kinds, template
from tests.support.client import Merchant, Site, new_merchant
from tests.support.databases import running
from tests.support.instance import free_port
from tests.support.invariants import ALL
from tests.support.provider_simulator import ProviderSimulator, serving_providers

SLOW = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
REJECTED = {"call": "transfer", "fault": "refuse", "message": "Insufficient funds"}
CLOSED = """
    SELECT count(*) = 0 FROM pg_hba_file_rules
     WHERE type <> 'local' AND address IS DISTINCT FROM 'samehost'"""


class Installation:
    """A database host with its own primary, and the providers, which outlive the database."""

    def __init__(
        self,
        project: Path,
        settings: Settings,
        folder: Path,
        session: aiohttp.ClientSession,
        url: str,
    ) -> None:
        template.copy_migrated(folder / "first")
        self.project = project
        self.folder = folder
        self.cluster = postgres.prepare(folder / "first")
        (folder / "first").chmod(0o711)
        hosts.share(project, folder, self.cluster.account)
        self.database = DatabaseHost(self.cluster, folder, self.cluster.folder)
        self.settings = settings
        self.session = session
        self.url = url
        self.started = [self.database]

    def new_host(self, name: str) -> DatabaseHost:
        data = self.folder / name
        data.mkdir(mode=0o700)
        if (account := self.cluster.account) is not None:
            os.chown(data, account.uid, account.gid)
        host = DatabaseHost(self.cluster, self.folder, data)
        self.started.append(host)
        return host

    def manilla(self, on: DatabaseHost) -> ManillaHost:
        binaries = self.cluster.binaries
        return ManillaHost(self.project, self.folder, binaries, on.settings(self.settings))

    def commands(self, heading: str) -> list[str]:
        return hosts.blocks(self.project / "docs/operating/recovery.md", heading)


@pytest.fixture
async def installation(project: Path, settings: Settings) -> AsyncIterator[Installation]:
    # The user who runs PostgreSQL cannot read the folder that pytest creates.
    folder = Path(tempfile.mkdtemp(prefix="manilla-"))
    settings = msgspec.structs.replace(settings, base_url=f"http://127.0.0.1:{free_port()}")
    async with serving_providers(settings.base_url) as url, aiohttp.ClientSession() as session:
        found = Installation(project, settings, folder, session, url)
        try:
            await found.database.start()
            yield found
        finally:
            for host in found.started:
                await host.stop_if_running()
            shutil.rmtree(folder)


class History:
    """Payouts from before and after the moment to which the database is recovered."""

    def __init__(self, installation: Installation) -> None:
        self.installation = installation
        self.moment = ""

    async def before(self, payer: PayoutMerchant) -> None:
        await payer.fund("10000")
        for rail in kinds.SEEDED:
            await payer.simulator.control(f"{rail}/faults", SLOW)
        self.under_way = await payer.pay_out()
        await payer.simulator.run_jobs()
        self.taken, self.waiting, self.failed = [await payer.pay_out() for _ in range(3)]
        who = {"bank_code": GTBANK, "account_number": ACCOUNT}
        self.canceled = await payer.pay_out(AUTO, beneficiary=who)
        # The test chooses when the worker processes each of these payouts.
        await payer.services.db.execute(
            "UPDATE job SET due_at = 'infinity' WHERE kind = 'transfer'"
        )

    async def after(self, payer: PayoutMerchant) -> None:
        """Sends two payouts, of which the recovered database knows one. Two others fail."""
        await payer.check_now(self.taken)
        await payer.simulator.control("a/faults", {"next": [REJECTED]})
        await payer.check_until(self.failed, "failed")
        async with setting(payer.services, "withdrawals_enabled", "false"):
            await decisions.reject(
                payer.services.db, payer.services.rails, self.canceled, "The merchant asked for it"
            )
        self.lost = await payer.pay_out()
        await payer.check_now(self.lost)
        self.balance = await payer.balance()
        self.made = await sent(payer)
        assert sorted(self.made) == sorted([self.under_way, self.taken, self.lost])
        [event] = (await payer.merchant.get("/api/v1/events?type=payout.failed")).json["data"]
        self.lost_event = event["id"]


async def sent(payer: PayoutMerchant) -> list[str]:
    """Returns the references of all transfers, which no provider has received twice."""
    transfers = [each for rail in kinds.SEEDED for each in await payer.transfers(rail)]
    assert [each["duplicates"] for each in transfers] == [0] * len(transfers)
    return sorted(each["reference"] for each in transfers)


async def work(payer: PayoutMerchant) -> None:
    """Lets the worker process all payouts."""
    await payer.services.db.execute("UPDATE job SET due_at = now() WHERE kind = 'transfer'")
    await payer.simulator.run_jobs()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive with base backups of two days, and without any WAL."""
    for day in ("14", "15"):
        backup = tmp_path / "archive" / "base" / f"202611{day}T013000Z"
        backup.mkdir(parents=True)
        (backup / "postgresql.auto.conf").write_text(f"# backup of {day}\n")
    return tmp_path / "archive"


def prepare(
    project: Path, archive: Path, data: Path, *moment: str
) -> "subprocess.CompletedProcess[str]":
    command = [str(project / "deploy/recover.sh"), str(archive), str(data), *moment]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("moment", "day"),
    [
        (["2026-11-15 01:29:59+00"], "14"),
        (["2026-11-15 02:30:00+01"], "14"),
        (["2026-11-15 02:30:01+01"], "15"),
        ([], "15"),
    ],
)
def test_recovery_starts_from_the_last_backup_before_the_moment(
    project: Path, archive: Path, tmp_path: Path, moment: list[str], day: str
) -> None:
    data = tmp_path / "data"
    assert prepare(project, archive, data, *moment).returncode == 0
    configured = (data / "postgresql.auto.conf").read_text()
    assert configured.startswith(f"# backup of {day}\n")
    assert f"recovery_target_time = '{''.join(moment)}'" in configured
    assert f"hba_file = '{data}/closed_hba.conf'" in configured
    assert (data / "recovery.signal").exists()


@pytest.mark.parametrize("moment", ["2026-11-14 01:30:00+00", "not a time"])
def test_recovery_to_a_moment_without_a_backup_writes_nothing(
    project: Path, archive: Path, tmp_path: Path, moment: str
) -> None:
    assert prepare(project, archive, tmp_path / "data", moment).returncode != 0
    assert not (tmp_path / "data").exists()


def test_recovery_never_overwrites_a_data_directory(
    project: Path, archive: Path, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "PG_VERSION").write_text("18\n")
    done = prepare(project, archive, tmp_path / "data")
    assert (done.returncode, done.stderr) == (1, f"recover: {tmp_path}/data is not empty\n")
    assert os.listdir(tmp_path / "data") == ["PG_VERSION"]


async def start_merchant(
    installation: Installation, services: Services, site: Site
) -> PayoutMerchant:
    tested = [kinds.BY_RAIL[rail] for rail in kinds.SEEDED]
    simulator = ProviderSimulator(services, installation.session, installation.url, tested)
    await simulator.reset()
    merchant = await new_merchant(
        site, services.db, services.keyring, environment=Environment.PRODUCTION
    )
    return PayoutMerchant(services, simulator, merchant)


@pytest.mark.long
async def test_recovery_to_a_moment_doubles_no_transfer(installation: Installation) -> None:
    first, history = installation.database, History(installation)
    archive = str(installation.folder / "archive")
    await first.ask("CREATE ROLE manilla_archive REPLICATION LOGIN PASSWORD 'archive'")
    keep, back_up = installation.commands("Archive")
    role = {"ARCHIVE": archive, "PGUSER": "manilla_archive", "PGPASSWORD": "archive"}
    archiving = first.start_service(keep, **role)
    try:
        await first.until(
            "SELECT count(*) = 1 FROM pg_stat_replication"
            " WHERE application_name = 'pg_receivewal' AND state = 'streaming'"
        )
        await first.ask("ALTER SYSTEM SET synchronous_standby_names = 'pg_receivewal'")
        await first.ask("SELECT pg_reload_conf()")
        await first.until("SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
        await first.run(back_up, **role)
        outdated, needed = age_backup(Path(archive))
        assert "backed up: " in await first.run(back_up, **role)
        assert not outdated.exists()
        assert not needed.exists()

        async with running(first.settings(installation.settings)) as (services, site):
            payer = await start_merchant(installation, services, site)
            await history.before(payer)
            history.moment = await first.ask("SELECT clock_timestamp()::text")
            await history.after(payer)
        await first.stop()
    finally:
        archiving.terminate()
        archiving.wait()

    recovered = installation.new_host("recovered")
    recovered.port = first.port
    recover, hold, reopen = installation.commands("Recovery to a moment")
    await recovered.run(recover, ARCHIVE=archive, MOMENT=history.moment)
    held = await run_on_closed(installation, recovered, hold)
    await recovered.run(reopen)
    assert not await recovered.ask(CLOSED)

    end = installation.new_host("end")
    recover_end, _ = installation.commands("Lost transfers")
    old = {"OLD_PGDATA": str(end.data), "OLD_PORT": str(end.port)}
    await end.run(recover_end, ARCHIVE=archive, **old)
    await end.until("SELECT NOT pg_is_in_recovery()")
    await check_recovered(history, payer.merchant, payer.simulator, recovered, end, held)


@pytest.mark.long
async def test_promotion_of_a_standby_that_lags_doubles_no_transfer(
    installation: Installation,
) -> None:
    first, history = installation.database, History(installation)
    second = installation.new_host("second")
    [copy] = installation.commands("Prepare")
    await second.run(copy, PGPORT=str(first.port))
    await second.start()
    await first.until("SELECT count(*) = 1 FROM pg_stat_replication")

    async with running(first.settings(installation.settings)) as (services, site):
        payer = await start_merchant(installation, services, site)
        await history.before(payer)
        position = await first.ask("SELECT pg_current_wal_lsn()::text")
        await second.until("SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn", position)
        # From here on, the connection between the sites is broken.
        await second.ask("ALTER SYSTEM SET primary_conninfo = ''")
        await second.ask("SELECT pg_reload_conf()")
        await second.until("SELECT count(*) = 0 FROM pg_stat_wal_receiver")
        await history.after(payer)
    await first.stop("immediate")

    [promote] = installation.commands("Take over")
    history.moment = (await second.run(promote)).splitlines()[0]
    _, hold, reopen = installation.commands("Recovery to a moment")
    held = await run_on_closed(installation, second, hold)
    await second.run(reopen)
    assert not await second.ask(CLOSED)

    await first.start()  # The first site is reachable again, and no process uses its database.
    await check_recovered(history, payer.merchant, payer.simulator, second, first, held)


def age_backup(archive: Path) -> tuple[Path, Path]:
    """Makes the only base backup two months old. Returns it and the first WAL that it needs."""
    [backup] = (archive / "base").iterdir()
    [needed] = re.findall(r"START WAL LOCATION.*file (\w+)", (backup / "backup_label").read_text())
    outdated = backup.rename(backup.with_name("20260101T000000Z"))
    two_months_ago = time.time() - 60 * 86_400
    os.utime(outdated, (two_months_ago, two_months_ago))
    return outdated, archive / "wal" / needed


async def run_on_closed(installation: Installation, database: DatabaseHost, hold: str) -> list[str]:
    """Runs the commands that hold payouts, while other hosts cannot use the database."""
    assert await database.ask(CLOSED)
    manilla = installation.manilla(database)
    return [await manilla.run(command) for command in hold.splitlines()]


async def check_recovered(
    history: History,
    merchant: Merchant,
    simulator: ProviderSimulator,
    database: DatabaseHost,
    old: DatabaseHost,
    held: list[str],
) -> None:
    installation = history.installation
    reported, on_hold = held
    line_of = {words[0]: line.rstrip() for line in reported.splitlines() if (words := line.split())}
    unsent = (history.waiting, history.failed, history.canceled)
    assert line_of[history.taken].endswith("will be queried")
    assert all(line_of[trx_id].endswith("will be sent on release") for trx_id in unsent)
    assert all(trx_id in on_hold for trx_id in unsent)
    assert history.taken not in on_hold

    async with running(database.settings(installation.settings)) as (services, site):
        merchant = msgspec.structs.replace(merchant, site=site.from_new_ip())
        payer = PayoutMerchant(services, simulator.used_by(services), merchant)
        await check_held(history, payer)
        await find_lost(history, payer, database, old)
        await release(history, payer, database, old)
        await check_released(history, payer)


async def check_held(history: History, payer: PayoutMerchant) -> None:
    """While payouts are held, the worker sends nothing, and queries what was sent."""
    await work(payer)
    assert await sent(payer) == history.made
    assert (await payer.ask()).json["error_code"] == "merchant_payout_disabled"
    for reference in (history.under_way, history.taken):
        await payer.settle("a", reference, "success")
        await payer.check_until(reference, "completed")
    await check_events(history, payer)


async def check_events(history: History, payer: PayoutMerchant) -> None:
    """A merchant that follows events gets an error for a lost event, and continues from a time."""
    lost = await payer.merchant.get(f"/api/v1/events?since={history.lost_event}")
    assert (lost.status, list(lost.json["errors"])) == (400, ["since"])
    since = datetime.fromisoformat(history.moment).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = await payer.merchant.get(f"/api/v1/events?since={since}")
    assert [(each["type"], each["trx_id"]) for each in found.json["data"]] == [
        ("payout.completed", trx_id) for trx_id in (history.under_way, history.taken)
    ]


async def find_lost(
    history: History, payer: PayoutMerchant, database: DatabaseHost, old: DatabaseHost
) -> None:
    installation = history.installation
    manilla = installation.manilla(database)
    found = await manilla.run(
        installation.commands("Lost transfers")[1],
        status=1,
        OLD_DATABASE_URL=old.url(postgres.OWNER),
        PROVIDER="providera",
        MOMENT=history.moment,
    )
    listed = found.partition("lost transfer")[2]
    assert history.lost in listed
    assert history.taken not in listed
    amount, merchant_id = "1000", payer.merchant.new.id
    await manilla.run(
        f"manilla wallet adjust --merchant {merchant_id} --environment production"
        f" --amount -{amount} --reason 'Payout {history.lost} from before the recovery'"
    )
    await manilla.run(
        f"manilla settle settlement providera {amount}"
        f" --note 'Payout {history.lost} from before the recovery'"
    )


async def release(
    history: History, payer: PayoutMerchant, database: DatabaseHost, old: DatabaseHost
) -> None:
    installation = history.installation
    manilla = installation.manilla(database)
    ended, end_hold, reject, enable = installation.commands("Payouts that must not be sent")
    listed = await manilla.run(
        ended, OLD_DATABASE_URL=old.url(postgres.OWNER), MOMENT=history.moment
    )
    assert sorted(listed.split()) == sorted([history.failed, history.canceled])
    on_hold = await manilla.run(end_hold)
    assert all(each in on_hold for each in (history.waiting, history.failed, history.canceled))
    await work(payer)
    assert await sent(payer) == history.made
    for trx_id in listed.split():
        await manilla.run(reject, TRX_ID=trx_id)
    await manilla.run(enable)
    await see_changes(payer.services)


async def check_released(history: History, payer: PayoutMerchant) -> None:
    """The wallet has the same balance as in the old database, and each payout is sent once."""
    assert await payer.balance() == history.balance
    await work(payer)
    new = await payer.pay_out()
    await work(payer)
    assert await sent(payer) == sorted([*history.made, history.waiting, new])
    for trx_id in (history.failed, history.canceled):
        assert (await payer.payout(trx_id)).status == "canceled"
    await payer.settle("a", history.waiting, "success")
    await payer.check_until(history.waiting, "completed")
    assert [f.name for f in await invariants.check(payer.services.db, ALL) if f.count] == []
