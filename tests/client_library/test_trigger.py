"""`manilla-client trigger` creates a sandbox transaction, and the shop receives a notification."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from manilla.kit.environment import Environment
from manilla.notify import queries
from tests.client_library.tool import tool, variables
from tests.support.client import Merchant
from tests.support.provider_simulator import ProviderSimulator
from tests.support.rows import first_short

EVENTS = {
    "payment.success": ("success", "payment", "completed"),
    "payment.failed": ("failed", "payment", "failed"),
    "payout.completed": ("success", "payout", "completed"),
    "payout.failed": ("failed", "payout", "failed"),
    "refund.completed": ("success", "refund", "completed"),
}


def keys(merchant: Merchant) -> dict[str, str]:
    own = merchant.credentials
    return variables(merchant.site.port, own.merchant_key, own.api_key, own.api_secret)


async def trigger(
    simulator: ProviderSimulator, merchant: Merchant, home: Path, *words: str
) -> tuple[int, Any, str]:
    """Runs the command and, in parallel, the sandbox jobs, which are due immediately."""
    running = asyncio.create_task(
        asyncio.to_thread(tool, home, "trigger", *words, "--json", **keys(merchant))
    )

    async def has_ended() -> bool:
        sooner = "UPDATE job SET due_at = now() WHERE merchant_id = $1"
        await simulator.services.db.execute(sooner, merchant.new.id)
        return running.done()

    await simulator.until(has_ended)
    run = await running
    return run.returncode, json.loads(run.stdout) if run.stdout else None, run.stderr


@pytest.mark.parametrize(
    "event", first_short(EVENTS, of_each=lambda event: event.partition(".")[0])
)
async def test_a_triggered_event_happens_and_is_notified(
    simulator: ProviderSimulator, merchant: Merchant, tmp_path: Path, event: str
) -> None:
    words = (event, "--ipn-url", "https://shop.example/here", "--amount", "1500.50")
    code, made, err = await trigger(simulator, merchant, tmp_path, *words)
    assert code == 0, err
    status, kind, notified = EVENTS[event]
    assert (made["event"], made["status"]) == (event, status)
    notification, *earlier = await queries.notifications(
        simulator.services.db, merchant_id=merchant.new.id, trx_id=made["trx_id"]
    )
    assert [each.event for each in earlier] == (["payment"] if kind == "refund" else [])
    assert (notification.event, notification.status) == (kind, notified)
    assert (notification.environment, notification.url) == (
        Environment.SANDBOX,
        "https://shop.example/here",
    )
    assert f'"ref_trx":"{made["ref_trx"]}"' in notification.body.decode()
    assert "1500.50" in notification.body.decode()
    assert made.get("refund_trx_id", made["trx_id"]) in notification.body.decode()


async def test_production_keys_are_refused_before_anything_is_sent(
    simulator: ProviderSimulator, merchant: Merchant, tmp_path: Path
) -> None:
    production = Merchant(merchant.site, merchant.new, Environment.PRODUCTION)
    away = {**keys(production), "MANILLA_URL": "http://127.0.0.1:1"}
    run = await asyncio.to_thread(tool, tmp_path, "trigger", "payment.success", **away)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == "This works in the sandbox only: use keys that begin with test_.\n"


async def test_an_order_that_the_platform_rejects_is_explained(
    simulator: ProviderSimulator, merchant: Merchant, tmp_path: Path
) -> None:
    words = ("payment.success", "--currency", "XYZ")
    code, made, err = await trigger(simulator, merchant, tmp_path, *words)
    assert (code, made) == (1, None)
    assert "Currency is not enabled" in err


@pytest.mark.parametrize("words", [("payment.lost",), ("payment.success", "--amount", "much"), ()])
def test_bad_usage_is_exit_2(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert tool(tmp_path, "trigger", *words).returncode == 2
