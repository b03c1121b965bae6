"""Delivery of notifications: retries, order, timeouts and resends."""

import asyncio
import hmac
import time

import msgspec
import pytest

from manilla.kit import jobs
from manilla.kit.jobs import claims
from manilla.notify import delivery, redeliver
from manilla.notify.outbox import DELIVER
from manilla.notify.queries import DeliveryResult
from manilla.payments.checkout import SandboxOutcome
from tests.notify.deliveries import Deliveries
from tests.notify.receiver import Behave, answer, drip, endless, hang, raw
from tests.support import clock
from tests.support.limits import CALL_SECONDS
from tests.support.rows import first_short


async def test_a_notification_arrives_signed_over_its_exact_bytes(deliveries: Deliveries) -> None:
    trx_id = await deliveries.finish_payment()
    await deliveries.deliver()
    [received] = deliveries.receiver.received
    assert received.path == "/ipn"
    assert (received.json["event"], received.json["data"]["trx_id"]) == ("payment", trx_id)
    secret = deliveries.merchant.credentials.api_secret.encode()
    assert received.headers["x-signature"] == hmac.digest(secret, received.body, "sha256").hex()
    assert received.headers["x-environment"] == "sandbox"
    assert received.headers["content-type"] == "application/json"
    assert abs(int(received.headers["x-timestamp"]) - time.time()) < 30
    assert received.headers["webhook-id"].startswith("msg_")
    assert await deliveries.state(trx_id) == "delivered"
    [kept] = await deliveries.attempts(trx_id)
    assert (kept.status, kept.answer, kept.error) == (200, b"ok", None)
    assert len(kept.headers) == 7
    assert kept.headers == {name: received.headers[name.lower()] for name in kept.headers}
    await deliveries.deliver()
    assert len(deliveries.receiver.received) == 1


@pytest.mark.parametrize("status", first_short([200, 201, 204, 299]))
async def test_any_2xx_is_a_success(deliveries: Deliveries, status: int) -> None:
    deliveries.receiver.answers = [answer(status, b"")]
    trx_id = await deliveries.finish_payment()
    await deliveries.deliver()
    assert await deliveries.state(trx_id) == "delivered"


BAD: dict[str, Behave] = {
    "refuses": answer(500),
    "not found": answer(404),
    "redirects": answer(302, b"", "Location: http://127.0.0.1:1/"),
    "informs": raw(b"HTTP/1.1 304 Not Modified\r\n\r\n"),
    "resets": raw(b"HTTP/1.1 2", then_reset=True),
    "closes": raw(),
    "closes mid-body": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"),
    "is no HTTP": raw(b"SSH-2.0-OpenSSH\r\n"),
}
# The text that the page shows for each response, with the HTTP status if there is one.
DISPLAYED = {
    "refuses": (500, "HTTP 500"),
    "not found": (404, "HTTP 404"),
    "redirects": (302, "HTTP 302: redirects are not followed"),
    "informs": (304, "HTTP 304"),
    "resets": (None, "the call failed: the connection was closed without a response"),
    "closes": (None, "the call failed: the connection was closed without a response"),
    "closes mid-body": (200, "the call failed: the response was incomplete"),
    "is no HTTP": (None, "the call failed: the response is not valid HTTP"),
}


@pytest.mark.parametrize("name", first_short(BAD))
async def test_a_failed_attempt_is_retried_twice_on_schedule(
    deliveries: Deliveries, name: str
) -> None:
    deliveries.receiver.answers = [BAD[name]] * 3
    trx_id = await deliveries.finish_payment()
    waits = []
    for _ in range(2):
        await deliveries.deliver()
        assert await deliveries.state(trx_id) == "waiting"
        waits.append(await deliveries.skip_to_next_attempt())
    await deliveries.deliver()
    assert await deliveries.state(trx_id) == "failed"
    assert [round(wait, -1) for wait in waits] == [10, 60]
    assert len(deliveries.receiver.received) == 3
    assert len({each.headers["webhook-id"] for each in deliveries.receiver.received}) == 1
    assert len({each.body for each in deliveries.receiver.received}) == 1
    for kept in await deliveries.attempts(trx_id):
        assert (kept.status, kept.error) == DISPLAYED[name]


@pytest.mark.parametrize(
    ("behave", "status", "error"),
    [
        (hang(clock.end_calls), None, f"no response within {CALL_SECONDS} seconds"),
        (drip(), 200, f"the response did not end within {CALL_SECONDS} seconds"),
    ],
    ids=["hangs", "drips"],
)
async def test_an_attempt_has_one_deadline_for_the_whole_exchange(
    deliveries: Deliveries,
    behave: Behave,
    status: int | None,
    error: str,
) -> None:
    deliveries.receiver.answers = [behave]
    trx_id = await deliveries.finish_payment()
    await deliveries.deliver()
    assert await deliveries.state(trx_id) == "waiting"
    [kept] = await deliveries.attempts(trx_id)
    assert (kept.status, kept.error) == (status, error)
    assert (kept.answer or b"").strip(b"x") == b""
    # Manilla stores the part of the response that it has received.
    assert bool(kept.answer) == (status is not None)


async def test_an_endless_response_is_cut_off(deliveries: Deliveries) -> None:
    deliveries.receiver.answers = [endless()]
    trx_id = await deliveries.finish_payment()
    await deliveries.deliver()
    [kept] = await deliveries.attempts(trx_id)
    assert kept.answer is not None
    assert len(kept.answer) == delivery.ANSWER_BYTES_KEPT
    assert await deliveries.state(trx_id) == "delivered"


async def test_a_retry_does_not_wait_for_the_clock_of_another_worker(
    deliveries: Deliveries,
) -> None:
    deliveries.receiver.answers = [answer(500)]
    trx_id = await deliveries.finish_payment()
    await deliveries.deliver()
    await deliveries.skip_to_next_attempt(hours=-96)  # the other worker's clock was ahead
    await deliveries.deliver()
    assert await deliveries.state(trx_id) == "delivered"


async def test_notifications_of_a_transaction_are_delivered_in_order(
    deliveries: Deliveries,
) -> None:
    trx_id = await deliveries.finish_payment(SandboxOutcome.CANCEL)
    await deliveries.services.checkout.pretend(trx_id, SandboxOutcome.PAY)
    deliveries.receiver.answers = [answer(500)]
    await deliveries.deliver()
    assert [r.json["status"] for r in deliveries.receiver.received] == ["canceled"]
    await deliveries.deliver()
    assert len(deliveries.receiver.received) == 1
    await deliveries.skip_to_next_attempt()
    await deliveries.deliver()
    await deliveries.deliver()
    statuses = [received.json["status"] for received in deliveries.receiver.received]
    assert statuses == ["canceled", "canceled", "completed"]


async def test_failed_and_delivered_notifications_can_be_resent(deliveries: Deliveries) -> None:
    trx_id = await deliveries.finish_payment()
    await deliveries.deliver()
    [first] = await deliveries.notifications(trx_id)
    again = await redeliver.redeliver(deliveries.services.db, first.id)
    assert again.state == "waiting"
    await deliveries.deliver()
    one, two = deliveries.receiver.received
    assert (one.body, one.headers["webhook-id"]) == (two.body, two.headers["webhook-id"])
    assert [kept.number for kept in await deliveries.attempts(trx_id)] == [1, 2]


async def test_all_notifications_failed_since_a_time_are_resent(deliveries: Deliveries) -> None:
    deliveries.receiver.answers = [answer(500)] * 6
    first = await _failed(deliveries)
    second = await _failed(deliveries)
    [failed] = await deliveries.notifications(second)
    assert failed.decided_at is not None
    sent = await redeliver.redeliver_failed(
        deliveries.services.db, failed.decided_at, deliveries.merchant.new.id
    )
    assert sent == [failed.id]
    await deliveries.deliver()
    assert (await deliveries.state(first), await deliveries.state(second)) == (
        "failed",
        "delivered",
    )


async def test_a_resend_during_the_last_attempt_is_not_marked_failed(
    deliveries: Deliveries,
) -> None:
    trx_id = await deliveries.finish_payment()
    [waiting] = await deliveries.notifications(trx_id)

    async def wanted_again(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await redeliver.redeliver(deliveries.services.db, waiting.id)
        await answer(500)(reader, writer)

    deliveries.receiver.answers = [answer(500), answer(500), wanted_again]
    for _ in range(3):
        await deliveries.deliver()
        await deliveries.skip_to_next_attempt()
    assert await deliveries.state(trx_id) == "waiting"
    await deliveries.deliver()
    assert await deliveries.state(trx_id) == "delivered"
    assert [kept.number for kept in await deliveries.attempts(trx_id)] == [1, 2, 3, 4]


async def test_a_notification_queued_during_a_delivery_is_delivered_too(
    deliveries: Deliveries,
) -> None:
    trx_id = await deliveries.finish_payment(SandboxOutcome.CANCEL)

    async def pays_after_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await deliveries.services.checkout.pretend(trx_id, SandboxOutcome.PAY)
        await answer(200)(reader, writer)

    deliveries.receiver.answers = [pays_after_all]
    await deliveries.deliver()
    await deliveries.deliver()
    assert [each.state for each in await deliveries.notifications(trx_id)] == ["delivered"] * 2
    assert len(deliveries.receiver.received) == 2


async def test_the_last_delivery_of_a_transaction_deletes_its_job(deliveries: Deliveries) -> None:
    await deliveries.finish_payment()
    await deliveries.deliver()
    key = deliveries.merchant.new.id, DELIVER
    left = "SELECT count(*) FROM job WHERE merchant_id = $1 AND kind = $2"
    assert await deliveries.services.db.number(left, *key) == 0


async def test_a_job_with_a_new_event_does_not_count_as_deleted_with_the_others(
    deliveries: Deliveries,
) -> None:
    """The worker would not release the job, which would wait until its lease ends."""
    db, destination = deliveries.services.db, deliveries.delivery._destination
    for _ in range(2):
        await deliveries.finish_payment()
    claimed, _ = await claims.claim_fairly(db, DELIVER, 2, deliveries.merchant.new.id - 1)
    # Jobs are identified by their keys, so equal fences make no difference.
    held = [msgspec.structs.replace(job, fence=1) for job in claimed]
    await db.execute(
        "UPDATE job SET fence = 1, lease = 1 WHERE kind = $1 AND subject = ANY ($2::text[])",
        *(DELIVER, [job.subject for job in held]),
    )
    await jobs.put(db, held[0].merchant_id, DELIVER, held[0].subject)
    attempts = [
        await deliveries.delivery._attempt(due, time.monotonic())
        for due in await destination.due(held)
        if due is not None
    ]
    results = [DeliveryResult(attempt, job) for attempt, job in zip(attempts, held, strict=True)]
    assert await destination.record(results) == [False, True]


async def test_resending_a_transaction_starts_with_its_oldest_notification(
    deliveries: Deliveries,
) -> None:
    deliveries.receiver.answers = [answer(500)] * 6
    trx_id = await deliveries.finish_payment(SandboxOutcome.CANCEL)
    await deliveries.services.checkout.pretend(trx_id, SandboxOutcome.PAY)
    for _ in range(6):
        await deliveries.deliver()
        await deliveries.skip_to_next_attempt()
    db, [older, newer] = deliveries.services.db, await deliveries.notifications(trx_id)
    assert (older.state, newer.state) == ("failed", "failed")
    assert older.decided_at is not None
    await redeliver.redeliver_failed(db, older.decided_at, deliveries.merchant.new.id)
    # A worker may deliver a notification once it is stored, so check the order in the database.
    in_order = await db.records(
        "SELECT id FROM notification WHERE trx_id = $1 ORDER BY xmin::text::bigint", trx_id
    )
    assert [record["id"] for record in in_order] == [older.id, newer.id]


async def _failed(deliveries: Deliveries) -> str:
    trx_id = await deliveries.finish_payment()
    for _ in range(3):
        await deliveries.deliver()
        await deliveries.skip_to_next_attempt()
    assert await deliveries.state(trx_id) == "failed"
    return trx_id


async def test_a_new_event_does_not_bring_forward_a_retry_of_the_same_transaction(
    deliveries: Deliveries,
) -> None:
    deliveries.receiver.answers = [answer(500)]
    trx_id = await deliveries.finish_payment(SandboxOutcome.CANCEL)
    await deliveries.deliver()
    await deliveries.services.checkout.pretend(trx_id, SandboxOutcome.PAY)
    await deliveries.deliver()
    await deliveries.deliver()
    assert len(deliveries.receiver.received) == 1
