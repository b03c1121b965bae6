"""Upgrading from each of the last two releases under load causes no errors."""

import asyncio
import base64
import contextlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from manilla.kit.database.connections import Database
from manilla.kit.embedded.postgres import Cluster
from manilla.ledger import invariants
from manilla.proofs import catalog
from manilla.settings import Settings
from manilla.sql import migrate
from tests.faults.release import Programs, find, unpack
from tests.payments.orders import order
from tests.support.client import Reply, Site
from tests.support.databases import database
from tests.support.invariants import ALL
from tests.support.signing import sign

pytestmark = pytest.mark.long

CALLERS = 4
ENOUGH = 12  # In each phase of the upgrade, this many rounds of calls must succeed.
WAIT_SECONDS = 120


@pytest.fixture
async def settings_of_upgrade(cluster: Cluster, settings: Settings) -> Settings:
    return await database(cluster, settings, "upgrade")


@contextlib.contextmanager
def _programs(code: Path, folder: Path, on: Settings) -> Iterator[Programs]:
    key = base64.b64encode(on.master_keys[0]).decode()
    programs = Programs(
        *(code, folder),
        {
            "MANILLA_MODE": "development",
            "MANILLA_DATABASE_URL": on.database_url,
            "MANILLA_MIGRATION_URL": on.migration_url,
            "MANILLA_MASTER_KEY": key,
            "MANILLA_BASE_URL": on.base_url,
        },
    )
    try:
        yield programs
    finally:
        programs.stop()


class Callers:
    """Merchants that continuously create and query payouts and payments."""

    def __init__(self, keys: dict[str, str], method_id: int) -> None:
        self._keys = keys
        self._method_id = method_id
        # the ports of the processes that receive requests from the proxy
        self.ports: list[int] = []
        self.rounds = 0
        self.refusals: list[bytes] = []
        self.payouts: list[str] = []
        self.payments: list[str] = []

    @contextlib.asynccontextmanager
    async def calling(self) -> AsyncIterator[None]:
        done = asyncio.Event()
        tasks = [asyncio.create_task(self._call_until(done)) for _ in range(CALLERS)]
        try:
            yield
        finally:
            done.set()
            await asyncio.gather(*tasks)

    async def until_more(self) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            wanted = self.rounds + ENOUGH
            while self.rounds < wanted:
                await asyncio.sleep(0.05)

    async def _call_until(self, done: asyncio.Event) -> None:
        while not done.is_set():
            payout = await self._call("POST", "/api/v1/initiate-payout", self._payout())
            if payout.status == 200:
                self.payouts.append(payout.json["trx_id"])
                await self._call("GET", f"/api/v1/verify-payout/{payout.json['trx_id']}")
            payment = await self._call("POST", "/api/v1/initiate-payment", order())
            if payment.status == 200:
                trx_id = payment.json["payment_url"].partition("/checkout/")[2].partition("?")[0]
                self.payments.append(trx_id)
                await self._call("GET", f"/api/v1/verify-payment/{trx_id}")
            self.rounds += 1

    def _payout(self) -> dict[str, Any]:
        return {
            "payout_amount": 500,
            "currency_code": "NGN",
            "ref_trx": secrets.token_hex(8),
            "ipn_url": "https://shop.example/ipn",
            "withdraw_method_id": self._method_id,
            "beneficiary": {"Bank Name": "GTBank", "Account Number": "0123456789"},
        }

    async def _call(self, method: str, target: str, body: Any = None) -> Reply:
        raw = b"" if body is None else json.dumps(body).encode()
        moment = str(int(time.time()))
        headers = {
            "X-Environment": "sandbox",
            "X-Merchant-Key": self._keys["merchant_key"],
            "X-API-Key": self._keys["api_key"],
            "X-Timestamp": moment,
            "X-Signature": sign(self._keys["api_secret"], moment, method, target, raw),
        }
        reply = await Site(self.ports[self.rounds % len(self.ports)]).send(
            method, target, headers, raw
        )
        if reply.status != 200:
            self.refusals.append(reply.body)
        return reply


async def _until_ready(port: int) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            with contextlib.suppress(OSError, IndexError):
                if (await Site(port).send("GET", "/readyz")).status == 200:
                    return
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("age", [1, 2])
async def test_an_upgrade_from_an_earlier_release_under_load_answers_no_5xx(
    project: Path, tmp_path: Path, settings_of_upgrade: Settings, age: int
) -> None:
    on = settings_of_upgrade
    code = unpack(project, find(project, age), tmp_path)
    with _programs(code, tmp_path, on) as old, _programs(project, tmp_path, on) as new:
        old.command("migrate")
        callers = await _callers(old, on)
        old.start()
        await _until_ready(old.port)
        callers.ports = [old.port]
        async with callers.calling():
            await callers.until_more()
            before = callers.rounds
            await asyncio.to_thread(new.command, "migrate")
            assert callers.rounds > before  # Requests were made during the migration.
            assert await migrate.is_current(on.database_url)
            await callers.until_more()
            new.start()
            await _until_ready(new.port)
            callers.ports = [old.port, new.port]
            await callers.until_more()
            callers.ports = [new.port]
            await callers.until_more()
        assert callers.refusals == []
        await _check_invariants(on, callers)
        await _check_catalog(on)


async def _callers(old: Programs, on: Settings) -> Callers:
    old.command("setting", "set", "rate_limit_per_minute", "1000000")
    old.command("setting", "set", "sandbox_complete_seconds", "0")
    words = ("merchant", "create", "Ada Stores", "ada@example.com", "--status", "approved")
    merchant = json.loads(old.command(*words, "--json"))
    owner = await asyncpg.connect(on.migration_url)
    try:
        method_id = await owner.fetchval("SELECT id FROM method WHERE code = 'platform'")
    finally:
        await owner.close()
    return Callers(merchant["sandbox"], method_id)


async def _check_invariants(on: Settings, callers: Callers) -> None:
    """Checks that all acknowledged transactions exist, and that each payout was debited once."""
    db = await Database.open(on.database_url, size=1, name="tests")
    try:
        for table, answered in (("payout", callers.payouts), ("payment", callers.payments)):
            kept = await db.records(f"SELECT trx_id FROM {table}")
            assert sorted(record["trx_id"] for record in kept) == sorted(answered)
        debits = await db.value("SELECT count(*) FROM posting WHERE kind = 'payout'")
        assert debits == len(callers.payouts)
        assert [f for f in await invariants.check(db, ALL) if f.count] == []
    finally:
        await db.close()


async def _check_catalog(on: Settings) -> None:
    """An upgraded database has the same schema as a new one."""
    db = await Database.open(on.database_url, size=1, name="tests")
    try:
        async with db.read_only() as connection:
            found = await catalog.compare(connection)
        assert [each for each in found if each.problem] == []
    finally:
        await db.close()
