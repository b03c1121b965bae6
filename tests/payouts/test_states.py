"""A payout gets its final status from the provider exactly once, and the merchant is notified."""

import time
from typing import Any

import pytest

from manilla.payouts import states
from manilla.services import Services
from manilla.transfers.events import Source, TransferEvent, TransferResult
from tests.payments import webhooks
from tests.payouts.payout_merchant import MANUAL, RAILS, PayoutMerchant, method
from tests.support.client import Reply, Site
from tests.support.rows import first_short

# Only these rails send webhooks about transfers. Provider B's transfers are queried.
TELLING = ["a", "c"]
WORDS = {"success": "SUCCESSFUL", "failed": "FAILED", "reversed": "REVERSED"}
RETURNED = "Transfer was returned by the beneficiary bank"


@pytest.fixture(autouse=True)
async def _settle_on_command(payer: PayoutMerchant) -> None:
    for rail in RAILS:
        await payer.simulator.control(f"{rail}/faults", {"settle_seconds": 3600})


async def sent(payer: PayoutMerchant, rail: str = "a", **changed: Any) -> str:
    trx_id = await payer.pay_out(rail, **changed)
    await payer.simulator.run_jobs()
    assert (await payer.payout(trx_id)).accepted_at is not None
    return trx_id


async def decided(payer: PayoutMerchant, rail: str, status: str) -> str:
    trx_id = await sent(payer, rail)
    await payer.settle(rail, trx_id, status)
    await payer.check_until(trx_id, {"success": "completed"}.get(status, "failed"))
    return trx_id


async def send_webhook(site: Site, rail: str, trx_id: str, status: str, **changed: Any) -> Reply:
    """Sends a signed webhook with this status. The status query may return a different status."""
    data = {"reference": trx_id, "amount": 1000, "fee": 10, "currency": "NGN"}
    if rail == "a":
        document = {"event": f"transfer.{status}", "data": {**data, "status": status}}
    else:
        about = {**data, "id": 1, "status": WORDS[status]}
        document = {"event": "transfer.completed", "data": about}
    return await webhooks.send(site, f"provider{rail}", document, **changed)


async def messages(payer: PayoutMerchant, trx_id: str) -> list[str]:
    return [notified["message"] for notified in await payer.notifications(trx_id)]


async def _ipn(payer: PayoutMerchant, rail: str, trx_id: str, **more: Any) -> dict[str, Any]:
    failure = {key: value for key, value in more.items() if key in _FAILURE}
    return {
        "event": "payout",
        "data": {
            "ref_trx": (await payer.payout(trx_id)).ref_trx,
            "trx_id": trx_id,
            "ipn_url": "https://shop.example/ipn",
            "environment": "production",
            "is_sandbox": False,
            "api_merchant_payout": True,
            "payout_amount": 1000.5,
            "currency_code": "NGN",
            "withdraw_method_id": await payer.method_id(rail),
            "withdraw_method": f"Provider {rail.upper()} bank transfer",
            **(failure or {"session_id": (await payer.payout(trx_id)).session_id}),
        },
        **more,
    }


_FAILURE = ("refunded_amount", "error_code")


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_delivery_notification_has_exactly_the_documented_fields(
    payer: PayoutMerchant, services: Services, rail: str
) -> None:
    async with method(services, rail, fee_fixed="25.75"):
        trx_id = await sent(payer, rail, payout_amount=1000.5)
    assert await payer.notifications(trx_id) == []
    await payer.settle(rail, trx_id, "success")
    await payer.check_until(trx_id, "completed")
    [notified] = await payer.notifications(trx_id)
    assert abs(notified.pop("timestamp") - time.time()) < 30
    assert notified == await _ipn(
        payer, rail, trx_id, message="Payout Completed", status="completed"
    )
    assert await payer.balance() == 1_000_000 - 102_625
    assert await payer.account("in_flight") == 0


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_failure_notification_has_exactly_the_documented_fields(
    payer: PayoutMerchant, services: Services, rail: str
) -> None:
    async with method(services, rail, fee_fixed="25.75"):
        trx_id = await sent(payer, rail, payout_amount=1000.5)
    await payer.settle(rail, trx_id, "failed")
    await payer.check_until(trx_id, "failed")
    [notified] = await payer.notifications(trx_id)
    assert type(notified.pop("timestamp")) is int
    assert notified == await _ipn(
        *(payer, rail, trx_id),
        message="Payout Failed",
        status="failed",
        refunded_amount=1026.25,
        error_code="gateway_payout_failed",
    )
    assert await payer.balance() == 1_000_000
    assert await payer.account("payout_fee") == 0


@pytest.mark.parametrize("rail", first_short(TELLING))
async def test_a_reversed_delivery_is_refunded_once(
    payer: PayoutMerchant, services: Services, rail: str
) -> None:
    async with method(services, rail, fee_fixed="25.75"):
        trx_id = await sent(payer, rail, payout_amount=1000.5)
    await payer.settle(rail, trx_id, "success")
    await payer.until(trx_id, "completed")
    assert await payer.balance() == 1_000_000 - 102_625
    await payer.settle(rail, trx_id, "reversed")
    await payer.until(trx_id, "failed")
    assert await payer.balance() == 1_000_000
    assert await payer.account("in_flight") == 0
    assert await messages(payer, trx_id) == ["Payout Completed", "Payout Reversed"]
    notified = (await payer.notifications(trx_id))[-1]
    del notified["timestamp"]
    assert notified == await _ipn(
        *(payer, rail, trx_id),
        message="Payout Reversed",
        status="failed",
        refunded_amount=1026.25,
        error_code="gateway_payout_failed",
    )
    assert (await payer.verify(trx_id)).json == {
        "status": "failed",
        "event": "payout",
        "trx_id": trx_id,
        "ref_trx": (await payer.payout(trx_id)).ref_trx,
        "message": f"Payout failed or was canceled. {RETURNED}",
        "error_code": "gateway_payout_failed",
    }


@pytest.mark.parametrize("rail", first_short(TELLING))
async def test_a_reversal_reported_many_times_is_one_refund(
    payer: PayoutMerchant, site: Site, rail: str
) -> None:
    trx_id = await decided(payer, rail, "success")
    await payer.simulator.control(
        f"{rail}/faults", {"webhooks": {"mode": "duplicate", "copies": 20}}
    )
    await payer.settle(rail, trx_id, "reversed")
    await payer.until(trx_id, "failed")
    for status in ("reversed", "failed"):
        assert (await send_webhook(site, rail, trx_id, status)).status == 200
        await payer.simulator.run_jobs()
    assert await payer.balance() == 1_000_000
    assert await messages(payer, trx_id) == ["Payout Completed", "Payout Reversed"]
    assert await payer.cases() == []


@pytest.mark.parametrize("fault", ["5xx_before", "garbage_after_accept"])
async def test_a_reversal_is_kept_while_the_provider_cannot_be_queried(
    payer: PayoutMerchant, fault: str
) -> None:
    trx_id = await decided(payer, "a", "success")
    unwell = {"call": "transfer_status", "fault": fault, "times": 2}
    await payer.simulator.control("a/faults", {"next": [unwell]})
    await payer.settle("a", trx_id, "reversed")
    await payer.check_until(trx_id, "failed")
    assert await payer.balance() == 1_000_000
    assert await messages(payer, trx_id) == ["Payout Completed", "Payout Reversed"]


@pytest.mark.parametrize("rail", first_short(TELLING))
async def test_a_delivery_the_provider_later_calls_failed_opens_a_case_without_a_refund(
    payer: PayoutMerchant, site: Site, rail: str
) -> None:
    trx_id = await decided(payer, rail, "success")
    before = await payer.payout(trx_id)
    await payer.settle(rail, trx_id, "failed", insist=True)
    assert (await send_webhook(site, rail, trx_id, "failed")).status == 200
    await _until_reported(payer, trx_id)
    assert await payer.payout(trx_id) == before
    assert await payer.balance() == 900_000
    assert await messages(payer, trx_id) == ["Payout Completed"]
    assert (await payer.verify(trx_id)).json["status"] == "success"


@pytest.mark.parametrize("rail", first_short(TELLING))
async def test_a_failure_the_provider_later_calls_delivered_opens_a_case_without_a_debit(
    payer: PayoutMerchant, site: Site, rail: str
) -> None:
    trx_id = await decided(payer, rail, "failed")
    before = await payer.payout(trx_id)
    await payer.settle(rail, trx_id, "success", insist=True)
    assert (await send_webhook(site, rail, trx_id, "success")).status == 200
    await _until_reported(payer, trx_id)
    assert await payer.payout(trx_id) == before
    assert await payer.balance() == 1_000_000
    assert await messages(payer, trx_id) == ["Payout Failed"]
    assert (await payer.verify(trx_id)).json["status"] == "failed"


async def _until_reported(payer: PayoutMerchant, trx_id: str) -> None:
    async def is_so() -> bool:
        return bool(await payer.cases())

    await payer.simulator.until(is_so)
    await payer.simulator.run_jobs()
    assert await payer.cases() == [("contradiction", trx_id)]


@pytest.mark.parametrize("rail", first_short(TELLING))
@pytest.mark.parametrize(("was", "notified"), [("success", "failed"), ("failed", "success")])
async def test_a_webhook_against_a_final_status_always_opens_a_case(
    payer: PayoutMerchant, site: Site, rail: str, was: str, notified: str
) -> None:
    trx_id = await decided(payer, rail, was)
    before, balance = await payer.payout(trx_id), await payer.balance()
    assert (await send_webhook(site, rail, trx_id, notified)).status == 200
    await payer.check_now(trx_id)
    assert (await payer.payout(trx_id), await payer.balance()) == (before, balance)
    assert [reference for _, reference in await payer.cases()] == [trx_id]


@pytest.mark.parametrize("rail", first_short(TELLING))
@pytest.mark.parametrize("claimed", first_short(["success", "failed", "reversed"]))
async def test_a_webhook_is_applied_only_after_a_status_query(
    payer: PayoutMerchant, site: Site, rail: str, claimed: str
) -> None:
    trx_id = await sent(payer, rail)
    assert (await send_webhook(site, rail, trx_id, claimed)).status == 200
    await payer.simulator.run_jobs()
    assert (await payer.payout(trx_id)).status == "pending"
    await payer.simulator.control(f"{rail}/faults", {"webhooks": {"mode": "lost"}})
    await payer.settle(rail, trx_id, "success")
    await payer.check_until(trx_id, "completed")


@pytest.mark.parametrize("rail", first_short(TELLING))
async def test_a_hundred_copies_of_a_failed_webhook_cause_one_refund(
    payer: PayoutMerchant, rail: str
) -> None:
    trx_id = await sent(payer, rail)
    await payer.simulator.control(
        f"{rail}/faults", {"webhooks": {"mode": "duplicate", "copies": 100}}
    )
    await payer.settle(rail, trx_id, "failed")
    await payer.until(trx_id, "failed")

    async def all_arrived() -> bool:
        [webhook] = (await payer.simulator.read(f"{rail}/webhooks"))["webhooks"]
        return (
            len(webhook["attempts"]) >= 100
        )  # The simulator repeats a webhook that got no response.

    await payer.simulator.until(all_arrived)
    await payer.simulator.run_jobs()
    assert await payer.balance() == 1_000_000
    assert await messages(payer, trx_id) == ["Payout Failed"]
    assert await payer.cases() == []
    assert [step.event for step in await payer.timeline(trx_id)].count("failed") == 1


async def test_a_webhook_about_an_unknown_transfer_opens_a_case(
    payer: PayoutMerchant, site: Site
) -> None:
    trx_id = await payer.pay_out()
    strange = trx_id[:-1] + ("0" if trx_id[-1] != "0" else "1")
    assert (await send_webhook(site, "a", strange, "failed")).status == 200
    await payer.simulator.run_jobs()
    assert await payer.cases() == [("unknown_reference", strange)]
    assert await payer.balance() == 900_000


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_the_providers_fee_is_posted_when_it_is_reported(
    payer: PayoutMerchant, rail: str
) -> None:
    trx_id = await decided(payer, rail, "success")
    fee = {"a": 1_000, "b": 0, "c": 1_075}[rail]
    assert await payer.account(f"clearing:provider{rail}") == 100_000 + fee
    assert await payer.account(f"provider_fee:provider{rail}") == -fee
    assert (await payer.payout(trx_id)).provider_fee_minor == (fee or None)


async def test_the_timeline_shows_the_full_history(payer: PayoutMerchant) -> None:
    trx_id = await decided(payer, "a", "success")
    await payer.settle("a", trx_id, "reversed")
    await payer.until(trx_id, "failed")
    steps = await payer.timeline(trx_id)
    assert steps[0].event == "accepted"
    assert steps[0].at == (await payer.payout(trx_id)).created_at
    assert [(step.event, step.from_status, step.to_status) for step in steps[-2:]] == [
        ("delivered", "pending", "completed"),
        ("reversed", "completed", "failed"),
    ]
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))


async def test_the_timeline_of_a_payout_of_an_earlier_version_is_the_same(
    payer: PayoutMerchant,
) -> None:
    db, merchant_id = payer.services.db, payer.merchant.new.id
    trx_id = await payer.pay_out(MANUAL)
    expected = await payer.timeline(trx_id)
    await db.execute(
        """
        INSERT INTO timeline
               (merchant_id, trx_id, number, at, event, from_status, to_status, detail)
        SELECT $1, $2, 1, $3, 'accepted', 'pending', 'pending', $4""",
        *(merchant_id, trx_id, expected[0].at, expected[0].detail),
    )
    await db.execute(
        "UPDATE payout SET accepted_note = NULL WHERE merchant_id = $1 AND trx_id = $2",
        *(merchant_id, trx_id),
    )
    assert [step.event for step in expected] == ["accepted"]
    assert await payer.timeline(trx_id) == expected


JOBS = "SELECT count(*) FROM job WHERE subject = $1 AND kind = 'transfer'"


async def test_a_decided_payout_has_no_job(payer: PayoutMerchant) -> None:
    trx_id = await decided(payer, "a", "success")
    assert await payer.services.db.value(JOBS, trx_id) == 0
    assert (await payer.verify(trx_id)).json["status"] == "success"


async def test_the_result_deletes_the_waiting_job_in_the_same_transaction(
    payer: PayoutMerchant, services: Services
) -> None:
    trx_id = await sent(payer)
    assert await services.db.value(JOBS, trx_id) == 1
    assert await _settle_as(services, payer, trx_id, "failed")
    assert await services.db.value(JOBS, trx_id) == 0


async def _settle_as(services: Services, payer: PayoutMerchant, trx_id: str, event: str) -> bool:
    said = TransferResult(TransferEvent(event), Source.STATUS_QUERY)
    return await states.apply_result(services.db, payer.merchant.new.id, trx_id, said)


async def test_returned_without_a_known_delivery_is_a_failure(
    payer: PayoutMerchant, services: Services
) -> None:
    trx_id = await sent(payer)
    assert await _settle_as(services, payer, trx_id, "returned")
    assert (await payer.payout(trx_id)).status == "failed"
    assert await messages(payer, trx_id) == ["Payout Failed"]
    assert await payer.balance() == 1_000_000
    assert not await _settle_as(services, payer, trx_id, "delivered")
    assert await payer.cases() == [("contradiction", trx_id)]


async def test_returned_after_a_delivery_is_a_reversal(
    payer: PayoutMerchant, services: Services
) -> None:
    trx_id = await decided(payer, "a", "success")
    assert await _settle_as(services, payer, trx_id, "returned")
    assert not await _settle_as(services, payer, trx_id, "returned")
    assert await messages(payer, trx_id) == ["Payout Completed", "Payout Reversed"]
    assert await payer.balance() == 1_000_000
    assert await payer.cases() == []


async def test_returned_after_a_webhook_about_the_delivery_is_a_reversal(
    payer: PayoutMerchant, services: Services, site: Site
) -> None:
    trx_id = await sent(payer)
    assert (await send_webhook(site, "a", trx_id, "success")).status == 200
    assert await _settle_as(services, payer, trx_id, "returned")
    assert await messages(payer, trx_id) == ["Payout Reversed"]
    assert await payer.balance() == 1_000_000
    assert await payer.cases() == []
