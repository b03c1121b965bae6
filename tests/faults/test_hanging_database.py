"""The database accepts connections but never responds. Callers get an error quickly."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import structlog

from manilla.kit.database.connections import Database
from manilla.kit.errors import Unavailable
from manilla.people.roles import Role
from manilla.settings import Settings
from manilla.wiring import DatabaseAway
from tests.faults import transfer_webhooks
from tests.faults.proxy import Proxy, proxied
from tests.faults.second_process import second_process
from tests.payments.orders import INITIATE as PAY_IN
from tests.payments.orders import order as payment
from tests.payouts.payout_merchant import INITIATE, MANUAL, PayoutMerchant
from tests.support import clock
from tests.support.client import Reply
from tests.support.limits import LONG_SECONDS, limited
from tests.support.timeouts import TIMEOUT_SECONDS
from tests.support.waiting import until, until_true
from tests.web.signed_in_user import SignedInUser, administrator, member

# A request may wait this long for a hanging database.
# The other time limits exceed ANSWER_SECONDS, so a request that waits for them fails the test.
REQUEST_SECONDS = 0.3
ANSWER_SECONDS = LONG_SECONDS - 10


@pytest.fixture
async def proxy(settings: Settings) -> AsyncIterator[Proxy]:
    async with proxied(settings.database_url) as proxy:
        yield proxy


@pytest.fixture
async def fragile(
    payer: PayoutMerchant, settings: Settings, proxy: Proxy
) -> AsyncIterator[PayoutMerchant]:
    through = msgspec.structs.replace(settings, database_url=proxy.url)
    async with second_process(payer, through, connections=4) as fragile:
        yield fragile
        proxy.thaw()


class Callers:
    """Sends one request of each type that needs the database."""

    def __init__(self, payer: PayoutMerchant, owner: SignedInUser, admin: SignedInUser) -> None:
        self._payer = payer
        self._owner, self._admin = owner, admin

    def asking(self) -> dict[str, Awaitable[Reply]]:
        payer, unknown = self._payer, "TXN" + "0" * 30
        site = payer.merchant.site
        link = payer.services.links.query(unknown, datetime.now(UTC) + timedelta(minutes=1))
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        return {
            "site info": payer.merchant.get("/api/v1/site-info"),
            "unknown key": payer.merchant.call(
                "GET", "/api/v1/site-info", X_Merchant_Key=secrets.token_hex(16)
            ),
            "payment": payer.merchant.post(PAY_IN, payment(ref_trx=secrets.token_hex(8))),
            "verify": payer.verify(unknown),
            "webhook": transfer_webhooks.send_webhook(
                site,
                "a",
                transfer_webhooks.transfer("a", unknown, "success", n=secrets.token_hex(4)),
            ),
            "checkout": site.send("GET", f"/checkout/{unknown}?{link}"),
            "checkout status": site.send("GET", f"/checkout/{unknown}/status?{link}"),
            "checkout choice": site.send(
                "POST", f"/checkout/{unknown}/choose?{link}", form, b"method=x"
            ),
            "dashboard": self._owner.get("/sandbox"),
            "console": self._admin.get("/"),
            "export": self._admin.get("/audit?format=csv"),
            "ready": site.send("GET", "/readyz"),
        }


@pytest.fixture
async def callers(payer: PayoutMerchant, fragile: PayoutMerchant) -> Callers:
    services, site = payer.services, fragile.merchant.site
    email = f"admin-{secrets.token_hex(4)}@example.com"
    owner = await member(services, site, payer.merchant.new.id, Role.OWNER)
    return Callers(fragile, owner, await administrator(services, site, email))


async def _all_get_an_error(callers: Callers) -> None:
    async with asyncio.timeout(ANSWER_SECONDS):
        asking = callers.asking()
        with limited(request_seconds=REQUEST_SECONDS):
            replies = dict(zip(asking, await asyncio.gather(*asking.values()), strict=True))
    wrong = {name: reply.body for name, reply in replies.items() if reply.status != 503}
    assert not wrong
    assert all(int(reply.headers["retry-after"]) >= 1 for reply in replies.values())


async def test_every_kind_of_request_gets_a_response_while_the_database_hangs(
    fragile: PayoutMerchant, proxy: Proxy, callers: Callers
) -> None:
    # These requests open the database connections and fill the caches.
    first = await asyncio.gather(*callers.asking().values())
    assert 503 not in {reply.status for reply in first}
    proxy.freeze()
    await _all_get_an_error(callers)
    # All connections are closed now, and no new connection can be opened.
    await _all_get_an_error(callers)
    assert (await fragile.merchant.site.send("GET", "/healthz")).status == 200

    proxy.thaw()
    await until(lambda: _succeeds(fragile.merchant.site.send("GET", "/readyz")))
    await until(lambda: _succeeds(fragile.merchant.get("/api/v1/site-info")))


async def _succeeds(asking: Awaitable[Reply]) -> bool:
    return (await asking).status == 200


async def test_a_payout_whose_database_response_is_delayed_is_debited_once(
    payer: PayoutMerchant, fragile: PayoutMerchant, proxy: Proxy
) -> None:
    # The first payout fills the caches, so that the next request only debits the wallet.
    await fragile.pay_out(MANUAL)
    before, orders = await payer.balance(), [await fragile.order(MANUAL) for _ in range(3)]
    proxy.freeze()
    async with asyncio.timeout(ANSWER_SECONDS):
        with limited(request_seconds=REQUEST_SECONDS):
            replies = await asyncio.gather(*(fragile.merchant.post(INITIATE, o) for o in orders))
    assert {reply.status for reply in replies} == {503}

    proxy.thaw()
    for order in orders:
        reply = await until(partial(_reply_unless_503, fragile, order))
        assert reply.status == 200 or reply.code == "DUPLICATE_REFERENCE"
        assert reply.json["trx_id"]
    assert await payer.balance() == before - 300_000


async def _reply_unless_503(caller: PayoutMerchant, order: dict[str, Any]) -> Reply | None:
    reply = await caller.merchant.post(INITIATE, order)
    return None if reply.status == 503 else reply


async def test_a_caller_that_stops_waiting_does_not_affect_others_in_the_statement(
    payer: PayoutMerchant, fragile: PayoutMerchant
) -> None:
    """Another transaction keeps the wallet locked until the first caller has received an error."""
    early, late = await fragile.order(MANUAL), await fragile.order(MANUAL)
    async with payer.services.db.transaction() as connection:
        await connection.execute(
            "SELECT FROM wallet WHERE merchant_id = $1 FOR UPDATE", payer.merchant.new.id
        )
        with limited(request_seconds=REQUEST_SECONDS):
            first = asyncio.create_task(fragile.merchant.post(INITIATE, early))
            await until(partial(_waits_for_a_lock, payer))
        second = asyncio.create_task(fragile.merchant.post(INITIATE, late))
        assert (await first).status == 503
    statuses = {(await second).status}
    reply = await fragile.merchant.post(INITIATE, late)
    assert statuses <= {200, 503}
    assert reply.status == 200 or reply.code == "DUPLICATE_REFERENCE"


async def _waits_for_a_lock(payer: PayoutMerchant) -> bool:
    return await payer.services.db.has_row(
        """
        SELECT 1 FROM pg_stat_activity
         WHERE application_name = 'second process' AND wait_event_type = 'Lock'"""
    )


async def test_the_log_names_the_hanging_host_and_never_the_password(
    payer: PayoutMerchant, proxy: Proxy, settings: Settings
) -> None:
    through = msgspec.structs.replace(settings, database_url=proxy.url)
    with (
        structlog.testing.capture_logs() as lines,
        limited(web_statement_seconds=10, statement_grace_seconds=0, acquire_seconds=10),
    ):
        async with second_process(payer, through, connections=2):
            proxy.freeze()
            async with asyncio.timeout(TIMEOUT_SECONDS):
                while not {"database_hangs", "changes_not_seen"} <= {e["event"] for e in lines}:
                    # The wait gives the process enough time to send the next SQL statement.
                    await asyncio.sleep(0.5)
                    clock.advance(10)
            proxy.thaw()
    about = [each for each in lines if each["event"] in ("database_hangs", "changes_not_seen")]
    assert {each["host"] for each in about} == {proxy.host}
    assert all(each["cause"] for each in about if each["event"] == "changes_not_seen")
    password = urlsplit(proxy.url).password
    assert password
    assert password not in str(lines)


async def test_a_process_that_starts_with_a_hanging_database_reports_it_and_exits(
    payer: PayoutMerchant, proxy: Proxy, settings: Settings
) -> None:
    through = msgspec.structs.replace(settings, database_url=proxy.url)
    proxy.freeze_at("alembic_version")
    async with asyncio.timeout(ANSWER_SECONDS):
        with pytest.raises(DatabaseAway), limited(start_statement_seconds=1):
            async with second_process(payer, through, connections=2):
                pass
    proxy.thaw()


async def test_a_session_that_hangs_on_close_is_abandoned(proxy: Proxy, settings: Settings) -> None:
    db = await Database.open(proxy.url, size=2, name="tests hanging")
    assert await db.value("SELECT 1") == 1
    await db.keep_connection().rows(_One, "SELECT 1 AS one")
    proxy.freeze()
    async with asyncio.timeout(ANSWER_SECONDS):
        with limited(acquire_seconds=0.1, database_close_seconds=0.1):
            await db.close()


class _One(msgspec.Struct, frozen=True):
    one: int


async def test_a_process_that_stalls_within_a_statement_does_not_keep_its_locks(
    payer: PayoutMerchant, proxy: Proxy, settings: Settings, db: Database
) -> None:
    """PostgreSQL's other timeouts do not apply while it waits for the rest of a statement."""
    with limited(transaction_seconds=1):
        stalling = await Database.open(proxy.url, size=1, name="tests stalling")
    lock = "SELECT FROM wallet WHERE merchant_id = $1 FOR UPDATE"
    proxy.freeze_at("parameter")

    async def stall() -> None:
        async with stalling.transaction() as connection:
            await connection.execute(lock, payer.merchant.new.id)
            await connection.value("SELECT $1::text", "parameter")

    stalled = asyncio.create_task(stall())
    await until_true(lambda: not proxy._flowing.is_set())
    async with asyncio.timeout(ANSWER_SECONDS):
        await db.execute(lock, payer.merchant.new.id)
    proxy.thaw()
    with pytest.raises(Unavailable):
        await stalled
    await stalling.close()
