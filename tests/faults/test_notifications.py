"""A process dies while it sends a notification. The notification is sent again with the same id."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from tests.faults.live_instance import LiveInstance, trx_of
from tests.notify.receiver import Receiver, receiving

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LiveInstance]:
    running = await LiveInstance(tmp_path_factory.mktemp("faults")).open()
    yield running
    await running.close()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as open_receiver:
        yield open_receiver


async def _pay(running: LiveInstance, receiver: Receiver) -> str:
    checkout = await running.start(ipn_url=receiver.url)
    reference = await running.choose(checkout, "providera-ngn")
    await running.control(f"a/charges/{reference}/pay", {})
    return checkout


async def test_a_crash_after_the_final_state_does_not_lose_its_notification(
    running: LiveInstance, receiver: Receiver
) -> None:
    running.arm("after_payment_commit")
    checkout = await _pay(running, receiver)

    async def has_arrived() -> bool:
        return len(receiver.received) == 1

    await running.until(has_arrived)
    assert running.has_crashed("after_payment_commit")
    assert receiver.received[0].json["data"]["trx_id"] == trx_of(checkout)
    assert await running.invariants_hold()


async def test_a_crash_after_the_merchants_2xx_resends_with_the_same_id(
    running: LiveInstance, receiver: Receiver
) -> None:
    running.arm("after_notification_is_delivered")
    await _pay(running, receiver)

    async def has_crashed() -> bool:
        return running.has_crashed("after_notification_is_delivered")

    await running.until(has_crashed)
    await running.end_leases()

    async def has_arrived_again() -> bool:
        return len(receiver.received) == 2

    await running.until(has_arrived_again)
    first, second = receiver.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body

    async def is_delivered() -> bool:
        waiting = await running.db.value(
            "SELECT count(*) FROM notification WHERE id = $1 AND state = 'waiting'",
            first.headers["webhook-id"],
        )
        return bool(waiting == 0)

    await running.until(is_delivered)
    assert len(receiver.received) == 2


async def test_a_crash_after_an_endpoints_2xx_resends_with_the_same_id(
    running: LiveInstance, receiver: Receiver
) -> None:
    new = json.dumps({"url": receiver.url, "events": ["payout.*"]}).encode()
    created = (await running.call("POST", "/api/v1/webhook-endpoints", new)).json
    running.arm("after_notification_is_delivered")
    testing = asyncio.create_task(
        running.call("POST", f"/api/v1/webhook-endpoints/{created['id']}/test")
    )

    async def has_crashed() -> bool:
        return running.has_crashed("after_notification_is_delivered")

    await running.until(has_crashed)
    await running.end_leases()
    await testing

    async def is_delivered() -> bool:
        return bool(
            await running.db.value(
                "SELECT count(*) FROM endpoint_delivery WHERE endpoint_id = $1"
                " AND state = 'delivered'",
                created["id"],
            )
        )

    await running.until(is_delivered)
    first, second = receiver.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
