"""Charges and refunds that the provider does not settle for days are never dropped."""

import pytest

from manilla.cases import cases
from manilla.cases.cases import CaseAction
from manilla.kit.database.connections import Database
from manilla.payments.payment import Charge
from manilla.refunds import decisions, initiate
from manilla.refunds.refund import Refund
from manilla.resolutions import resolutions
from tests.payments.shop import PROVIDERS, Shop
from tests.support.provider_simulator import ProviderSimulator
from tests.support.rows import first_short

METHODS = ["providera-ngn", "providerb-ngn", "providerc-ngn"]


@pytest.fixture(autouse=True)
async def _no_webhooks(simulator: ProviderSimulator, db: Database) -> None:
    await db.execute("UPDATE job SET due_at = 'infinity'")
    for provider in "abc":
        await simulator.control(f"{provider}/faults", {"webhooks": {"mode": "lost"}})


async def _make_old(
    shop: Shop, table: str, key: str, reference: str, *, column: str = "created_at"
) -> None:
    await shop.services.db.execute(
        f"UPDATE {table} SET {column} = {column} - interval '4 days' WHERE {key} = $1",
        reference,
    )


async def _old_charge(shop: Shop, method: str) -> Charge:
    charge = await shop.choose(await shop.start(), method)
    await _make_old(shop, "charge", "reference", charge.reference)
    return charge


async def _next_query_in_hours(shop: Shop, kind: str, reference: str) -> int | None:
    hours: int | None = await shop.services.db.value(
        """
        SELECT round(extract(epoch FROM due_at - now()) / 3600)::int FROM job
         WHERE (merchant_id, kind, subject) = ($1, $2, $3)""",
        *(shop.merchant.new.id, kind, reference),
    )
    return hours


async def _case_id(shop: Shop) -> int:
    case_id: int = await shop.services.db.value(
        "SELECT id FROM operator_case WHERE merchant_id = $1", shop.merchant.new.id
    )
    return case_id


@pytest.mark.parametrize("method", first_short(METHODS))
async def test_a_charge_open_after_three_days_opens_a_case_and_is_queried_less_often(
    shop: Shop, method: str
) -> None:
    charge = await _old_charge(shop, method)
    for _ in range(2):
        await shop.simulator.run_job_now("charge", charge.reference)
        assert await shop.cases() == [("still_open", charge.reference)]
        assert await _next_query_in_hours(shop, "charge", charge.reference) == 12


async def test_the_case_closes_automatically_when_the_charge_is_paid(shop: Shop) -> None:
    charge = await _old_charge(shop, "providera-ngn")
    await shop.simulator.run_job_now("charge", charge.reference)
    await shop.pay(charge)
    await shop.simulator.run_job_now("charge", charge.reference)
    assert (await shop.charge(charge)).status == "paid"
    case = await cases.find(shop.services.db, await _case_id(shop))
    assert (case.status, case.resolution) == (
        "resolved",
        "The provider has decided. The charge is paid.",
    )
    assert await _next_query_in_hours(shop, "charge", charge.reference) is None


async def test_resolving_the_case_ends_the_status_queries(shop: Shop) -> None:
    charge = await _old_charge(shop, "providera-ngn")
    await shop.simulator.run_job_now("charge", charge.reference)
    await resolutions.resolve(
        shop.services.db, await _case_id(shop), "The customer left.", CaseAction.NOTHING
    )
    await shop.simulator.run_job_now("charge", charge.reference)
    assert await _next_query_in_hours(shop, "charge", charge.reference) is None
    case = await cases.find(shop.services.db, await _case_id(shop))
    assert case.status == "resolved"


async def test_a_charge_unknown_to_the_provider_after_three_days_expires(
    shop: Shop,
) -> None:
    charge = await _old_charge(shop, "providera-ngn")
    await shop.simulator.control("reset", {})
    await shop.simulator.run_job_now("charge", charge.reference)
    assert (await shop.charge(charge)).status == "expired"
    assert await shop.cases() == []
    assert await _next_query_in_hours(shop, "charge", charge.reference) is None


async def test_a_provider_that_cannot_be_queried_for_three_days_opens_a_case(
    shop: Shop,
) -> None:
    charge = await _old_charge(shop, "providera-ngn")
    unwell = {"call": "charge_status", "fault": "5xx_before", "times": None}
    await shop.simulator.control("a/faults", {"next": [unwell]})
    await shop.simulator.run_job_now("charge", charge.reference)
    assert await shop.cases() == [("no_answer", charge.reference)]
    assert await _next_query_in_hours(shop, "charge", charge.reference) == 12


async def _open_refund(shop: Shop) -> Refund:
    started = await shop.start()
    charge = await shop.choose(started, "providera-ngn")
    await shop.pay(charge)
    await shop.simulator.run_job_now("charge", charge.reference)
    await shop.simulator.control(f"{PROVIDERS[charge.method_code]}/faults", {"refunds": "pending"})
    refund = await initiate.start(shop.services.db, started.trx_id, None, "Returned goods")
    await shop.simulator.run_jobs()
    await _make_old(shop, "refund", "trx_id", refund.trx_id, column="first_sent_at")
    return refund


async def test_a_refund_open_after_three_days_opens_a_case_and_is_queried_less_often(
    shop: Shop,
) -> None:
    refund = await _open_refund(shop)
    for _ in range(2):
        await shop.simulator.run_job_now("refund", refund.trx_id)
        assert await shop.cases() == [("still_open", refund.trx_id)]
        assert await _next_query_in_hours(shop, "refund", refund.trx_id) == 12
    found = await decisions.find(shop.services.db, refund.trx_id)
    assert (found.status, found.by_operator) == ("pending", True)
    assert found.detail == "After three days the provider still reports it as open."
