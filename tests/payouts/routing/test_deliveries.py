"""Payout results are counted per rail and bank, and affect the choice of a rail."""

from datetime import timedelta
from typing import Any

import pytest

from manilla.kit.errors import Unavailable
from manilla.routing import deliveries, funds
from manilla.routing.deliveries import Deliveries
from manilla.routing.outcomes import Outcomes
from manilla.services import Services
from tests.payouts.payout_merchant import PayoutMerchant
from tests.payouts.routing.routed import BAD_ACCOUNT, GTBANK, REFUSED, RoutedPayouts
from tests.support.provider_simulator import forget_outcomes

FIRST, SECOND = "providera", "providerb"
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
async def uncounted(services: Services) -> None:
    await forget_outcomes(services)


async def counted(services: Services, provider: str, bank: str = GTBANK) -> Outcomes:
    await services.deliveries.flush()
    found = await deliveries.outcomes_since(services.db, DAY)
    return found.get((provider, bank), Outcomes())


async def fail(services: Services, provider: str, times: int = 3) -> None:
    """Adds failed payouts to the counts of the current minute, as another process would."""
    outcomes = Outcomes(failed=times)
    await deliveries._add(services.db, (provider, GTBANK), outcomes)
    services.deliveries._read_again_at = 0.0


async def test_a_delivery_is_counted_with_its_duration(routed: RoutedPayouts) -> None:
    trx_id = await routed.pay_out()
    await routed.simulator.run_jobs()
    await routed.payer.settle("a", trx_id, "success")
    await routed.payer.check_until(trx_id, "completed")
    await routed.payer.check_now(trx_id)  # counts nothing a second time
    outcomes = await counted(routed.services, FIRST)
    assert (outcomes.delivered, outcomes.failed, sum(outcomes.durations)) == (1, 0, 1)


async def test_a_payout_by_a_fixed_method_counts_for_the_bank_in_the_registry(
    routed: RoutedPayouts,
) -> None:
    await routed.pay_out()  # caches the rails' bank lists
    payer = routed.payer
    trx_id = await payer.pay_out("c")
    await routed.simulator.run_jobs()
    await payer.settle("c", trx_id, "failed")
    await payer.check_until(trx_id, "failed")
    outcomes = await counted(routed.services, "providerc")
    assert (outcomes.delivered, outcomes.failed) == (0, 1)
    assert outcomes.last_error
    assert outcomes.last_error_at is not None


async def test_a_rejection_counts_for_the_rail_that_was_left(routed: RoutedPayouts) -> None:
    await routed.pay_out()
    await routed.plan("a", REFUSED)
    await routed.simulator.run_jobs()
    outcomes = await counted(routed.services, FIRST)
    assert (outcomes.failed, "Not enabled" in (outcomes.last_error or "")) == (1, True)
    assert await counted(routed.services, SECOND) == Outcomes()


async def test_an_error_of_the_beneficiary_is_no_failure_of_the_rail(
    routed: RoutedPayouts,
) -> None:
    trx_id = await routed.pay_out()
    await routed.plan("a", BAD_ACCOUNT)
    await routed.simulator.run_jobs()
    assert (await routed.payer.payout(trx_id)).error_code == "invalid_beneficiary"
    assert (await counted(routed.services, FIRST)).failed == 0


async def test_the_sandbox_is_not_counted(sandbox_payer: PayoutMerchant) -> None:
    trx_id = await sandbox_payer.pay_out("a")
    await sandbox_payer.simulator.run_job_now("payout.sandbox", trx_id)
    assert (await sandbox_payer.payout(trx_id)).status == "completed"
    assert sandbox_payer.services.deliveries._counted == {}


async def test_counts_of_two_processes_are_added(services: Services) -> None:
    for delivered in (1, 2):
        process = Deliveries(services.db, services.registry)
        outcomes = process._counted[FIRST, GTBANK] = Outcomes()
        for _ in range(delivered):
            outcomes.add_delivery(4)
        await process.flush()
        await process.flush()  # writes nothing a second time
    found = await counted(services, FIRST)
    assert (found.delivered, sum(found.durations)) == (3, 3)


async def test_counts_are_kept_while_the_database_is_away(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Deliveries(services.db, services.registry)
    process._counted = {(each, GTBANK): Outcomes(failed=1) for each in (FIRST, SECOND)}
    real = deliveries._add

    async def away(*_: Any) -> None:
        # Counted during the flush.
        process._counted.setdefault((FIRST, GTBANK), Outcomes()).failed += 1
        raise Unavailable

    monkeypatch.setattr(deliveries, "_add", away)
    with pytest.raises(Unavailable):
        await process.flush()
    monkeypatch.setattr(deliveries, "_add", real)
    await process.flush()
    assert (await counted(services, FIRST)).failed == 2
    assert (await counted(services, SECOND)).failed == 1


async def test_a_rail_that_fails_for_the_bank_comes_last(routed: RoutedPayouts) -> None:
    await fail(routed.services, FIRST)
    trx_id = await routed.pay_out()
    assert await routed.provider(trx_id) == SECOND
    [failing] = await routed.services.deliveries.failing()
    assert failing == (FIRST, GTBANK)
    other = await routed.pay_out(who={"bank_code": "044"})
    assert await routed.provider(other) == FIRST


async def test_if_every_rail_fails_the_order_decides(routed: RoutedPayouts) -> None:
    for provider in (FIRST, SECOND, "providerc"):
        await fail(routed.services, provider)
    trx_id = await routed.pay_out()
    assert await routed.provider(trx_id) == FIRST


async def test_what_is_read_is_cached_for_some_seconds(services: Services) -> None:
    assert await services.deliveries.failing() == {}
    await deliveries._add(services.db, (FIRST, GTBANK), Outcomes(failed=3))
    assert await services.deliveries.failing() == {}
    services.deliveries._read_again_at = 0.0
    assert list(await services.deliveries.failing()) == [(FIRST, GTBANK)]


async def test_old_counts_are_deleted(services: Services) -> None:
    for days in (6, 8):
        await services.db.execute(
            "INSERT INTO rail_bank_minute VALUES"
            " ($1, '058', now() - make_interval(days => $2), 1, 0, '{1}')",
            *(FIRST, days),
        )
    await deliveries.delete_old(services.db)
    assert await services.db.number("SELECT count(*) FROM rail_bank_minute") == 1


@pytest.mark.parametrize("later", [1500, 500])
async def test_a_fee_that_changes_while_it_is_saved_is_saved_again(
    services: Services, monkeypatch: pytest.MonkeyPatch, later: int
) -> None:
    save, figures = funds.set_transfer_fee, services.deliveries

    async def save_slowly(*given: Any) -> None:
        await save(*given)
        if given[-1] == 1000:
            figures.record_fee("elsewhere", "NGN", later)

    monkeypatch.setattr(funds, "set_transfer_fee", save_slowly)
    figures.record_fee("elsewhere", "NGN", 1000)
    for _ in range(2):
        await figures.flush()
    assert await funds.transfer_fee_minor(services.db, "elsewhere", "NGN") == later
    assert figures._fees == {}
