"""Notifications reach who they are for, as often as it takes and no oftener."""

import asyncio
import hmac
import time

import pytest

from manilla.notify import courier, redeliver
from manilla.payments.checkout import Outcome
from tests.notify.mailroom import Mailroom
from tests.notify.receiver import Behave, answer, drip, endless, hang, raw


async def test_a_notification_arrives_signed_over_its_exact_bytes(mailroom: Mailroom) -> None:
    trx_id = await mailroom.happen()
    await mailroom.deliver()
    [received] = mailroom.receiver.received
    assert received.path == "/ipn"
    assert (received.json["event"], received.json["data"]["trx_id"]) == ("payment", trx_id)
    secret = mailroom.merchant.credentials.api_secret.encode()
    assert received.headers["x-signature"] == hmac.digest(secret, received.body, "sha256").hex()
    assert received.headers["x-environment"] == "sandbox"
    assert received.headers["content-type"] == "application/json"
    assert abs(int(received.headers["x-timestamp"]) - time.time()) < 30
    assert received.headers["webhook-id"].startswith("msg_")
    assert await mailroom.state(trx_id) == "delivered"
    [kept] = await mailroom.attempts(trx_id)
    assert (kept.status, kept.answer, kept.error) == (200, b"ok", None)
    assert kept.headers["X-Signature"] == received.headers["x-signature"]
    await mailroom.deliver()
    assert len(mailroom.receiver.received) == 1


@pytest.mark.parametrize("status", [200, 201, 204, 299])
async def test_any_2xx_is_a_success(mailroom: Mailroom, status: int) -> None:
    mailroom.receiver.answers = [answer(status, b"")]
    trx_id = await mailroom.happen()
    await mailroom.deliver()
    assert await mailroom.state(trx_id) == "delivered"


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
# What people read of each: the status as far as there was one, and words of ours.
TOLD = {
    "refuses": (500, "HTTP 500"),
    "not found": (404, "HTTP 404"),
    "redirects": (302, "HTTP 302: redirects are not followed"),
    "informs": (304, "HTTP 304"),
    "resets": (None, "the call failed: the connection was closed without a response"),
    "closes": (None, "the call failed: the connection was closed without a response"),
    "closes mid-body": (200, "the call failed: the response was incomplete"),
    "is no HTTP": (None, "the call failed: the response is not valid HTTP"),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_failed_attempt_is_followed_by_two_more_at_their_times(
    mailroom: Mailroom, name: str
) -> None:
    mailroom.receiver.answers = [BAD[name]] * 3
    trx_id = await mailroom.happen()
    waits = []
    for _ in range(2):
        await mailroom.deliver()
        assert await mailroom.state(trx_id) == "waiting"
        waits.append(await mailroom.time_passes())
    await mailroom.deliver()
    assert await mailroom.state(trx_id) == "failed"
    assert [round(wait, -1) for wait in waits] == [10, 60]
    assert len(mailroom.receiver.received) == 3
    assert len({each.headers["webhook-id"] for each in mailroom.receiver.received}) == 1
    assert len({each.body for each in mailroom.receiver.received}) == 1
    for kept in await mailroom.attempts(trx_id):
        assert (kept.status, kept.error) == TOLD[name]


@pytest.mark.parametrize(
    ("behave", "status", "error"),
    [
        (hang(), None, "no response within 10 seconds"),
        (drip(), 200, "the response did not end within 10 seconds"),
    ],
    ids=["hangs", "drips"],
)
async def test_an_attempt_has_a_deadline_over_all(
    mailroom: Mailroom,
    behave: Behave,
    status: int | None,
    error: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(courier, "ATTEMPT_SECONDS", 0.5)
    mailroom.receiver.answers = [behave]
    trx_id = await mailroom.happen()
    began = time.monotonic()
    await mailroom.deliver()
    assert time.monotonic() - began < 5
    assert await mailroom.state(trx_id) == "waiting"
    [kept] = await mailroom.attempts(trx_id)
    assert (kept.status, kept.error) == (status, error)
    assert (kept.answer or b"").strip(b"x") == b""
    assert bool(kept.answer) == (status is not None)  # as far as it came


async def test_an_endless_answer_is_cut_off(mailroom: Mailroom) -> None:
    mailroom.receiver.answers = [endless()]
    trx_id = await mailroom.happen()
    await mailroom.deliver()
    [kept] = await mailroom.attempts(trx_id)
    assert kept.answer is not None
    assert len(kept.answer) == courier.ANSWER_BYTES_KEPT
    assert await mailroom.state(trx_id) == "delivered"


async def test_notifications_of_a_transaction_keep_their_order(mailroom: Mailroom) -> None:
    trx_id = await mailroom.happen(Outcome.CANCEL)
    await mailroom.services.checkout.pretend(trx_id, Outcome.PAY)
    mailroom.receiver.answers = [answer(500)]
    await mailroom.deliver()
    assert [r.json["status"] for r in mailroom.receiver.received] == ["canceled"]
    await mailroom.deliver()
    assert len(mailroom.receiver.received) == 1
    await mailroom.time_passes()
    await mailroom.deliver()
    await mailroom.deliver()
    statuses = [received.json["status"] for received in mailroom.receiver.received]
    assert statuses == ["canceled", "canceled", "completed"]


async def test_what_was_given_up_or_delivered_can_be_sent_again(mailroom: Mailroom) -> None:
    trx_id = await mailroom.happen()
    await mailroom.deliver()
    [first] = await mailroom.notifications(trx_id)
    again = await redeliver.redeliver(mailroom.services.db, first.id)
    assert again.state == "waiting"
    await mailroom.deliver()
    one, two = mailroom.receiver.received
    assert (one.body, one.headers["webhook-id"]) == (two.body, two.headers["webhook-id"])
    assert [kept.number for kept in await mailroom.attempts(trx_id)] == [1, 2]


async def test_all_that_failed_since_a_time_are_sent_again(mailroom: Mailroom) -> None:
    mailroom.receiver.answers = [answer(500)] * 6
    first = await _given_up(mailroom)
    second = await _given_up(mailroom)
    [failed] = await mailroom.notifications(second)
    assert failed.decided_at is not None
    sent = await redeliver.redeliver_failed(
        mailroom.services.db, failed.decided_at, mailroom.merchant.new.id
    )
    assert sent == [failed.id]
    await mailroom.deliver()
    assert (await mailroom.state(first), await mailroom.state(second)) == ("failed", "delivered")


async def test_what_is_sent_again_during_its_last_attempt_is_not_given_up(
    mailroom: Mailroom,
) -> None:
    trx_id = await mailroom.happen()
    [waiting] = await mailroom.notifications(trx_id)

    async def wanted_again(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await redeliver.redeliver(mailroom.services.db, waiting.id)
        await answer(500)(reader, writer)

    mailroom.receiver.answers = [answer(500), answer(500), wanted_again]
    for _ in range(3):
        await mailroom.deliver()
        await mailroom.time_passes()
    assert await mailroom.state(trx_id) == "waiting"
    await mailroom.deliver()
    assert await mailroom.state(trx_id) == "delivered"
    assert [kept.number for kept in await mailroom.attempts(trx_id)] == [1, 2, 3, 4]


async def test_of_a_transaction_the_older_is_sent_again_first(mailroom: Mailroom) -> None:
    mailroom.receiver.answers = [answer(500)] * 6
    trx_id = await mailroom.happen(Outcome.CANCEL)
    await mailroom.services.checkout.pretend(trx_id, Outcome.PAY)
    for _ in range(6):
        await mailroom.deliver()
        await mailroom.time_passes()
    db, [older, newer] = mailroom.services.db, await mailroom.notifications(trx_id)
    assert (older.state, newer.state) == ("failed", "failed")
    assert older.decided_at is not None
    await redeliver.redeliver_failed(db, older.decided_at, mailroom.merchant.new.id)
    # A worker may take each as soon as it is written; so what counts is who was written first.
    in_order = await db.records(
        "SELECT id FROM notification WHERE trx_id = $1 ORDER BY xmin::text::bigint", trx_id
    )
    assert [record["id"] for record in in_order] == [older.id, newer.id]


async def _given_up(mailroom: Mailroom) -> str:
    trx_id = await mailroom.happen()
    for _ in range(3):
        await mailroom.deliver()
        await mailroom.time_passes()
    assert await mailroom.state(trx_id) == "failed"
    return trx_id


async def test_another_event_of_the_transaction_does_not_hurry_a_retry(
    mailroom: Mailroom,
) -> None:
    mailroom.receiver.answers = [answer(500)]
    trx_id = await mailroom.happen(Outcome.CANCEL)
    await mailroom.deliver()
    await mailroom.services.checkout.pretend(trx_id, Outcome.PAY)
    await mailroom.deliver()
    await mailroom.deliver()
    assert len(mailroom.receiver.received) == 1
