"""A provider that does not respond delays no payout of another provider."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from manilla import worker
from manilla.kit.jobs import Work
from manilla.kit.jobs.runner import Runner
from manilla.payouts import tasks
from manilla.payouts.initiate import SEND
from manilla.providers import slots
from manilla.services import Services
from tests.payouts.payout_merchant import PayoutMerchant
from tests.payouts.routing.conftest import routed
from tests.payouts.routing.routed import REFUSED, RoutedPayouts
from tests.payouts.routing.test_draining import drained
from tests.support import clock
from tests.support.limits import limited
from tests.support.waiting import until

__all__ = ["routed"]

AT_ONCE = 8


async def test_a_hanging_provider_does_not_delay_payouts_of_others(
    payer: PayoutMerchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "CONCURRENCY", AT_ONCE)
    monkeypatch.setattr(slots, "STALLED_SECONDS", 0.0)
    faults = {"next": [{"call": "transfer", "fault": "timeout_before", "times": None}]}
    await payer.simulator.control("a/faults", faults)
    hanging = [await payer.pay_out("a", payout_amount=100) for _ in range(2 * AT_ONCE)]
    others = [await payer.pay_out("b", payout_amount=100) for _ in range(3)]
    async with _working(payer, "a"):
        await _until_accepted(payer.services, others)
        assert await _count(payer.services, hanging, "accepted_at IS NOT NULL") == 0
        assert 0 < await _count(payer.services, hanging, "began_at IS NOT NULL") < AT_ONCE


@pytest.mark.parametrize("reason", ["drained", "rejected"])
async def test_payouts_that_move_to_a_hanging_provider_do_not_delay_payouts_of_others(
    routed: RoutedPayouts, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """The provider does not respond when the moving payouts' account is verified."""
    payer = routed.payer
    monkeypatch.setattr(tasks, "CONCURRENCY", AT_ONCE)
    monkeypatch.setattr(slots, "STALLED_SECONDS", 0.0)
    moving = [await routed.pay_out(payout_amount=100) for _ in range(2 * AT_ONCE)]
    others = [await payer.pay_out("c", payout_amount=500) for _ in range(3)]
    await routed.plan("a", REFUSED | {"times": None})
    await routed.plan("b", {"call": "resolve", "fault": "timeout_before", "times": None})
    is_drained = reason == "drained"
    async with contextlib.AsyncExitStack() as stack:
        if is_drained:
            await stack.enter_async_context(drained(payer.services, "providera", "providerc"))
        with limited(host_wait_seconds=0):
            async with _working(payer, "b"):
                await _until_accepted(payer.services, others)
                assert await _count(payer.services, moving, "provider <> 'providera'") == 0
                if is_drained:
                    assert await _count(payer.services, moving, "began_at IS NOT NULL") == 0


@contextlib.asynccontextmanager
async def _working(payer: PayoutMerchant, hanging: str) -> AsyncIterator[None]:
    """Runs a worker's payout jobs. Then ends the calls to the hanging provider."""
    stop = asyncio.Event()
    works: dict[str, Work] = {SEND: worker.job_handlers(payer.services)[SEND]}
    working = asyncio.create_task(Runner(payer.services.db, works).run(stop))
    try:
        yield
    finally:
        stop.set()
        # The provider responds again, because a job may call it after the clock was moved.
        await payer.simulator.control(f"{hanging}/faults", {"next": []})
        clock.end_calls()
        await working


async def _count(services: Services, trx_ids: list[str], state: str) -> int:
    return await services.db.number(
        f"SELECT count(*) FROM payout WHERE trx_id = ANY ($1) AND {state}", trx_ids
    )


async def _until_accepted(services: Services, trx_ids: list[str]) -> None:
    async def are_accepted() -> bool:
        return await _count(services, trx_ids, "accepted_at IS NOT NULL") == len(trx_ids)

    await until(are_accepted)
