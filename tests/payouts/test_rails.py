"""Payouts through every rail, from initiate-payout to the beneficiary's bank."""

import pytest

from tests.payouts.payout_merchant import PayoutMerchant
from tests.support.rows import first_short

RAILS = ["a", "b", "c"]


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_payout_is_debited_immediately_and_delivered(
    payer: PayoutMerchant, rail: str
) -> None:
    trx_id = await payer.pay_out(rail)
    assert await payer.balance() == 900_000
    assert await payer.account("in_flight") == 100_000
    assert (await payer.verify(trx_id)).json == {
        "status": "pending",
        "event": "payout",
        "trx_id": trx_id,
        "ref_trx": (await payer.payout(trx_id)).ref_trx,
        "message": "Payout is still pending.",
    }
    await payer.simulator.run_jobs()
    await payer.check_now(trx_id)
    await payer.until(trx_id, "completed")
    assert await payer.balance() == 900_000
    assert await payer.account("in_flight") == 0
    assert (await payer.verify(trx_id)).json["status"] == "success"
    [notified] = await payer.notifications(trx_id)
    assert (notified["event"], notified["status"], notified["message"]) == (
        "payout",
        "completed",
        "Payout Completed",
    )
    assert [transfer["reference"] for transfer in await payer.transfers(rail)] == [trx_id]


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_failed_transfer_is_refunded_once(payer: PayoutMerchant, rail: str) -> None:
    await payer.simulator.control(f"{rail}/faults", {"settle_seconds": 3600})
    trx_id = await payer.pay_out(rail)
    await payer.simulator.run_jobs()
    await payer.simulator.control(f"{rail}/transfers/{trx_id}/settle", {"status": "failed"})
    await payer.check_now(trx_id)
    await payer.until(trx_id, "failed")
    assert await payer.balance() == 1_000_000
    reply = (await payer.verify(trx_id)).json
    assert (reply["status"], reply["error_code"]) == ("failed", "gateway_payout_failed")
    assert reply["message"].startswith("Payout failed or was canceled.")
    [notified] = await payer.notifications(trx_id)
    assert (notified["status"], notified["message"]) == ("failed", "Payout Failed")
    assert (notified["refunded_amount"], notified["error_code"]) == (1000, "gateway_payout_failed")
