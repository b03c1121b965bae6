"""Webhooks that are delivered, lost, repeated, reordered or forged."""

import asyncio
import hashlib
import hmac
import json
from typing import Any

import pytest
from manilla_simulator import webhooks

from tests.simulator.merchant_platform import Platform, Received
from tests.support.waiting import until_true


async def webhooks_are(platform: Platform, **plan: object) -> None:
    await platform.control("a/faults", {"webhooks": plan, "settle_seconds": 0})


def is_signed(received: Received) -> bool:
    expected = hmac.new(b"sim_a_webhook", received.raw, hashlib.sha256).hexdigest()
    return received.headers["x-providera-signature"] == expected


def references(received: list[Received]) -> list[str]:
    return [each.json["data"]["reference"] for each in received]


async def test_a_lost_webhook_is_never_sent(platform: Platform) -> None:
    await webhooks_are(platform, mode="lost")
    await platform.transfer("a", "TXN1")
    await platform.settled("a", "TXN1", "success")
    (webhook,) = await platform.sent_webhooks("a")
    assert (webhook["status"], webhook["attempts"]) == ("lost", [])
    assert not platform.received


async def test_duplicate_webhooks_are_byte_identical(platform: Platform) -> None:
    await webhooks_are(platform, mode="duplicate", copies=5)
    await platform.transfer("a", "TXN1")
    received = await platform.webhooks(5)
    assert len({each.raw for each in received}) == 1
    assert all(is_signed(each) for each in received)


class Pauses:
    """The simulator's pauses before it sends webhooks. A test can end the pauses."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.ended = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await self.ended.wait()

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    pauses = Pauses()
    monkeypatch.setattr(webhooks, "asyncio", pauses)
    return pauses


async def test_reordered_webhooks_arrive_newest_first(platform: Platform, pauses: Pauses) -> None:
    await webhooks_are(platform, mode="reorder", delay_seconds=0.3)
    for reference in ("TXN1", "TXN2", "TXN3"):
        await platform.transfer("a", reference)
        await platform.settled("a", reference, "success")
    pauses.ended.set()
    assert references(await platform.webhooks(3)) == ["TXN3", "TXN2", "TXN1"]
    assert pauses.seconds == [0.3]


async def test_a_delayed_webhook_arrives_later(platform: Platform, pauses: Pauses) -> None:
    await webhooks_are(platform, delay_seconds=0.3)
    await platform.transfer("a", "TXN1")
    await platform.settled("a", "TXN1", "success")
    await platform.arrived()
    assert not platform.received
    pauses.ended.set()
    assert references(await platform.webhooks(1)) == ["TXN1"]
    assert pauses.seconds == [0.3]


async def test_a_forged_webhook_has_a_wrong_signature(platform: Platform) -> None:
    await webhooks_are(platform, mode="forge")
    platform.answers = [401]
    await platform.transfer("a", "TXN1")
    (forged,) = await platform.webhooks(1)
    assert not is_signed(forged)
    (webhook,) = await platform.sent_webhooks("a")
    assert (webhook["status"], len(webhook["attempts"])) == ("failed", 1)
    assert len(platform.received) == 1


async def test_held_webhooks_wait_to_be_released(platform: Platform) -> None:
    await webhooks_are(platform, mode="hold")
    for reference in ("TXN1", "TXN2"):
        await platform.transfer("a", reference)
        await platform.settled("a", reference, "success")
    await platform.arrived()
    assert not platform.received
    assert await platform.control("a/webhooks/release", {}) == {"released": 2}
    assert sorted(references(await platform.webhooks(2))) == ["TXN1", "TXN2"]


async def test_a_webhook_is_resent_until_it_is_accepted(platform: Platform) -> None:
    platform.answers = [500, 302]
    await platform.transfer("a", "TXN1")
    received = await platform.webhooks(3)
    assert len({each.raw for each in received}) == 1
    (webhook,) = await platform.sent_webhooks("a")
    assert [attempt["status"] for attempt in webhook["attempts"]] == [500, 302, 200]
    assert webhook["status"] == "delivered"


async def test_a_webhook_fails_after_four_attempts(platform: Platform) -> None:
    platform.answers = [500] * 10
    await platform.transfer("a", "TXN1")
    await platform.webhooks(4)
    (webhook,) = await platform.sent_webhooks("a")
    assert (webhook["status"], len(platform.received)) == ("failed", 4)


async def test_an_unreachable_platform_is_recorded(platform: Platform) -> None:
    command = {"body": {"event": "charge.success"}, "url": "http://127.0.0.1:1/"}
    await platform.control("a/webhooks/send", command)
    (webhook,) = await platform.sent_webhooks("a")
    assert webhook["attempts"][0]["error"] == "ClientConnectorError"


@pytest.mark.parametrize("key", ["a", "b", "c"])
async def test_any_bytes_can_be_sent_with_the_providers_signature(
    platform: Platform, key: str
) -> None:
    raw = b'{"event": "charge.success", "data": {"amount": 90071992547409.930}}'
    await platform.control(f"{key}/webhooks/send", b'{"body": ' + raw + b"}")
    (received,) = await platform.webhooks(1)
    assert received.raw == raw
    header, secret, digest = {
        "a": ("x-providera-signature", b"sim_a_webhook", "sha256"),
        "b": ("HTTP_PROVIDERB_SIGNATURE", b"sim_b_secret", "sha512"),
        "c": ("X-ProviderC-Signature", b"sim_c_webhook", "sha256"),
    }[key]
    assert received.headers[header] == hmac.new(secret, raw, digest).hexdigest()


async def test_a_webhook_can_arrive_before_the_response(platform: Platform) -> None:
    command = {
        "settle_seconds": 0,
        "next": [{"call": "transfer", "fault": "timeout_after_accept"}],
    }
    await platform.control("a/faults", command)
    sending = asyncio.create_task(platform.transfer("a", "TXN1"))
    await until_true(lambda: bool(platform.received))
    assert not sending.done()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    assert json.loads(platform.received[0].raw)["event"] == "transfer.success"
