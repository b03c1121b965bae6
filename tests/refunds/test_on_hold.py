"""While a merchant's payouts are blocked, its refunds are rejected, held or decided manually."""

import pytest

from manilla.kit.errors import Refusal
from manilla.merchants import outgoing, wallets
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.merchants.wallets import WalletStatus
from manilla.platform import settings as platform
from manilla.refunds import decisions, initiate, states
from manilla.refunds.postings import RefundBlocked
from manilla.refunds.refund import Refund, RefundStatus
from tests.payments.shop import Shop
from tests.refunds.test_refunds import REFUSED, _now, _paid, _refund, _until
from tests.support.client import Merchant
from tests.support.rows import first_short

DISABLE, ENABLE = (
    MerchantUpdate(status=MerchantStatus.DISABLED),
    MerchantUpdate(status=MerchantStatus.APPROVED),
)
OFF = {
    "The merchant is disabled": (DISABLE, ENABLE),
    "The merchant was rejected": (MerchantUpdate(status=MerchantStatus.REJECTED), ENABLE),
    "Payouts are disabled": (
        MerchantUpdate(payouts_enabled=False),
        MerchantUpdate(payouts_enabled=True),
    ),
}


async def _sent(shop: Shop, rail: str = "a") -> list[str]:
    listed = (await shop.simulator.read(f"{rail}/refunds"))["refunds"]
    return [refund["reference"] for refund in listed]


async def _refund_on_behalf(shop: Shop, trx_id: str) -> Refund:
    return await initiate.start(shop.services.db, trx_id, None, "Complaint", on_behalf=True)


@pytest.mark.parametrize("why", OFF)
async def test_a_merchant_that_may_not_pay_out_may_not_refund(shop: Shop, why: str) -> None:
    off, on = OFF[why]
    started = await _paid(shop)
    await shop.change(off)
    with pytest.raises(RefundBlocked, match=why):
        await _refund(shop, started)
    assert await shop.balance() == 100_000
    assert (await shop.payment(started)).refunded_minor == 0
    await shop.change(on)
    await _until(shop, await _refund(shop, started), RefundStatus.COMPLETED)


async def test_no_merchant_can_refund_while_payouts_are_held(shop: Shop) -> None:
    """The platform's hold allows new refunds, but a disabled merchant cannot create refunds."""
    started = await _paid(shop)
    await outgoing.hold_all(shop.services.db)
    try:
        await shop.change(DISABLE)
        with pytest.raises(RefundBlocked, match="The merchant is disabled"):
            await _refund(shop, started)
    finally:
        await platform.change(shop.services.db, "payouts_held", "false")


async def test_a_disabled_wallet_pays_no_refund(shop: Shop) -> None:
    started = await _paid(shop)
    wallet = shop.services.db, shop.merchant.new.id, shop.merchant.environment, "NGN"
    await wallets.set_status(*wallet, WalletStatus.INACTIVE)
    with pytest.raises(RefundBlocked, match="not active"):
        await _refund(shop, started)
    assert await shop.balance() == 100_000
    refund = await _refund_on_behalf(shop, started.trx_id)
    await _until(shop, refund, RefundStatus.COMPLETED)


@pytest.mark.parametrize("method", first_short(["providera-ngn", "providerc-ngn"]))
@pytest.mark.parametrize("why", OFF)
async def test_an_unsent_refund_waits_for_its_merchant_and_is_then_sent_once(
    shop: Shop, why: str, method: str
) -> None:
    off, on = OFF[why]
    rail = method[len("provider")]
    refund = await _refund(shop, await _paid(shop, method))
    await shop.change(off)
    await shop.simulator.run_job_now("refund", refund.trx_id)
    assert await _sent(shop, rail) == []
    assert (await _now(shop, refund)).sent_at is None
    await shop.change(on)
    await _until(shop, refund, RefundStatus.COMPLETED)
    assert await _sent(shop, rail) == [refund.trx_id]


async def test_a_refund_the_provider_lost_is_not_resent_for_a_disabled_merchant(
    shop: Shop,
) -> None:
    started = await _paid(shop)
    await shop.simulator.control("a/faults", {"next": [{"call": "refund", "fault": "5xx_before"}]})
    refund = await _refund(shop, started)
    await shop.simulator.run_jobs()
    await shop.change(DISABLE)
    await shop.simulator.run_job_now("refund", refund.trx_id)
    assert await _sent(shop) == []
    await shop.change(ENABLE)
    await _until(shop, refund, RefundStatus.COMPLETED)
    assert await _sent(shop) == [refund.trx_id]


async def test_an_administrator_refunds_on_a_disabled_merchants_behalf(shop: Shop) -> None:
    started = await _paid(shop)
    await shop.change(DISABLE)
    refund = await _refund_on_behalf(shop, started.trx_id)
    await _until(shop, refund, RefundStatus.COMPLETED)
    assert await _sent(shop) == [refund.trx_id]
    assert await shop.balance() == 0


async def test_an_administrator_rejects_a_waiting_refund(shop: Shop) -> None:
    db = shop.services.db
    refund = await _refund(shop, await _paid(shop))
    await shop.change(DISABLE)
    await shop.simulator.run_job_now("refund", refund.trx_id)
    with pytest.raises(Refusal, match="The provider decides its outcome"):
        await decisions.confirm(db, shop.services.rails, refund.trx_id, "no")
    decided = await decisions.reject(db, shop.services.rails, refund.trx_id, "Closed")
    assert decided.status is RefundStatus.FAILED
    assert await shop.balance() == 100_000
    await shop.change(ENABLE)
    await shop.simulator.run_jobs()
    assert await _sent(shop) == []


async def test_an_administrator_cannot_reject_a_sent_refund(shop: Shop) -> None:
    await shop.simulator.control("a/faults", {"refunds": "pending"})
    refund = await _refund(shop, await _paid(shop))
    await shop.simulator.run_jobs()
    await shop.change(DISABLE)
    with pytest.raises(Refusal, match="The provider decides its outcome"):
        await decisions.reject(shop.services.db, shop.services.rails, refund.trx_id, "no")
    assert not await states.apply_result(shop.services.db, refund, REFUSED, only_unsent=True)
    assert await shop.balance() == 0


async def test_time_on_hold_does_not_count_against_the_provider(shop: Shop) -> None:
    """After days on hold, a refund opens no case before the provider's full response time ends."""
    await shop.simulator.control("a/faults", {"refunds": "pending"})
    refund = await _refund(shop, await _paid(shop))
    await shop.services.db.execute(
        "UPDATE refund SET created_at = created_at - interval '9 days' WHERE trx_id = $1",
        refund.trx_id,
    )
    for _ in range(2):
        await shop.simulator.run_job_now("refund", refund.trx_id)
    assert not (await _now(shop, refund)).by_operator


async def test_a_sandbox_refund_waits_too(shop: Shop, sandbox: Merchant) -> None:
    test_shop = Shop(shop.services, shop.simulator, sandbox)
    started = await test_shop.start()
    await shop.simulator.run_job_now("payment.sandbox", started.trx_id)
    refund = await _refund(test_shop, started)
    await test_shop.change(DISABLE)
    await shop.simulator.run_job_now("refund", refund.trx_id)
    assert (await _now(test_shop, refund)).status is RefundStatus.PENDING
    await test_shop.change(ENABLE)
    await _until(test_shop, refund, RefundStatus.COMPLETED)
