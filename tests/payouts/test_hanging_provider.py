"""A provider that does not respond delays no payout of another provider."""

import asyncio

import pytest

from manilla import worker
from manilla.kit.jobs import Work
from manilla.kit.jobs.runner import Runner
from manilla.payouts import tasks
from manilla.payouts.initiate import SEND
from manilla.providers import slots
from tests import clock
from tests.payouts.payout_merchant import PayoutMerchant
from tests.waiting import until

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
    services, stop = payer.services, asyncio.Event()
    works: dict[str, Work] = {SEND: worker.works(services)[SEND]}
    working = asyncio.create_task(Runner(services.db, works).run(stop))

    async def count(trx_ids: list[str], state: str) -> int:
        return await services.db.number(
            f"SELECT count(*) FROM payout WHERE trx_id = ANY ($1) AND {state}", trx_ids
        )

    async def are_accepted() -> bool:
        return await count(others, "accepted_at IS NOT NULL") == len(others)

    try:
        await until(are_accepted)
        assert await count(hanging, "accepted_at IS NOT NULL") == 0
        assert 0 < await count(hanging, "began_at IS NOT NULL") < AT_ONCE
    finally:
        stop.set()
        clock.end_calls()
        await working
