"""Every fault of the simulator, as the caller experiences it."""

import asyncio
import time
from typing import Any

import aiohttp
import pytest

from tests.simulator.merchant_platform import SUCCESS, Platform

every_provider = pytest.mark.parametrize("key", ["a", "b", "c"])


async def plan(
    platform: Platform, key: str, fault: str, call: str = "transfer", **more: Any
) -> None:
    await platform.control(f"{key}/faults", {"next": [{"call": call, "fault": fault, **more}]})


async def exists(platform: Platform, key: str, reference: str) -> bool:
    listed = await platform.control(f"{key}/transfers?reference={reference}")
    return bool(listed["transfers"])


@every_provider
@pytest.mark.parametrize(
    ("fault", "accepted"), [("timeout_before", False), ("timeout_after_accept", True)]
)
async def test_a_timeout_hides_whether_the_request_was_processed(
    platform: Platform, key: str, fault: str, accepted: bool
) -> None:
    await plan(platform, key, fault)
    await platform.hangs(key, platform.transfer(key, "TXN1"))
    assert await exists(platform, key, "TXN1") is accepted
    again = await platform.transfer(key, "TXN1")
    assert (again.status == 200) is not accepted
    await platform.settled(key, "TXN1", SUCCESS[key])


@every_provider
@pytest.mark.parametrize(("fault", "accepted"), [("5xx_before", False), ("5xx_after_accept", True)])
async def test_a_5xx_hides_whether_the_request_was_processed(
    platform: Platform, key: str, fault: str, accepted: bool
) -> None:
    await plan(platform, key, fault, status=503)
    reply = await platform.transfer(key, "TXN1")
    assert (reply.status, reply.body[:6]) == (503, b"<html>")
    assert await exists(platform, key, "TXN1") is accepted


async def test_a_5xx_can_use_the_providers_envelope(platform: Platform) -> None:
    await plan(platform, "a", "5xx_after_accept", message="Internal error")
    reply = await platform.transfer("a", "TXN1")
    assert reply.refusal == (502, "Internal error")
    assert await exists(platform, "a", "TXN1")


@every_provider
@pytest.mark.parametrize(("fault", "accepted"), [("reset", False), ("reset_after_accept", True)])
async def test_a_connection_can_be_dropped(
    platform: Platform, key: str, fault: str, accepted: bool
) -> None:
    await plan(platform, key, fault)
    with pytest.raises(aiohttp.ClientError):
        await platform.transfer(key, "TXN1")
    assert await exists(platform, key, "TXN1") is accepted


async def test_a_response_can_be_unparsable(platform: Platform) -> None:
    await plan(platform, "c", "garbage_after_accept")
    reply = await platform.transfer("c", "TXN1")
    assert reply.status == 200
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        _ = reply.json
    assert await exists(platform, "c", "TXN1")


@every_provider
async def test_every_documented_refusal_can_be_forced(platform: Platform, key: str) -> None:
    refusals = (await platform.control("state"))[key]["refusals"]
    assert len(refusals) >= 5
    for number, refusal in enumerate(refusals):
        await plan(platform, key, "refuse", message=refusal["message"])
        reply = await platform.transfer(key, f"TXN{number}")
        assert reply.refusal == (refusal["status"], refusal["message"])
        assert not await exists(platform, key, f"TXN{number}")


async def test_a_fault_can_apply_to_every_second_call(platform: Platform) -> None:
    await plan(platform, "a", "refuse", message="No", status=422, times=None, every=2)
    statuses = [(await platform.transfer("a", f"TXN3{n}")).status for n in range(4)]
    assert statuses == [200, 422, 200, 422]


async def test_a_fault_applies_for_the_given_number_of_calls(platform: Platform) -> None:
    await plan(platform, "a", "refuse", message="No", status=422, times=2)
    statuses = [(await platform.transfer("a", f"TXN{n}")).status for n in range(3)]
    assert statuses == [422, 422, 200]
    await plan(platform, "a", "refuse", message="No", times=None)
    statuses = [(await platform.transfer("a", f"TXN1{n}")).status for n in range(3)]
    assert statuses == [400, 400, 400]
    await platform.control("a/faults", {"next": []})
    assert (await platform.transfer("a", "TXN20")).status == 200


async def test_a_fault_applies_only_to_its_endpoint(platform: Platform) -> None:
    await plan(platform, "a", "5xx_before", call="transfer_status")
    assert (await platform.transfer("a", "TXN1")).status == 200
    assert (await platform.ask_transfer("a", "TXN1")).status == 502
    assert (await platform.ask_transfer("a", "TXN1")).status == 200
    await plan(platform, "a", "5xx_before", call="*")
    assert (await platform.call("a", "GET", "/merchant/api/v1/balances")).status == 502


async def test_latency_delays_every_response(platform: Platform) -> None:
    await platform.control("a/faults", {"latency_seconds": 0.2})
    began = time.monotonic()
    await platform.transfer("a", "TXN1")
    assert time.monotonic() - began >= 0.2
    await platform.control("a/faults", {"latency_seconds": 60})
    slow = asyncio.create_task(platform.transfer("a", "TXN2"))
    assert (await platform.transfer("b", "TXN1")).status == 200
    assert not slow.done()
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)


async def test_an_outage_affects_one_provider_only(platform: Platform) -> None:
    page = await platform.open_hosted("a", "TXN1-1")
    await platform.transfer("a", "TXN1", "0000000003")
    planned = [{"call": "transfer", "fault": "refuse", "message": "No"}]
    await platform.control("a/faults", {"outage": True, "next": planned})
    assert (await platform.transfer("a", "TXN2")).status == 503
    assert (await platform.ask_transfer("a", "TXN1")).status == 503
    shown = await platform.send("GET", page.removeprefix(platform.simulator))
    assert shown.status == 503
    assert (await platform.transfer("b", "TXN2")).status == 200
    # The provider sends the delayed webhooks after the outage.
    await platform.control("a/transfers/TXN1/settle", {"status": "success"})
    assert [each["status"] for each in await platform.sent_webhooks("a")] == ["held"]
    assert not [each for each in platform.received if each.path.endswith("providera")]
    await platform.control("a/faults", {"outage": False})
    assert (await platform.webhooks(1))[0].json["event"] == "transfer.success"
    assert not await exists(platform, "a", "TXN2")
    # Calls during the outage did not use up the planned faults.
    assert (await platform.transfer("a", "TXN2")).refusal == (400, "No")


async def test_settling_takes_the_configured_time(platform: Platform) -> None:
    await platform.control("a/faults", {"settle_seconds": 60})
    await platform.transfer("a", "TXN1")
    await platform.transfer("b", "TXN1")  # settles after the usual time
    await platform.settled("b", "TXN1", "success")
    assert await platform.transfer_status("a", "TXN1") == "processing"
    command = {"status": "failed", "reason": "No such account", "after_seconds": 0.05}
    await platform.control("a/transfers/TXN1/settle", command)
    await platform.settled("a", "TXN1", "failed")
    assert (await platform.ask_transfer("a", "TXN1")).data["message"] == "No such account"
