"""If the database is disconnected, overloaded, or reports conflicts, callers get an error.

The numbers in the test names refer to docs/faults.md.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from manilla.kit import batch
from manilla.kit.database.connections import Database
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster
from manilla.kit.errors import Unavailable
from manilla.providers.rails import CALLS_AT_ONCE
from manilla.settings import Settings
from tests.faults import transfer_webhooks
from tests.faults.proxy import Cut, Proxy, proxied
from tests.faults.second_process import second_process
from tests.faults.stalled_worker import end_lease
from tests.payments.steps import new_payment
from tests.payouts.payout_merchant import INITIATE, MANUAL, PayoutMerchant
from tests.support import clock
from tests.support.client import Reply
from tests.support.limits import LONG_SECONDS, limited
from tests.support.rows import first_short
from tests.support.timeouts import TIMEOUT_SECONDS
from tests.support.waiting import until_true

FULL, DEBITED = 1_000_000, 900_000
RAILS = ["a", MANUAL]


@pytest.fixture(autouse=True)
async def _postpone_other_jobs(payer: PayoutMerchant, db: Database) -> None:
    await db.execute(
        "UPDATE job SET due_at = 'infinity' WHERE merchant_id <> $1", payer.merchant.new.id
    )
    for rail in "abc":
        quiet = {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
        await payer.simulator.control(f"{rail}/faults", quiet)


@pytest.fixture
async def proxy(settings: Settings) -> AsyncIterator[Proxy]:
    async with proxied(settings.database_url) as proxy:
        yield proxy


@pytest.fixture
async def fragile(
    payer: PayoutMerchant, settings: Settings, proxy: Proxy
) -> AsyncIterator[PayoutMerchant]:
    """A merchant that calls a process whose database connection a test can cut."""
    through = msgspec.structs.replace(settings, database_url=proxy.url)
    async with second_process(payer, through, connections=4) as fragile:
        yield fragile


async def _payouts(payer: PayoutMerchant) -> list[str]:
    records = await payer.services.db.records(
        "SELECT trx_id FROM payout WHERE merchant_id = $1", payer.merchant.new.id
    )
    return [record["trx_id"] for record in records]


def _is_retryable(reply: Reply) -> bool:
    return (reply.status, reply.code) == (503, "SERVICE_UNAVAILABLE") and (
        int(reply.headers["retry-after"]) >= 1
    )


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_27_a_connection_lost_after_commit_lets_the_retry_find_the_first_trx_id(
    payer: PayoutMerchant, fragile: PayoutMerchant, proxy: Proxy, rail: str
) -> None:
    before = await _warmed_up(fragile, rail)
    order = await fragile.order(rail)
    proxy.cut(Cut.AFTER, order["ref_trx"])
    assert _is_retryable(await fragile.merchant.post(INITIATE, order))
    assert proxy.has_cut
    trx_id, *others = reversed(await _payouts(payer))
    assert await payer.balance() == before - 100_000

    reply = await fragile.merchant.post(INITIATE, order)
    assert (reply.status, reply.code) == (422, "DUPLICATE_REFERENCE")
    assert reply.json["trx_id"] == trx_id
    assert await payer.balance() == before - 100_000
    assert len(await _payouts(payer)) == len(others) + 1


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_27_a_connection_lost_before_the_commit_leaves_nothing_and_a_retry_works(
    payer: PayoutMerchant, fragile: PayoutMerchant, proxy: Proxy, rail: str
) -> None:
    before = await _warmed_up(fragile, rail)
    order, earlier = await fragile.order(rail), await _payouts(payer)
    proxy.cut(Cut.BEFORE, order["ref_trx"])
    assert _is_retryable(await fragile.merchant.post(INITIATE, order))
    assert proxy.has_cut
    assert await _payouts(payer) == earlier
    reply = await fragile.merchant.post(INITIATE, order)
    assert reply.status == 200
    assert await payer.balance() == before - 100_000


async def _warmed_up(fragile: PayoutMerchant, rail: str) -> int:
    """Fills the caches, so that the next request only debits the wallet. Returns the balance."""
    await fragile.pay_out(rail)
    return await fragile.balance()


async def test_27_a_retry_with_the_same_key_replays_the_lost_response(
    payer: PayoutMerchant, fragile: PayoutMerchant, proxy: Proxy
) -> None:
    raw = json.dumps(await fragile.order(MANUAL)).encode()
    proxy.cut(Cut.AFTER, json.loads(raw)["ref_trx"])
    lost = await fragile.merchant.call("POST", INITIATE, raw, Idempotency_Key="once")
    assert _is_retryable(lost)
    again = await fragile.merchant.call("POST", INITIATE, raw, Idempotency_Key="once")
    assert (again.status, again.headers["idempotent-replayed"]) == (200, "true")
    assert await _payouts(payer) == [again.json["trx_id"]]
    assert await payer.balance() == DEBITED


@pytest.mark.parametrize("cut", list(Cut))
async def test_27_all_callers_of_a_lost_statement_get_an_error_and_can_look_up_the_outcome(
    payer: PayoutMerchant, fragile: PayoutMerchant, proxy: Proxy, cut: Cut
) -> None:
    await payer.fund("20000")
    orders = [await fragile.order(MANUAL) for _ in range(30)]
    proxy.cut(cut, orders[10]["ref_trx"])
    first = await asyncio.gather(*(fragile.merchant.post(INITIATE, order) for order in orders))
    assert proxy.has_cut
    assert {reply.status for reply in first} <= {200, 503}
    assert first[10].status == 503
    again = await asyncio.gather(*(fragile.merchant.post(INITIATE, order) for order in orders))
    for before, after in zip(first, again, strict=True):
        if before.status == 200:
            assert (after.code, after.json["trx_id"]) == (
                "DUPLICATE_REFERENCE",
                before.json["trx_id"],
            )
        # On a busy machine, some requests time out before they reach the lost SQL statement.
        else:
            assert after.code in ("DUPLICATE_REFERENCE", None)
    assert again[10].code == ("DUPLICATE_REFERENCE" if cut is Cut.AFTER else None)
    assert sorted(await _payouts(payer)) == sorted(reply.json["trx_id"] for reply in again)
    assert await payer.balance() == 0


@pytest.mark.parametrize("cut", list(Cut))
@pytest.mark.parametrize("outcome", ["success", "failed"])
async def test_27_a_connection_lost_while_committing_an_outcome_settles_it_once(
    payer: PayoutMerchant, fragile: PayoutMerchant, proxy: Proxy, cut: Cut, outcome: str
) -> None:
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    await payer.simulator.control(f"a/transfers/{trx_id}/settle", {"status": outcome})
    if outcome == "success":
        proxy.cut(cut, f'"trx_id":"{trx_id}"')  # This SQL completes the payout and commits.
    else:
        proxy.cut(cut, "COMMIT;\0", after=trx_id)
    await _check_now(payer, fragile, trx_id)
    assert proxy.has_cut
    is_decided = (await payer.payout(trx_id)).status != "pending"
    assert is_decided is (cut is Cut.AFTER)
    await _check_now(payer, fragile, trx_id)
    expected = ("completed", DEBITED) if outcome == "success" else ("failed", FULL)
    assert ((await payer.payout(trx_id)).status, await payer.balance()) == expected
    assert len(await payer.notifications(trx_id)) == 1
    assert await payer.cases() == []


@pytest.mark.parametrize("cut", list(Cut))
@pytest.mark.parametrize("nth", first_short(range(1, 6)))
async def test_27_a_connection_lost_at_any_statement_of_a_send_pays_once(
    payer: PayoutMerchant, fragile: PayoutMerchant, proxy: Proxy, cut: Cut, nth: int
) -> None:
    """Each run cuts the connection at another SQL statement that contains the payout's id."""
    trx_id = await payer.pay_out()
    proxy.cut(cut, trx_id, nth)
    for _ in range(4):
        await _check_now(payer, fragile, trx_id)
    assert proxy.has_cut
    [transfer] = await payer.transfers()
    assert (transfer["reference"], transfer["duplicates"]) == (trx_id, 0)
    await payer.simulator.control(f"a/transfers/{trx_id}/settle", {"status": "success"})
    await _check_now(payer, fragile, trx_id)
    assert ((await payer.payout(trx_id)).status, await payer.balance()) == ("completed", DEBITED)


async def _check_now(payer: PayoutMerchant, fragile: PayoutMerchant, trx_id: str) -> None:
    """Makes the payout's job due, and runs it with the database connection that a test can cut."""
    await end_lease(payer.services.db, trx_id)
    with contextlib.suppress(Unavailable):
        await fragile.simulator.run_jobs()


async def test_28_an_exhausted_pool_is_reported_quickly_with_retry_after_and_recovers(
    payer: PayoutMerchant, settings: Settings
) -> None:
    unknown = "TXN" + "0" * 30
    async with second_process(payer, settings, connections=2) as busy:
        order, paid = await busy.order(), await new_payment(busy.merchant)
        link = busy.services.links.query(paid, datetime.now(UTC) + timedelta(minutes=1))
        async with contextlib.AsyncExitStack() as held:
            for _ in range(2):
                await held.enter_async_context(busy.services.db.connection())
            # Mark the cached status as outdated, so that the next request reloads it.
            busy.services.watch._as_of = float("-inf")
            asking = [
                busy.merchant.post(INITIATE, order),
                busy.verify(unknown),
                busy.merchant.get("/api/v1/payout-methods?currency=NGN"),
                busy.merchant.site.send("GET", f"/checkout/{paid}/status?{link}"),
                *(
                    transfer_webhooks.send_webhook(
                        busy.merchant.site,
                        "a",
                        transfer_webhooks.transfer("a", unknown, "success", n=n),
                    )
                    for n in range(7)
                ),
            ]
            with limited(request_seconds=0.3):
                replies = await asyncio.gather(*asking)
            assert all(map(_is_retryable, replies))
            assert await _payouts(payer) == []
        reply = await busy.merchant.post(INITIATE, order)
        assert reply.status == 200, reply.body
        assert await payer.balance() == DEBITED


@pytest.fixture
def long_calls() -> Iterator[None]:
    """Allows calls to providers to take longer than the simulated latency."""
    with limited(provider_call_seconds=LONG_SECONDS - 1):
        yield


@pytest.mark.usefixtures("long_calls")
async def test_28_no_connection_is_held_during_a_provider_call(
    payer: PayoutMerchant, settings: Settings
) -> None:
    async with second_process(payer, settings, connections=2) as busy:
        await payer.fund("100000")
        sending = [await payer.pay_out(payout_amount=100) for _ in range(20)]
        await payer.simulator.control("a/faults", {"latency_seconds": 35})
        callers = [busy.from_new_ip() for _ in range(20)]
        initiating = [asyncio.create_task(caller.ask()) for caller in callers]
        working = asyncio.create_task(busy.simulator.run_jobs())
        calls = busy.services.rails._calls["providera"]
        # The initiating requests share one request for the list of banks.
        await until_true(lambda: calls._value == CALLS_AT_ONCE - 1 - len(sending))
        for trx_id in sending:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                assert (await busy.verify(trx_id)).json["status"] == "pending"
                reply = await busy.merchant.post(INITIATE, await busy.order(MANUAL))
                assert reply.status == 200
        assert await _idle_in_transaction(payer) == 0
        assert not working.done()
        assert not any(task.done() for task in initiating)
        await payer.simulator.control("a/faults", {"latency_seconds": 0})
        clock.advance(35)
        assert {reply.status for reply in await asyncio.gather(*initiating)} == {200}
        await working
        assert {t["duplicates"] for t in await payer.transfers()} == {0}


async def _idle_in_transaction(payer: PayoutMerchant) -> int:
    count: int = await payer.services.db.value(
        """
        SELECT count(*) FROM pg_stat_activity
         WHERE application_name = 'second process' AND state LIKE 'idle in transaction%'"""
    )
    return count


@contextlib.asynccontextmanager
async def _conflicts(
    owner: Database, table: str, operation: str, error: str
) -> AsyncIterator[None]:
    """Causes writes to the table to fail with this error, for the number of times a test sets."""
    await owner.execute(
        f"""
        CREATE SEQUENCE conflicts;
        GRANT ALL ON SEQUENCE conflicts TO PUBLIC;
        CREATE TABLE conflicts_wanted (times bigint);
        GRANT ALL ON conflicts_wanted TO PUBLIC;
        CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF nextval('conflicts') <= (SELECT max(times) FROM conflicts_wanted) THEN
                RAISE EXCEPTION 'on purpose' USING ERRCODE = '{error}';
            END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER conflict BEFORE {operation} ON {table}
            FOR EACH ROW EXECUTE FUNCTION conflict();"""
    )
    try:
        yield
    finally:
        await owner.execute(
            f"""
            DROP TRIGGER conflict ON {table};
            DROP FUNCTION conflict;
            DROP SEQUENCE conflicts;
            DROP TABLE conflicts_wanted;"""
        )


SERIALIZATION, DEADLOCK = "40001", "40P01"


@pytest.mark.parametrize("error", [SERIALIZATION, DEADLOCK])
async def test_29_a_conflict_at_the_debit_is_retried_a_limited_number_of_times(
    payer: PayoutMerchant, owner: Database, error: str
) -> None:
    async with _conflicts(owner, "payout", "INSERT", error):
        await owner.execute("INSERT INTO conflicts_wanted VALUES (2)")
        await payer.pay_out(MANUAL)
        assert await owner.value("SELECT last_value FROM conflicts") == 3
        assert await payer.balance() == DEBITED

        await owner.execute("INSERT INTO conflicts_wanted VALUES (1000000)")
        order = await payer.order(MANUAL)
        reply = await payer.merchant.post(INITIATE, order)
        assert reply.status >= 500
        assert await owner.value("SELECT last_value FROM conflicts") == 3 + batch.CONFLICT_TRIES
        assert await payer.balance() == DEBITED

        await owner.execute("DELETE FROM conflicts_wanted")
        assert (await payer.merchant.post(INITIATE, order)).status == 200


@pytest.mark.parametrize("error", first_short([SERIALIZATION, DEADLOCK]))
async def test_29_a_conflict_at_the_outcome_is_retried_and_settles_once(
    payer: PayoutMerchant, owner: Database, error: str
) -> None:
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    await payer.simulator.control(f"a/transfers/{trx_id}/settle", {"status": "failed"})
    async with _conflicts(owner, "payout", "UPDATE", error):
        await owner.execute("INSERT INTO conflicts_wanted VALUES (2)")
        for _ in range(4):
            await payer.check_now(trx_id)
    assert (await payer.payout(trx_id)).status == "failed"
    assert await payer.balance() == FULL
    assert len(await payer.notifications(trx_id)) == 1


async def test_29_a_debit_in_a_real_deadlock_is_rolled_back_and_retried(
    payer: PayoutMerchant, cluster: Cluster
) -> None:
    """The debit and the test's transaction lock the same two rows in opposite order.

    The debit locks the wallet and waits for its rate-limit row. The test's transaction locks the
    rate-limit row and waits for the wallet.
    """
    order, merchant_id = await payer.order(MANUAL), payer.merchant.new.id
    await payer.pay_out(MANUAL)  # creates the rate-limit row
    other = await Database.open(cluster.url(postgres.SUPERUSER), size=1, name="tests deadlock")
    async with other.transaction() as connection:
        await connection.execute(
            "SET LOCAL deadlock_timeout = '1min'"
        )  # PostgreSQL cancels the debit, but not the test's own transaction.
        bucket = "SELECT used FROM rate_window WHERE bucket LIKE $1 FOR UPDATE"
        assert await connection.value(bucket, f"{merchant_id:011d}:%") is not None
        asking = asyncio.create_task(payer.merchant.post(INITIATE, order))
        while not await _is_debit_waiting(payer):
            await asyncio.sleep(0.02)
        await connection.execute(
            "SELECT FROM wallet WHERE merchant_id = $1 FOR UPDATE", merchant_id
        )
    reply = await asking
    await other.close()
    assert reply.status == 200, reply.body
    assert await payer.balance() == DEBITED - 100_000


async def _is_debit_waiting(payer: PayoutMerchant) -> bool:
    waiting: bool = await payer.services.db.value(
        """
        SELECT EXISTS (SELECT FROM pg_stat_activity
                        WHERE wait_event_type = 'Lock' AND query LIKE '%payout_initiate%')"""
    )
    return waiting
