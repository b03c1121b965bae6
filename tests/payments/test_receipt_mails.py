"""Customers get one receipt by email in production, if the merchant enables receipts."""

import pytest

from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantUpdate
from tests.mail.outbox_reader import letters_to
from tests.payments.shop import Shop
from tests.people.accounts import new_email


async def _choose(shop: Shop, *, sends: bool) -> None:
    update = MerchantUpdate(sends_receipts=sends)
    db, keyring = shop.services.db, shop.services.keyring
    await merchants.change(db, keyring, shop.merchant.new.id, update)


@pytest.mark.parametrize("sends", [True, False])
async def test_a_customer_gets_a_receipt_only_if_the_merchant_sends_receipts(
    shop: Shop, *, sends: bool
) -> None:
    await _choose(shop, sends=sends)
    customer = new_email()
    started = await shop.start(customer_email=customer)
    charge = await shop.choose(started, "providera-ngn")
    await shop.pay(charge)
    await shop.until(started, "success")
    for _ in range(2):
        await shop.simulator.run_job_now("charge", charge.reference)
    letters = await letters_to(shop.services.db, shop.services.letters, customer)
    assert len(letters) == int(sends)
    if sends:
        assert "₦1,000.00" in letters[0].subject
        assert started.trx_id in letters[0].text


async def test_a_sandbox_payment_causes_no_receipt(sandbox_shop: Shop) -> None:
    await _choose(sandbox_shop, sends=True)
    customer = new_email()
    started = await sandbox_shop.start(customer_email=customer)
    await sandbox_shop.simulator.run_job_now("payment.sandbox", started.trx_id)
    assert await sandbox_shop.status(started) == "success"
    assert await letters_to(sandbox_shop.services.db, sandbox_shop.services.letters, customer) == []
