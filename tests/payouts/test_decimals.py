"""Every response and notification formats a payout's amounts with its currency's decimals."""

import pytest

from tests.payouts.payout_merchant import PayoutMerchant, setting
from tests.support.wire_money import assert_decimals

METHODS = "/api/v1/payout-methods?currency=NGN"


@pytest.mark.parametrize("scenario", ["success", "failed"])
async def test_amounts_have_all_decimals(sandbox_payer: PayoutMerchant, scenario: str) -> None:
    async with setting(sandbox_payer.services, "sandbox_complete_seconds", "0"):
        order = await sandbox_payer.order()
        started = await sandbox_payer.send(order, X_Sandbox_Scenario=scenario)
    expected = {"payout_amount", "fee", "net_amount", "payable_amount"}
    assert assert_decimals(started.body, "NGN") == expected
    trx_id = started.json["trx_id"]
    await sandbox_payer.check_until(trx_id, "completed" if scenario == "success" else "failed")
    assert_decimals((await sandbox_payer.verify(trx_id)).body, "NGN")
    for record in await sandbox_payer.services.db.records(
        "SELECT body FROM notification WHERE merchant_id = $1 AND trx_id = $2",
        *(sandbox_payer.merchant.new.id, trx_id),
    ):
        assert "payout_amount" in assert_decimals(record["body"], "NGN")


async def test_limits_of_methods_have_all_decimals(sandbox_payer: PayoutMerchant) -> None:
    listed = await sandbox_payer.merchant.get(METHODS)
    assert assert_decimals(listed.body, "NGN") == {"min_withdraw", "max_withdraw"}
