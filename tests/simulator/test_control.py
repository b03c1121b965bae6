"""The simulator's control API: state, commands and errors."""

import asyncio
import socket
import sys
from decimal import Decimal
from typing import Any

import aiohttp
import pytest
from manilla_simulator.program import build, run
from manilla_simulator.settings import NotInProduction, SimulatorSettings
from manilla_simulator.state import Charge, ChargeShelf, VirtualAccount, now

from manilla.kit.money import Money
from tests.simulator.merchant_platform import Platform
from tests.support.timeouts import TIMEOUT_SECONDS
from tests.support.waiting import until

PRODUCTION = SimulatorSettings(
    mode="production", base_url="http://sim.example", webhook_base_url="http://pay.example"
)


async def test_the_simulator_does_not_start_in_production() -> None:
    with pytest.raises(NotInProduction, match="never runs in production"):
        build(PRODUCTION)
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(NotInProduction):
        await run(PRODUCTION, listener)


async def test_the_state_shows_all_providers(platform: Platform) -> None:
    state = await platform.control("state")
    assert list(state)[:3] == ["a", "b", "c"]
    assert state["a"]["base_url"] == f"{platform.simulator}/a"
    assert state["a"]["faults"] == {
        "settle_seconds": Decimal("0.05"),
        "latency_seconds": 0,
        "outage": False,
        "next": [],
        "webhooks": {"mode": "normal", "delay_seconds": 0, "copies": 2},
        "refunds": "success",
        "statement_overlap": 0,
        "disputes": "none",
    }


async def test_a_provider_can_be_addressed_by_either_name(platform: Platform) -> None:
    await platform.control("providerb/balance", {"available": 5})
    assert await platform.available("b") == 5


@pytest.mark.parametrize(
    ("target", "body", "status", "error"),
    [
        ("z/faults", {}, 404, "There is no such provider: use a, b, c"),
        ("a/faults", {"latency": 1}, 400, "unknown field `latency`"),
        ("a/faults", {"latency_seconds": -1}, 400, ">= 0"),
        ("a/faults", {"next": [{"call": "tea", "fault": "reset"}]}, 400, "Invalid enum value"),
        ("a/faults", {"webhooks": {"mode": "odd"}}, 400, "Invalid enum value"),
        ("a/faults", b"{", 400, "not a valid command"),
        ("a/balance", {"available": -1}, 400, "cannot be less than 0"),
        ("a/balance", {"available": 0.001}, 400, "at most 2 decimals"),
        ("a/transfers/TXN9/settle", {"status": "failed"}, 404, "has no transfer TXN9"),
        ("a/charges/TXN9/pay", {}, 404, "has no charge TXN9"),
        ("a/refunds/TXN9/settle", {"status": "failed"}, 404, "has no refund TXN9"),
        ("a/charges/TXN9/dispute", {}, 404, "has no charge TXN9"),
        ("a/disputes/9/remind", {}, 404, "has no dispute 9"),
        ("a/disputes/9/resolve", {"status": "won"}, 404, "has no dispute 9"),
        ("a/disputes/9/resolve", {"status": "gone"}, 400, "Invalid enum value"),
        ("a/disputes/9/reopen", {"due_seconds": -1}, 400, ">= 0"),
        ("a/transfers/TXN9/settle", {"status": "gone"}, 400, "Invalid enum value"),
    ],
)  # fmt: skip
async def test_an_invalid_command_is_rejected(
    platform: Platform, target: str, body: Any, status: int, error: str
) -> None:
    reply = await platform.send("POST", f"/control/api/{target}", body)
    assert reply.status == status
    assert error in reply.json["error"]


async def test_an_unrealistic_command_needs_force(platform: Platform) -> None:
    await platform.transfer("a", "TXN1")
    await platform.settled("a", "TXN1", "success")
    target = "/control/api/a/transfers/TXN1/settle"
    reply = await platform.send("POST", target, {"status": "failed"})
    assert reply.status == 409
    assert reply.json["error"] == "A transfer cannot change from success to failed."
    await platform.control("a/transfers/TXN1/settle", {"status": "failed", "insist": True})
    assert await platform.transfer_status("a", "TXN1") == "failed"
    events = {each.json["event"] for each in await platform.webhooks(2)}
    assert events == {"transfer.success", "transfer.failed"}


async def test_a_charge_is_paid_once_unless_forced(platform: Platform) -> None:
    await platform.open_hosted("a", "TXN1-1")
    before = await platform.available("a")
    await platform.control("a/charges/TXN1-1/pay", {"outcome": "failed"})
    reply = await platform.send("POST", "/control/api/a/charges/TXN1-1/pay", {})
    assert reply.status == 409
    assert await platform.available("a") == before
    await platform.control("a/charges/TXN1-1/pay", {"insist": True})
    assert await platform.available("a") == before + 985


async def test_the_journal_keeps_requests_without_secrets(platform: Platform) -> None:
    await platform.open_account("a", "TXN1-1")
    (request,) = (await platform.control("a/requests?reference=TXN1-1"))["requests"]
    assert (request["call"], request["method"], request["status"]) == ("charge", "POST", 200)
    assert '"amount": 1000.0' in request["body"]
    assert "22222222222" not in request["body"]
    assert "sim_a_secret" not in str(request)


async def test_lists_are_newest_first_and_bounded(platform: Platform) -> None:
    for number in range(5):
        await platform.transfer("a", f"TXN{number}")
    listed = (await platform.control("a/transfers?limit=2"))["transfers"]
    assert [item["reference"] for item in listed] == ["TXN4", "TXN3"]
    listed = (await platform.control("a/transfers?limit=2&offset=4"))["transfers"]
    assert [item["reference"] for item in listed] == ["TXN0"]
    for query in ("limit=5000", "limit=0", "offset=-1", "offset=12345678901"):
        reply = await platform.send("GET", f"/control/api/a/transfers?{query}")
        assert reply.status == 400


async def test_a_reset_clears_all_state(platform: Platform) -> None:
    await platform.transfer("a", "TXN1")
    await platform.control("a/faults", {"outage": True, "settle_seconds": 9})
    await platform.control("reset", {})
    assert (await platform.ask_transfer("a", "TXN1")).status == 404
    assert await platform.available("a") == 10_000_000
    assert (await platform.control("a/webhooks"))["webhooks"] == []


async def test_another_sites_page_cannot_control_the_simulator(platform: Platform) -> None:
    reply = await platform.send(
        "POST", "/control/api/reset", {}, headers={"Sec-Fetch-Site": "cross-site"}
    )
    assert reply.status == 403


def test_a_full_store_drops_its_oldest_charge_under_all_its_names() -> None:
    shelf = ChargeShelf(most=2)
    for number in range(3):
        shelf.put(new_charge(number))
    assert [charge.reference for charge in shelf.select()] == ["TXN2-1", "TXN1-1"]
    assert shelf.get("TXN0-1") is None
    assert set(shelf.by_token) == {"token1", "token2"}
    assert set(shelf.by_number) == {1, 2}
    assert set(shelf.by_account) == {"9900000001", "9900000002"}


def new_charge(number: int) -> Charge:
    return Charge(
        reference=f"TXN{number}-1",
        number=number,
        token=f"token{number}",
        amount=Money("NGN", 100),
        title="",
        customer_name="Ada Obi",
        customer_email="ada@example.com",
        created_at=now(),
        expires_at=now(),
        accounts=(VirtualAccount(f"990000000{number}", "Ada Obi", "035", "Wema Bank"),),
    )


async def test_the_process_serves_until_it_is_stopped() -> None:
    """The process stops on a signal, even while a request hangs intentionally."""
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, stdout=asyncio.subprocess.PIPE
    )
    assert program.stdout is not None
    address = (await program.stdout.readline()).decode().strip()
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{address}/healthz") as answer:
            assert await answer.json() == {"status": "ok"}
        platform = Platform(session, address)
        faults = {"next": [{"call": "*", "fault": "timeout_before"}]}
        await platform.control("a/faults", faults)
        hanging = asyncio.create_task(platform.transfer("a", "TXN1"))

        async def is_received() -> bool:
            return bool((await platform.control("a/requests"))["requests"])

        await until(is_received)
        program.terminate()
        assert await asyncio.wait_for(program.wait(), TIMEOUT_SECONDS) == 0
        with pytest.raises(aiohttp.ClientError):
            await hanging


PROGRAM = """
import asyncio, socket
from manilla.kit.money import Money
from manilla_simulator.program import run
from manilla_simulator.settings import SimulatorSettings
listener = socket.create_server(("127.0.0.1", 0))
url = f"http://127.0.0.1:{listener.getsockname()[1]}"
print(url, flush=True)
settings = SimulatorSettings(mode="development", base_url=url, webhook_base_url=url)
asyncio.run(run(settings, listener))
"""


async def test_an_oversized_body_is_rejected(platform: Platform) -> None:
    reply = await platform.call("a", "POST", "/merchant/api/v1/refunds/initiate", b"x" * 70_000)
    assert reply.status == 413
