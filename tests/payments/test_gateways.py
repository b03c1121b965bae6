"""Every gateway, from the customer's choice to the credit in the merchant's wallet."""

import pytest

from tests.payments.shop import METHODS, PROVIDERS, Shop
from tests.support.rows import first_short


@pytest.mark.parametrize("method", first_short(METHODS))
async def test_a_paid_charge_is_credited_by_its_webhook(shop: Shop, method: str) -> None:
    started = await shop.start(payment_amount=1000)
    charge = await shop.choose(started, method)
    assert charge.reference == f"{started.trx_id}-1"
    is_hosted = "va" not in method
    assert (charge.checkout_url is not None) is is_hosted
    assert (charge.account_number is not None) is not is_hosted
    await shop.pay(charge)
    await shop.until(started, "success")
    assert await shop.status(started) == "success"
    assert await shop.balance() == 100_000
    [notified] = await shop.notifications(started)
    assert (notified["event"], notified["status"], notified["message"]) == (
        "payment",
        "completed",
        "Payment Completed",
    )
    assert await shop.cases() == []


@pytest.mark.parametrize("method", first_short(METHODS))
async def test_a_providers_balance_matches_our_ledger(shop: Shop, method: str) -> None:
    started = await shop.start(payment_amount=1000)
    charge = await shop.choose(started, method)
    await shop.pay(charge)
    await shop.until(started, "success")
    provider = f"provider{PROVIDERS[method]}"
    fee = -await shop.account(f"provider_fee:{provider}")
    assert fee > 0
    assert await shop.account(f"clearing:{provider}") == -100_000 + fee
