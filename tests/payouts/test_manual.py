"""Manual payouts: an administrator decides on each payout once, and the merchant is notified."""

import asyncio
import time
from typing import Any

import pytest

from manilla.kit.errors import Refusal
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone
from manilla.payouts import decisions, listing
from manilla.payouts.decisions import NotToDecide, PayoutNotFound
from manilla.payouts.listing import PayoutFilter
from manilla.payouts.payout import Payout, PayoutStatus
from manilla.services import Services
from tests.payments.steps import new_payment
from tests.payouts.payout_merchant import MANUAL, RAILS, PayoutMerchant, method
from tests.support.rows import first_short


async def _reject(payer: PayoutMerchant, trx_id: str, reason: str) -> Payout:
    return await decisions.reject(payer.services.db, payer.services.rails, trx_id, reason)


async def test_a_manual_payout_is_debited_immediately_and_waits(payer: PayoutMerchant) -> None:
    trx_id = await payer.pay_out(MANUAL)
    await payer.simulator.run_jobs()
    assert (await payer.payout(trx_id)).status == "pending"
    assert await payer.balance() == 900_000
    assert await payer.notifications(trx_id) == []
    jobs = await payer.services.db.value("SELECT count(*) FROM job WHERE subject = $1", trx_id)
    assert jobs == 0
    for rail in RAILS:
        assert await payer.transfers(rail) == []


async def test_completing_it_debits_our_bank_account(
    payer: PayoutMerchant, services: Services
) -> None:
    async with method(services, MANUAL, fee_fixed="25.75"):
        trx_id = await payer.pay_out(MANUAL, payout_amount=1000.5)
    done = await decisions.complete(services.db, trx_id, "FT-2026-7")
    assert (done.status, done.bank_reference) == ("completed", "FT-2026-7")
    assert done == await payer.payout(trx_id)
    assert await payer.account("in_flight") == 0
    assert await payer.account("bank") == 100_050
    assert await payer.account("payout_fee") == 2_575
    assert (await payer.verify(trx_id)).json["status"] == "success"
    [notified] = await payer.notifications(trx_id)
    assert abs(notified.pop("timestamp") - time.time()) < 30
    assert notified == {
        "event": "payout",
        "data": {**await _data(payer, trx_id), "session_id": None},
        "message": "Payout Completed",
        "status": "completed",
    }


async def _data(payer: PayoutMerchant, trx_id: str) -> dict[str, Any]:
    return {
        "ref_trx": (await payer.payout(trx_id)).ref_trx,
        "trx_id": trx_id,
        "ipn_url": "https://shop.example/ipn",
        "environment": "production",
        "is_sandbox": False,
        "api_merchant_payout": True,
        "payout_amount": 1000.5,
        "currency_code": "NGN",
        "withdraw_method_id": await payer.method_id(MANUAL),
        "withdraw_method": "Manual bank transfer",
    }


async def test_rejecting_it_returns_the_full_amount_with_a_reason(
    payer: PayoutMerchant, services: Services
) -> None:
    async with method(services, MANUAL, fee_fixed="25.75"):
        trx_id = await payer.pay_out(MANUAL, payout_amount=1000.5)
    rejected = await decisions.reject(services.db, services.rails, trx_id, "The bank is closed.")
    assert rejected.status == "canceled"
    assert await payer.balance() == 1_000_000
    assert await payer.account("in_flight") == await payer.account("payout_fee") == 0
    [notified] = await payer.notifications(trx_id)
    assert type(notified.pop("timestamp")) is int
    failure = {"refunded_amount": 1026.25, "error_code": "payout_failed"}
    assert notified == {
        "event": "payout",
        "data": {**await _data(payer, trx_id), **failure},
        "message": "Payout Canceled",
        "status": "canceled",
        **failure,
    }


async def test_a_bank_reference_is_optional(payer: PayoutMerchant) -> None:
    trx_id = await payer.pay_out(MANUAL)
    assert (await decisions.complete(payer.services.db, trx_id, None)).bank_reference is None


@pytest.mark.parametrize("first", ["complete", "reject"])
@pytest.mark.parametrize("second", ["complete", "reject"])
async def test_it_can_be_decided_only_once(payer: PayoutMerchant, first: str, second: str) -> None:
    db, trx_id = payer.services.db, await payer.pay_out(MANUAL)
    decide = {
        "complete": lambda: decisions.complete(db, trx_id, "FT-1"),
        "reject": lambda: _reject(payer, trx_id, "no"),
    }
    decided = await decide[first]()
    balance = await payer.balance()
    with pytest.raises(NotToDecide, match=f"is {decided.status} already"):
        await decide[second]()
    assert await payer.payout(trx_id) == decided
    assert await payer.balance() == balance
    assert len(await payer.notifications(trx_id)) == 1
    assert await payer.cases() == []


async def test_of_two_administrators_deciding_concurrently_one_gets_an_error(
    payer: PayoutMerchant,
) -> None:
    db = payer.services.db
    for _ in range(5):
        trx_id = await payer.pay_out(MANUAL)
        before = await payer.balance()
        decided = await asyncio.gather(
            *(
                decisions.complete(db, trx_id, "FT-1"),
                _reject(payer, trx_id, "no"),
            ),
            *(
                decisions.complete(db, trx_id, "FT-2"),
                _reject(payer, trx_id, "never"),
            ),
            return_exceptions=True,
        )
        [won] = [each for each in decided if isinstance(each, Payout)]
        errors = [each for each in decided if isinstance(each, NotToDecide)]
        assert len(errors) == 3
        assert {each.text for each in errors} == {f"The payout is {won.status} already."}
        assert await payer.payout(trx_id) == won
        refunded = 100_000 if won.status == "canceled" else 0
        assert await payer.balance() == before + refunded
        assert len(await payer.notifications(trx_id)) == 1


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_payout_sent_to_a_provider_cannot_be_decided_manually(
    payer: PayoutMerchant, rail: str
) -> None:
    db, trx_id = payer.services.db, await payer.pay_out(rail)
    for decision in (
        decisions.complete(db, trx_id, None),
        _reject(payer, trx_id, "no"),
    ):
        with pytest.raises(NotToDecide, match="provider"):
            await decision
    assert (await payer.payout(trx_id)).status == "pending"
    assert await payer.balance() == 900_000


@pytest.mark.parametrize("text", ["", " ", "x" * 201, "a\nb", "\x1b[31m"])
async def test_a_reason_and_a_bank_reference_are_short_and_printable(
    payer: PayoutMerchant, text: str
) -> None:
    db, trx_id = payer.services.db, await payer.pay_out(MANUAL)
    for decision in (
        decisions.complete(db, trx_id, text),
        _reject(payer, trx_id, text),
    ):
        with pytest.raises(Refusal, match="1 to 200 printable characters"):
            await decision
    assert (await payer.payout(trx_id)).status == "pending"


async def test_only_payouts_are_found(payer: PayoutMerchant) -> None:
    db = payer.services.db
    await payer.pay_out(MANUAL)
    payment_id = await new_payment(payer.merchant)
    unknown = trx_ids.new(payer.merchant.new.id)
    for trx_id in (payment_id, unknown, "TXN1", "", "x" * 33):
        for call in (
            decisions.find(db, trx_id),
            decisions.complete(db, trx_id, None),
            _reject(payer, trx_id, "no"),
            decisions.requeue(db, trx_id),
        ):
            with pytest.raises(PayoutNotFound):
                await call


async def test_requeueing_queries_immediately_and_never_sends_twice(payer: PayoutMerchant) -> None:
    await payer.simulator.control(
        "a/faults", {"settle_seconds": 3600, "webhooks": {"mode": "lost"}}
    )
    trx_id = await payer.pay_out()
    await payer.simulator.run_jobs()
    await payer.settle("a", trx_id, "success")
    await payer.simulator.run_jobs()
    assert (await payer.payout(trx_id)).status == "pending"
    requeued = await decisions.requeue(payer.services.db, trx_id)
    assert requeued.trx_id == trx_id
    await payer.simulator.run_jobs()
    assert (await payer.payout(trx_id)).status == "completed"
    assert (await payer.calls()).count("transfer") == 1


async def test_requeueing_restarts_a_failed_job(payer: PayoutMerchant) -> None:
    db, trx_id = payer.services.db, await payer.pay_out()
    await db.execute("UPDATE job SET parked_at = now(), failures = 12 WHERE subject = $1", trx_id)
    await payer.simulator.run_jobs()
    assert await payer.transfers() == []
    await decisions.requeue(db, trx_id)
    await payer.simulator.run_jobs()
    assert [transfer["reference"] for transfer in await payer.transfers()] == [trx_id]


async def test_a_decided_payout_or_one_without_a_job_cannot_be_requeued(
    payer: PayoutMerchant, sandbox_payer: PayoutMerchant
) -> None:
    db = payer.services.db
    done = await payer.pay_out()
    await payer.check_until(done, "completed")
    with pytest.raises(NotToDecide, match="is completed already"):
        await decisions.requeue(db, done)
    for trx_id in (await payer.pay_out(MANUAL), await sandbox_payer.pay_out()):
        with pytest.raises(NotToDecide):
            await decisions.requeue(db, trx_id)


async def test_manual_payouts_are_listed_for_administrators(payer: PayoutMerchant) -> None:
    manual_id, automatic = await payer.pay_out(MANUAL), await payer.pay_out()
    done = await payer.pay_out(MANUAL)
    await decisions.complete(payer.services.db, done, None)

    async def listed(status: PayoutStatus | None, *, manual_only: bool) -> list[str]:
        scope = Everyone(payer.merchant.new.id)
        wanted = PayoutFilter(status=status, manual=manual_only or None)
        found = await listing.payouts(payer.services.db, scope, wanted)
        return [payout.trx_id for payout in found.rows]

    assert await listed(PayoutStatus.PENDING, manual_only=True) == [manual_id]
    assert await listed(None, manual_only=True) == [done, manual_id]
    assert await listed(None, manual_only=False) == [done, automatic, manual_id]
