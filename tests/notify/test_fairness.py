"""One merchant's slow endpoint or backlog does not delay other merchants."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.jobs import claims
from manilla.kit.jobs.runner import Runner
from manilla.notify import delivery, host_limits
from manilla.notify.delivery import NotificationDelivery
from manilla.notify.host_limits import HostLimits
from manilla.notify.ipn import IpnDestination
from manilla.notify.outbox import DELIVER
from manilla.services import Services
from tests.client import Site, new_merchant
from tests.limits import limited
from tests.notify.receiver import Behave, Receiver, receiving
from tests.rows import long_rows


async def _notifications(db: Database, merchant_id: int, url: str, count: int) -> None:
    """Creates pending notifications for different transactions, without ledger postings."""
    await db.execute(
        """
        WITH new AS (
            INSERT INTO notification
                   (merchant_id, id, environment, trx_id, event, status, url, body)
            SELECT $1::bigint, 'msg_' || $1::bigint || '_' || n, 'sandbox', 'T' || n, 'payment',
                   'completed', $2, '{}'
              FROM generate_series(1, $3) AS n
            RETURNING merchant_id, trx_id)
        INSERT INTO job (merchant_id, kind, subject, due_at)
        SELECT merchant_id, 'notify', trx_id, now() FROM new""",
        *(merchant_id, url, count),
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
        works = NotificationDelivery(IpnDestination(db, services.directory), client).works()
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
            await _notifications(db, merchant.new.id, receiver.url, 150 if number == 0 else 5)
        async with _working(services, db, released):
            await asyncio.gather(*(receiver.until(5) for receiver in receivers[1:]))
            await receivers[0].until(1)
            hanging = len(receivers[0].received)
        # The number of concurrent calls to the hanging endpoint was limited.
        assert hanging <= 2 * host_limits.AT_ONCE
    await db.execute("DELETE FROM job WHERE kind = 'notify'")


async def test_one_merchants_backlog_does_not_delay_another_merchant(
    services: Services, site: Site, db: Database, keyring: Keyring
) -> None:
    busy, other = [await new_merchant(site, db, keyring) for _ in range(2)]
    await _notifications(db, busy.new.id, "http://127.0.0.1:9/", 2000)
    await _notifications(db, other.new.id, "http://127.0.0.1:9/", 3)
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
        await _notifications(db, merchant_id, "http://127.0.0.1:9/", 3)
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
        assert limits.enter(f"slow{number}", 1)[0]
        limits.leave(f"slow{number}", 1, was_slow=False, seconds=host_limits.SLOW_SECONDS + 1)
    entered = sum(limits.enter(f"slow{number}", 1)[0] for number in range(100))
    assert entered == host_limits.SLOW_IN_ALL
    assert limits.enter("quick", 1) == (True, False)


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
