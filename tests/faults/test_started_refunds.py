"""Refunds that Flutterwave has started and pays, or fails to pay, later."""

from importlib import resources
from typing import Any

import pytest

from manilla.kit.database.connections import Database
from manilla.refunds import decisions, initiate, store
from manilla.refunds.postings import RefundRefused
from manilla.refunds.refund import Refund, RefundStatus
from tests.payments.shop import Shop

FULL, DEBITED = 1_000_000, 900_000
MIGRATION = resources.files("manilla.sql") / "migrations" / "0093_started_refunds.sql"


@pytest.fixture
async def refund(shop: Shop) -> Refund:
    """A refund that Flutterwave has started."""
    await shop.simulator.control("flutterwave/faults", {"refunds": "pending"})
    started = await shop.start()
    charge = await shop.choose(started, "flutterwave-ngn")
    await shop.pay(charge)
    await shop.simulator.run_job_now("charge", charge.reference)
    refund = await initiate.start(shop.services.db, started.trx_id, None, "Returned goods")
    await shop.simulator.run_jobs()
    return refund


async def settle(shop: Shop, refund: Refund, outcome: dict[str, str]) -> None:
    current = await decisions.find(shop.services.db, refund.trx_id)
    path = f"flutterwave/refunds/{current.provider_reference}/settle"
    await shop.simulator.control(path, outcome)


async def queried(shop: Shop, refund: Refund) -> Refund:
    await shop.simulator.run_job_now("refund", refund.trx_id)
    return await decisions.find(shop.services.db, refund.trx_id)


async def test_a_started_refund_waits_for_the_provider(shop: Shop, refund: Refund) -> None:
    found = await queried(shop, refund)
    assert (found.status, found.by_operator) == (RefundStatus.PENDING, False)
    assert (await shop.balance(), await shop.cases()) == (FULL, [])


@pytest.mark.parametrize(
    ("outcome", "status", "balance"),
    [
        ({"status": "success"}, RefundStatus.COMPLETED, FULL),
        ({"status": "failed"}, RefundStatus.FAILED, FULL + 100_000),
    ],
)
async def test_the_result_of_a_started_refund_is_queried(
    shop: Shop, refund: Refund, outcome: dict[str, str], status: RefundStatus, balance: int
) -> None:
    await settle(shop, refund, outcome)
    assert (await queried(shop, refund)).status is status
    assert (await shop.balance(), await shop.cases()) == (balance, [])


async def test_a_refund_that_an_earlier_version_left_to_an_administrator_is_queried(
    shop: Shop, refund: Refund, db: Database
) -> None:
    await store.leave_to_administrator(db, refund.merchant_id, refund.trx_id, "not known")
    with pytest.raises(RefundRefused, match="pending"):
        await decisions.confirm(db, shop.services.rails, refund.trx_id, "manually")
    mine: tuple[Any, ...] = (refund.merchant_id, refund.trx_id)
    delete = "DELETE FROM job WHERE merchant_id = $1 AND kind = 'refund' AND subject = $2"
    await db.execute(delete, *mine)
    await settle(shop, refund, {"status": "success"})
    for _ in range(2):
        await db.execute(MIGRATION.read_text())
    due = "SELECT count(*) FROM job WHERE merchant_id = $1 AND subject = $2 AND due_at > now()"
    assert await db.number(due, *mine) == 1
    assert (await queried(shop, refund)).status is RefundStatus.COMPLETED
