"""Lists, search, exports and reports read from a standby, and movements of money never do."""

import asyncio
import csv
import io
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from manilla import instance_metrics, metrics
from manilla.cli.proving import prove
from manilla.kit.database import reader
from manilla.kit.database.connections import Database
from manilla.kit.database.reader import (
    AWAY_SECONDS,
    Reader,
    ReadOutcome,
    Standby,
    StandbyOfAnother,
    wait_until_replayed,
)
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import APPLICATION, OWNER, SUPERUSER, Cluster
from manilla.kit.embedded.process import Supervisor
from manilla.kit.errors import Unavailable
from manilla.proofs.pack import PackOptions
from manilla.services import Services
from manilla.settings import Settings
from manilla.web import page_request
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard, unchunked
from tests.payouts.payout_merchant import ACCOUNT, MANUAL
from tests.support import clock, databases
from tests.support.client import Site
from tests.support.limits import limited
from tests.support.standby import StandbyServer, running_standby
from tests.support.waiting import until
from tests.web.signed_in_user import SignedInUser, administrator

NAME = "standby_reads"
PAYMENTS = "/api/v1/payments"
BALANCE = """
    SELECT balance_minor FROM wallet
     WHERE merchant_id = $1 AND environment = 'sandbox' AND currency = 'NGN'"""


class Replicated(msgspec.Struct, frozen=True):
    """An installation that reads from a standby, and how its reads were served."""

    services: Services
    site: Site
    standby: StandbyServer
    outcomes: Counter[ReadOutcome]
    shop: MerchantDashboard
    administrator: SignedInUser

    @property
    def reads(self) -> Reader:
        return self.services.reads

    async def listed(self) -> set[str]:
        """Returns the ids of the merchant's newest payments, as the API lists them."""
        reply = await self.shop.merchant.get(PAYMENTS)
        assert reply.status == 200, reply.body
        return {row["trx_id"] for row in reply.json["data"]}


@pytest.fixture(scope="module")
async def replicated(
    cluster: Cluster, settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Replicated]:
    own = await databases.database(cluster, settings, NAME, is_migrated=True)
    async with running_standby(cluster, tmp_path_factory.mktemp("standby")) as standby:
        own = msgspec.structs.replace(own, read_url=standby.url(APPLICATION, NAME))
        async with databases.running(own) as (services, site):
            outcomes: Counter[ReadOutcome] = Counter()
            services.reads.count = lambda outcome: outcomes.update([outcome])
            shop = await new_dashboard(services, site)
            person = await administrator(services, site, "reader@example.com")
            await person.step_up(services)
            await standby.catch_up()
            yield Replicated(services, site, standby, outcomes, shop, person)


@pytest.fixture
def owner_url(cluster: Cluster) -> str:
    return cluster.url(OWNER, NAME)


@pytest.fixture(autouse=True)
def _starts_with_a_usable_standby(replicated: Replicated) -> None:
    replicated.outcomes.clear()
    replicated.reads._away_until = 0


async def test_a_merchant_lists_its_own_payment_from_the_standby(replicated: Replicated) -> None:
    trx_id = await replicated.shop.pay_in(ref_trx="own-payment")
    assert trx_id in await replicated.listed()
    assert set(replicated.outcomes) == {ReadOutcome.CURRENT}


async def test_if_the_standby_is_behind_a_merchant_reads_its_own_writes_from_the_primary(
    replicated: Replicated,
) -> None:
    with limited(standby_wait_seconds=0):
        async with replicated.standby.paused():
            trx_id = await replicated.shop.pay_in(ref_trx="while-paused")
            assert trx_id in await replicated.listed()
            page = await replicated.shop.owner.get("/sandbox/payments")
            assert b"while-paused" in page.body
            assert b"data-age" not in page.body
        assert set(replicated.outcomes) == {ReadOutcome.BEHIND}
    replicated.outcomes.clear()
    assert trx_id in await replicated.listed()
    assert set(replicated.outcomes) == {ReadOutcome.CURRENT}


@pytest.mark.long
async def test_a_read_waits_until_the_standby_has_replayed_the_merchants_write(
    replicated: Replicated,
) -> None:
    async with replicated.standby.paused():
        trx_id = await replicated.shop.pay_in(ref_trx="waited-for")
        listed = asyncio.create_task(replicated.listed())
        await replicated.standby.until(
            "SELECT EXISTS (SELECT FROM pg_stat_activity"
            " WHERE state = 'idle' AND query LIKE '%pg_last_xact_replay_timestamp%'"
            " AND state_change > pg_last_xact_replay_timestamp())"
        )
        assert not listed.done()
    assert trx_id in await listed
    assert set(replicated.outcomes) == {ReadOutcome.CURRENT}


async def test_the_console_shows_how_old_its_data_are(
    replicated: Replicated, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A slow machine must not make the data too old to be shown.
    monkeypatch.setattr(page_request, "AGE_SECONDS_MAX", 24 * 3600)
    await replicated.shop.pay_in(ref_trx="before-pause")
    await replicated.standby.catch_up()
    path = "/transactions?kind=payment&environment=sandbox"
    with limited(standby_wait_seconds=0):
        async with replicated.standby.paused():
            await replicated.shop.pay_in(ref_trx="after-pause")

            async def old_page() -> str | None:
                body = (await replicated.administrator.get(path)).body.decode()
                return body if "data-age" in body else None

            page = await until(old_page)
    assert "before-pause" in page
    assert "after-pause" not in page
    assert re.search(r"The data on this page are \d+ s old: they show the state at <time ", page)
    assert set(replicated.outcomes) == {ReadOutcome.OLDER}
    current = (await replicated.administrator.get(path)).body.decode()
    assert "after-pause" in current
    assert "data-age" not in current


@pytest.mark.long
async def test_an_administrator_sees_the_change_of_a_form_although_the_standby_is_behind(
    replicated: Replicated,
) -> None:
    with limited(standby_wait_seconds=0):
        async with replicated.standby.paused():
            fields = {"name": "New While Paused", "email": "paused@example.com"}
            reply = await replicated.administrator.post(
                "/merchants/new", {**fields, "currency": "NGN", "status": "approved"}
            )
            assert reply.status == 200, reply.body
            assert reply.cookies["manilla_wrote"] == "1"
            user = replicated.administrator
            headers = user.headers()
            headers["Cookie"] += "; manilla_wrote=1"
            page = await user.site.send("GET", "/console/merchants", headers)
            assert b"New While Paused" in page.body
            assert b"data-age" not in page.body
            assert set(replicated.outcomes) == {ReadOutcome.BEHIND}


@pytest.mark.long
async def test_an_export_is_always_current(replicated: Replicated) -> None:
    with limited(standby_wait_seconds=0):
        async with replicated.standby.paused():
            await replicated.shop.pay_in(ref_trx="exported")
            reply = await replicated.administrator.get(
                "/transactions?kind=payment&environment=sandbox&format=csv"
            )
            rows = list(csv.DictReader(io.StringIO(unchunked(reply).decode())))
    assert "exported" in {row["ref_trx"] for row in rows}


async def test_a_payout_is_never_permitted_by_the_standbys_data(replicated: Replicated) -> None:
    shop = replicated.shop
    await shop.pay_in(payment_amount=5000)
    balance = await shop.balance()
    await replicated.standby.catch_up()
    body = {
        "payout_amount": balance // 100 * 6 // 10,
        "currency_code": "NGN",
        "ipn_url": "https://shop.example/ipn",
        "withdraw_method_id": await shop.method_id(MANUAL),
        "beneficiary": {"Bank Name": "GTBank", "Account Number": ACCOUNT},
    }
    async with replicated.standby.paused():
        first = await shop.merchant.post(
            "/api/v1/initiate-payout", {**body, "ref_trx": "first-payout"}
        )
        assert first.status == 200, first.body
        # The standby still has the balance from before the first payout.
        stale = replicated.reads.begin(age_seconds_max=3600)
        with limited(standby_wait_seconds=0):
            assert await stale.value(BALANCE, shop.merchant.new.id) == balance
        second = await shop.merchant.post(
            "/api/v1/initiate-payout", {**body, "ref_trx": "second-payout"}
        )
    assert second.status == 422, second.body
    assert await shop.count("payout") == 1
    assert await shop.balance() >= 0


async def test_a_read_cannot_write_on_any_server(replicated: Replicated) -> None:
    writing = "SELECT pg_notify('a', 'b'), nextval('job_fence')"
    with pytest.raises(AssertionError, match="must not write"):
        await replicated.reads.begin().records("DELETE FROM posting")
    with limited(standby_wait_seconds=0):
        async with replicated.standby.paused():
            await replicated.shop.pay_in()
            with pytest.raises(Unavailable) as rejected:
                await replicated.reads.begin().records(writing)
    assert isinstance(rejected.value.__cause__, asyncpg.ReadOnlySQLTransactionError)
    assert replicated.outcomes[ReadOutcome.BEHIND] == 1


async def test_a_standby_of_another_database_serves_no_reads(
    replicated: Replicated, cluster: Cluster, settings: Settings
) -> None:
    """The position of the other database can be higher, so it would seem to be current."""
    other = await databases.database(cluster, settings, f"{NAME}_other", is_migrated=True)
    async with databases.running(other) as (services, site):
        shop = await new_dashboard(services, site)
        await shop.pay_in(ref_trx="of-another")
    await replicated.standby.catch_up()
    url = replicated.standby.url(APPLICATION, f"{NAME}_other")
    await _assert_not_used(replicated.services.db, url)


@pytest.mark.long
async def test_a_standby_of_another_server_serves_no_reads(
    replicated: Replicated, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("another")
    (folder / "standby").mkdir()
    async with _new_server(folder) as another:
        primary = await Database.open(another.url(SUPERUSER), size=1, name="another")
        # The other server has written more, and its first timeline has the same number.
        needed, there = await replicated.reads.position(), Reader(primary)
        while (await there.position()).lsn < needed.lsn:
            await primary.execute("CREATE TABLE IF NOT EXISTS written (text text)")
            await primary.execute("SELECT pg_switch_wal()")
        async with running_standby(another, folder / "standby") as standby:
            await _assert_not_used(replicated.services.db, standby.url(SUPERUSER, postgres.NAME))
        await primary.close()


@asynccontextmanager
async def _new_server(folder: Path) -> AsyncIterator[Cluster]:
    """Runs a server that is not a copy of the tests' server."""
    another = await asyncio.to_thread(postgres.prepare, folder)
    supervisor = Supervisor()
    await supervisor.start(another.program(folder / "postgres.log"))
    try:
        await postgres.wait_until_ready(another)
        await postgres.create_database(another.url(SUPERUSER, "postgres"), another.passwords)
        yield another
    finally:
        await supervisor.stop()


async def _assert_not_used(primary: Database, standby_url: str) -> None:
    standby = await Standby.open(standby_url, size=1, name="another")
    outcomes: Counter[ReadOutcome] = Counter()
    reads = Reader(primary, standby, lambda outcome: outcomes.update([outcome]))
    try:
        for _ in range(2):
            in_recovery = await reads.begin(age_seconds_max=3600).value(
                "SELECT pg_is_in_recovery()"
            )
            assert in_recovery is False
        assert outcomes == {ReadOutcome.AWAY: 2}
        await instance_metrics.measure_standby(reads)
        assert _value(metrics.standby_up) == 0
        with pytest.raises(StandbyOfAnother):
            await wait_until_replayed(standby.pool, await reads.position())
    finally:
        await standby.close()


async def test_the_clock_of_the_standby_does_not_decide_how_old_data_may_be(
    replicated: Replicated,
) -> None:
    needed, state = await replicated.reads.position(), await _standby(replicated).state()
    stale = msgspec.structs.replace(
        state, lsn=needed.lsn - 1, as_of=needed.at - timedelta(seconds=61), age_seconds=-3600.0
    )
    with pytest.raises(reader._NotUsed):
        replicated.reads.begin(age_seconds_max=60).accept(stale, needed)
    fresh = msgspec.structs.replace(stale, as_of=needed.at - timedelta(seconds=59))
    reads = replicated.reads.begin(age_seconds_max=60)
    reads.accept(fresh, needed)
    assert reads.as_of == fresh.as_of


def _standby(replicated: Replicated) -> Standby:
    assert replicated.reads.standby is not None
    return replicated.reads.standby


@pytest.mark.long
async def test_without_the_standby_reads_use_the_primary(replicated: Replicated) -> None:
    trx_id = await replicated.shop.pay_in(ref_trx="standby-down")
    await replicated.standby.stop()
    try:
        assert trx_id in await replicated.listed()
        assert b"standby-down" in (await replicated.shop.owner.get("/sandbox/payments")).body
        assert set(replicated.outcomes) == {ReadOutcome.AWAY}
    finally:
        await replicated.standby.start()
    clock.advance(AWAY_SECONDS)
    replicated.outcomes.clear()
    assert trx_id in await replicated.listed()
    assert set(replicated.outcomes) == {ReadOutcome.CURRENT}


async def test_a_hanging_standby_delays_a_read_only_until_the_time_limit(
    replicated: Replicated,
) -> None:
    trx_id = await replicated.shop.pay_in(ref_trx="standby-frozen")
    async with replicated.standby.frozen():
        with limited(standby_seconds=0.05):
            assert trx_id in await replicated.listed()
        # Later reads do not wait for the standby, although the time limit is long.
        assert trx_id in await replicated.listed()
        assert replicated.outcomes == {ReadOutcome.AWAY: 2}


@pytest.mark.long
async def test_a_statement_that_replay_cancels_runs_again_on_the_primary(
    replicated: Replicated, owner_url: str
) -> None:
    owner = await asyncpg.connect(owner_url)
    await owner.execute("CREATE TABLE conflicting AS SELECT 7 AS seven")
    await owner.execute(f"GRANT SELECT ON conflicting TO {APPLICATION}")
    await replicated.standby.execute("ALTER SYSTEM SET max_standby_streaming_delay = 0")
    await replicated.standby.execute("SELECT pg_reload_conf()")
    reading = asyncio.create_task(
        replicated.reads.begin().value(
            "SELECT seven FROM conflicting WHERE"
            " CASE WHEN pg_is_in_recovery() THEN pg_sleep(600) IS NOT NULL ELSE true END"
        )
    )
    await replicated.standby.until(
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep')"
    )
    await owner.execute("ALTER TABLE conflicting ADD eight int")
    assert await reading == 7
    assert replicated.outcomes == {ReadOutcome.FAILED: 1}
    await owner.execute("DROP TABLE conflicting")
    await owner.close()


@pytest.mark.long
async def test_a_migration_that_is_not_replayed_yet_makes_reads_use_the_primary(
    replicated: Replicated, owner_url: str
) -> None:
    owner = await asyncpg.connect(owner_url)
    with limited(standby_wait_seconds=0):
        async with replicated.standby.paused():
            await owner.execute("ALTER TABLE wallet ADD newer int DEFAULT 7")
            reads = replicated.reads.begin(age_seconds_max=3600)
            assert await reads.value("SELECT newer FROM wallet LIMIT 1") == 7
    assert replicated.outcomes == {ReadOutcome.FAILED: 1}
    await owner.execute("ALTER TABLE wallet DROP newer")
    await owner.close()


@pytest.mark.long
async def test_a_proof_reads_the_current_state_from_the_standby_or_from_the_primary(
    replicated: Replicated, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    url, standby_url = cluster.url(OWNER, NAME), replicated.standby.url(OWNER, NAME)
    options = PackOptions(is_development=True)
    await replicated.shop.pay_in()
    postings = await replicated.services.db.number("SELECT count(*) FROM posting")
    proved = await prove._collect(url, standby_url, options)
    assert (proved.facts["server_is_standby"], proved.is_sound) == (True, True)
    assert proved.facts["postings_verified"] == postings
    with limited(standby_proof_seconds=0):
        async with replicated.standby.paused():
            await replicated.shop.pay_in()
            proved = await prove._collect(url, standby_url, options)
    assert proved.facts["server_is_standby"] is False
    assert proved.facts["postings_verified"] == postings + 1
    assert "The standby has not replayed all commits in time." in capsys.readouterr().err


@pytest.mark.long
async def test_the_age_of_the_standbys_data_is_measured(replicated: Replicated) -> None:
    reads = replicated.reads
    await instance_metrics.measure_standby(reads)
    assert (_value(metrics.standby_up), _value(metrics.standby_age_seconds)) == (1, 0)
    async with replicated.standby.paused():
        await replicated.shop.pay_in()
        await instance_metrics.measure_standby(reads)
        assert _value(metrics.standby_up) == 1
        assert _value(metrics.standby_age_seconds) > 0
    await replicated.standby.stop()
    await instance_metrics.measure_standby(reads)
    assert _value(metrics.standby_up) == 0
    await replicated.standby.start()


@pytest.mark.long
async def test_a_promoted_standby_serves_no_reads(replicated: Replicated) -> None:
    """This test comes last, because the server is no standby afterwards."""
    assert await replicated.listed()
    await replicated.standby.execute("SELECT pg_promote()")
    trx_id = await replicated.shop.pay_in()
    replicated.outcomes.clear()
    assert trx_id in await replicated.listed()
    assert replicated.outcomes == {ReadOutcome.AWAY: 1}
    await instance_metrics.measure_standby(replicated.reads)
    assert _value(metrics.standby_up) == 0


def _value(gauge: Any) -> float:
    return float(gauge._value.get())
