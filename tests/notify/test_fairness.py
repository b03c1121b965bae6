"""One merchant's slow endpoint or backlog does not delay other merchants."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.jobs import claims
from manilla.kit.jobs.runner import Runner
from manilla.notify import delivery, host_limits
from manilla.notify.delivery import NotificationDelivery
from manilla.notify.host_limits import HostLimits
from manilla.notify.ipn import IpnDestination
from manilla.notify.outbox import DELIVER
from manilla.services import Services
from tests.notify.receiver import Behave, Receiver, receiving
from tests.support.client import Site, new_merchant
from tests.support.limits import limited
from tests.support.rows import long_rows
from tests.support.waiting import until_true

CLOSED_URL = "http://127.0.0.1:9/"
HOSTS = [f"host{number}" for number in range(delivery.CONCURRENCY)]


async def _notifications(db: Database, merchant_id: int, urls: Sequence[str]) -> None:
    """Creates a pending notification for each URL, without ledger postings.

    Each notification is about a different transaction.
    """
    await db.execute(
        """
        WITH new AS (
            INSERT INTO notification
                   (merchant_id, id, environment, trx_id, event, status, url, body)
            SELECT $1::bigint, 'msg_' || $1::bigint || '_' || n, 'sandbox', 'T' || n, 'payment',
                   'completed', url, '{}'
              FROM unnest($2::text[]) WITH ORDINALITY AS new (url, n)
            RETURNING merchant_id, trx_id)
        INSERT INTO job (merchant_id, kind, subject, due_at)
        SELECT merchant_id, 'notify', trx_id, now() FROM new""",
        *(merchant_id, list(urls)),
    )


def _hang_until(released: asyncio.Event) -> Behave:
    async def behave(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await released.wait()

    return behave


@contextlib.asynccontextmanager
async def _working(
    services: Services, db: Database, released: asyncio.Event
) -> AsyncIterator[None]:
    """Delivers notifications, and waits for all deliveries at the end."""
    stop = asyncio.Event()
    async with delivery.open_client(is_public_only=False, connections=200) as client:
        works = NotificationDelivery(IpnDestination(db, services.directory), client).job_handlers()
        task = asyncio.create_task(Runner(db, works).run(stop))
        yield
        stop.set()
        released.set()
        await task


@pytest.mark.parametrize("merchants", [10, *long_rows(100)])
async def test_a_hanging_endpoint_does_not_delay_others(
    services: Services, site: Site, db: Database, keyring: Keyring, merchants: int
) -> None:
    released = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:
        receivers: list[Receiver] = []
        for number in range(merchants):
            receiver = await stack.enter_async_context(receiving())
            receiver.answers = [_hang_until(released)] * 200 if number == 0 else []
            receivers.append(receiver)
            merchant = await new_merchant(site, db, keyring)
            # The endpoint that hangs has the most notifications.
            count = 150 if number == 0 else 5
            await _notifications(db, merchant.new.id, [receiver.url] * count)
        async with _working(services, db, released):
            await asyncio.gather(*(receiver.until(5) for receiver in receivers[1:]))
            await receivers[0].until(1)
            hanging = len(receivers[0].received)
        # The number of concurrent calls to the hanging endpoint was limited.
        assert hanging <= 2 * host_limits.AT_ONCE
    await db.execute("DELETE FROM job WHERE kind = 'notify'")


async def test_many_hanging_hosts_of_one_merchant_do_not_delay_others(
    services: Services, site: Site, db: Database, keyring: Keyring
) -> None:
    released, hanging = asyncio.Event(), 0

    async def hang(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal hanging
        hanging += 1
        await released.wait()
        writer.close()

    merchant, other = [await new_merchant(site, db, keyring) for _ in range(2)]
    async with contextlib.AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(receiving())
        servers = [await asyncio.start_server(hang, "127.0.0.1", 0) for _ in HOSTS]
        for server in servers:
            stack.callback(server.close)
        ports = [server.sockets[0].getsockname()[1] for server in servers]
        await _notifications(db, merchant.new.id, [f"http://127.0.0.1:{port}/" for port in ports])
        async with _working(services, db, released):
            await until_true(lambda: hanging >= host_limits.UNPROVEN_AT_ONCE)
            await _notifications(db, other.new.id, [receiver.url] * 5)
            await receiver.until(5)
            assert hanging == host_limits.UNPROVEN_AT_ONCE
    await db.execute("DELETE FROM job WHERE kind = 'notify'")


async def test_one_merchants_backlog_does_not_delay_another_merchant(
    services: Services, site: Site, db: Database, keyring: Keyring
) -> None:
    busy, other = [await new_merchant(site, db, keyring) for _ in range(2)]
    await _notifications(db, busy.new.id, [CLOSED_URL] * 2000)
    await _notifications(db, other.new.id, [CLOSED_URL] * 3)
    claimed, _ = await claims.claim_fairly(db, DELIVER, 20, -1)
    assert sum(job.merchant_id == other.new.id for job in claimed) == 3
    await db.execute("DELETE FROM job WHERE kind = 'notify'")


async def test_running_and_held_notifications_delay_nobody(
    services: Services, site: Site, db: Database, keyring: Keyring
) -> None:
    """For each merchant, a round claims the oldest job that is neither running nor held."""
    merchants = [(await new_merchant(site, db, keyring)).new.id for _ in range(3)]
    before = merchants[0] - 1

    async def claimed() -> list[int]:
        """Claims jobs and returns the ids of their merchants. Fails if a job is claimed twice."""
        found, last = await claims.claim_fairly(db, DELIVER, 3, before)
        assert last == merchants[-1]
        had.extend((job.merchant_id, job.subject) for job in found)
        return sorted(job.merchant_id for job in found)

    had: list[tuple[int, str]] = []
    for merchant_id in merchants:
        await _notifications(db, merchant_id, [CLOSED_URL] * 3)
    assert await claimed() == merchants
    async with db.transaction() as other:
        await other.execute(
            """
            SELECT 1 FROM job
             WHERE merchant_id = $1 AND leased_until IS NULL ORDER BY due_at LIMIT 1 FOR UPDATE""",
            merchants[1],
        )
        assert await claimed() == merchants
        assert await claimed() == [merchants[0], merchants[2]]
    assert await claimed() == [merchants[1]]
    assert await claimed() == []
    assert len(set(had)) == len(had) == 9
    await db.execute("DELETE FROM job WHERE kind = 'notify'")


def test_each_host_has_a_concurrency_limit_lower_when_it_is_slow() -> None:
    limits = HostLimits()
    entered = [limits.enter("a", 1)[0] for _ in range(host_limits.NEW_AT_ONCE + 1)]
    # A new host has a lower concurrency limit until it has responded.
    assert entered == [True] * host_limits.NEW_AT_ONCE + [False]
    limits.leave("a", 1, was_slow=False, seconds=0.1)
    more = host_limits.AT_ONCE - host_limits.NEW_AT_ONCE + 1
    assert [limits.enter("a", 1)[0] for _ in range(more + 1)] == [True] * more + [False]
    assert limits.enter("b", 1) == (True, False)
    for _ in range(host_limits.AT_ONCE):
        limits.leave("a", 1, was_slow=False, seconds=host_limits.SLOW_SECONDS + 1)
    assert [limits.enter("a", 1) for _ in range(3)] == [(True, True), (True, True), (False, True)]
    assert [limits.enter("a", 2) for _ in range(3)] == [
        (True, False)
    ] * 3  # Other endpoints on the slow host still have the normal limit.
    limits.leave("a", 1, was_slow=True, seconds=0.1)
    assert limits.enter("a", 1) == (True, False)


def test_slow_hosts_together_leave_capacity_for_the_others() -> None:
    limits = HostLimits()
    for number in range(100):
        _respond(limits, f"slow{number}", number, seconds=host_limits.SLOW_SECONDS + 1)
    entered = sum(limits.enter(f"slow{number}", number)[0] for number in range(100))
    assert entered == host_limits.SLOW_IN_ALL
    assert limits.enter("quick", 1) == (True, False)


def _respond(limits: HostLimits, host: str, merchant_id: int, *, seconds: float = 0.1) -> None:
    entered, was_slow = limits.enter(host, merchant_id)
    assert entered
    limits.leave(host, merchant_id, was_slow=was_slow, seconds=seconds)


def _entered(limits: HostLimits, merchant_id: int, hosts: Iterable[str]) -> int:
    return sum(limits.enter(host, merchant_id)[0] for host in hosts)


def test_a_merchant_with_many_new_hosts_leaves_capacity_for_other_merchants() -> None:
    limits = HostLimits()
    _respond(limits, "quick", 1)
    assert _entered(limits, 1, HOSTS) == host_limits.UNPROVEN_AT_ONCE
    assert limits.enter("other", 2) == (True, False)
    # The merchant's quick host keeps its own limit.
    assert _entered(limits, 1, ["quick"] * host_limits.AT_ONCE) == host_limits.AT_ONCE
    # As soon as a new host has responded quickly, another new host can be called.
    limits.leave(HOSTS[0], 1, was_slow=False, seconds=0.1)
    assert _entered(limits, 1, HOSTS[1:]) == 1


def test_a_merchant_with_many_slow_hosts_leaves_capacity_for_other_slow_hosts() -> None:
    limits = HostLimits()
    for host in HOSTS:
        _respond(limits, host, 1, seconds=host_limits.SLOW_SECONDS + 1)
    _respond(limits, "other", 2, seconds=host_limits.SLOW_SECONDS + 1)
    assert _entered(limits, 1, HOSTS) == host_limits.UNPROVEN_AT_ONCE < host_limits.SLOW_IN_ALL
    assert limits.enter("other", 2) == (True, True)


def test_a_merchant_whose_quick_hosts_hang_leaves_half_of_the_capacity() -> None:
    limits = HostLimits()
    for host in HOSTS:
        _respond(limits, host, 1)
    assert _entered(limits, 1, HOSTS) == host_limits.PLACES_MAX == delivery.CONCURRENCY // 2
    assert _entered(limits, 2, ["other"]) == 1


def test_all_calls_to_a_host_count_after_one_of_them_was_slow() -> None:
    limits = HostLimits()
    _respond(limits, "a", 1)
    _entered(limits, 1, ["a"] * (host_limits.UNPROVEN_AT_ONCE + 1))
    assert limits.enter("b", 1) == (True, False)
    limits.leave("a", 1, was_slow=False, seconds=host_limits.SLOW_SECONDS + 1)
    assert limits.enter("c", 1) == (False, True)
    limits.leave("a", 1, was_slow=False, seconds=0.1)
    assert limits.enter("c", 1) == (True, False)


async def test_messages_do_not_wait_for_a_host_that_the_merchants_other_hosts_block() -> None:
    limits = HostLimits()
    _entered(limits, 1, HOSTS)
    assert [await limits.enter_soon(host, 1) for host in HOSTS] == [(False, True)] * len(HOSTS)


async def test_waiting_messages_count_for_the_merchant() -> None:
    limits = HostLimits()
    for host in HOSTS:
        _respond(limits, host, 1)
    _entered(limits, 1, ["host0"] * host_limits.AT_ONCE)
    waiting = [
        asyncio.create_task(limits.enter_soon("host0", 1)) for _ in range(host_limits.WAITING_MAX)
    ]
    await asyncio.sleep(0)
    assert await limits.enter_soon("host1", 1) == (False, False)
    for _ in waiting:
        limits.leave("host0", 1, was_slow=False, seconds=0.1)
    assert await asyncio.gather(*waiting) == [(True, False)] * host_limits.WAITING_MAX
    assert _entered(limits, 1, HOSTS[1:]) == host_limits.WAITING_MAX


def test_forgetting_idle_hosts_keeps_the_merchants_running_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_limits, "ENTRIES_MAX", 20)
    limits = HostLimits()
    _respond(limits, "other", 2)
    assert _entered(limits, 1, HOSTS) == host_limits.UNPROVEN_AT_ONCE
    assert len(limits._merchants) == 1
    assert _entered(limits, 1, HOSTS) == 0


async def test_a_message_waits_for_a_fast_host_at_its_limit() -> None:
    limits = HostLimits()
    for _ in range(host_limits.NEW_AT_ONCE):
        limits.enter("a", 1)
    waiting = asyncio.create_task(limits.enter_soon("a", 1))
    await asyncio.sleep(0)
    assert not waiting.done()
    limits.leave("a", 1, was_slow=False, seconds=0.1)
    assert await waiting == (True, False)


async def test_few_messages_wait_for_a_host_that_hangs() -> None:
    limits = HostLimits()
    for _ in range(host_limits.NEW_AT_ONCE):
        limits.enter("a", 1)
    with limited(host_wait_seconds=0):
        entered = [await limits.enter_soon("a", 1) for _ in range(host_limits.WAITING_MAX)]
    assert entered == [(False, False)] * host_limits.WAITING_MAX
    # From now on, messages are scheduled again immediately, until a call ends.
    assert await limits.enter_soon("a", 1) == (False, False)
    limits.leave("a", 1, was_slow=False, seconds=0.1)
    assert await limits.enter_soon("a", 1) == (True, False)
