"""What a wallet cannot cover is a debt, which later credits pay first."""

import asyncio
from decimal import Decimal

import pytest

from manilla.disputes.dispute import DisputeStatus
from manilla.kit.money import Money
from manilla.merchants import merchants, wallets
from manilla.merchants.merchants import CommissionBearer, MerchantStatus, MerchantUpdate
from manilla.platform.settings import PlatformSettings
from manilla.refunds import initiate
from tests.disputes.steps import ACCEPTED, LOST, NEEDS_RESPONSE, WON, Disputes, money, naira


async def test_a_wallet_that_cannot_cover_a_dispute_becomes_empty_and_the_rest_is_owed(
    disputes: Disputes,
) -> None:
    paid = await disputes.pay()
    await disputes.empty_wallet()
    await disputes.shop.fund("300")
    dispute = await disputes.open(paid)
    assert (dispute.withheld, dispute.short) == (naira("1000"), naira("700"))
    assert await disputes.money() == money(owed=700, withheld=1000)


async def test_later_credits_pay_the_debt_first(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.empty_wallet()
    await disputes.open(paid)
    await disputes.shop.fund("400")
    assert await disputes.money() == money(owed=600, withheld=1000)
    await disputes.pay()
    assert await disputes.money() == money(wallet=400, withheld=1000)


async def test_funding_returns_the_balance_after_the_debt_was_paid(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.empty_wallet()
    await disputes.open(paid)
    key = disputes.tenant.merchant_id, disputes.tenant.environment
    funded = await wallets.fund(disputes.db, *key, naira("400"), "a deposit")
    adjusted = await wallets.adjust(disputes.db, *key, naira("700"), "a correction")
    assert (funded.balance, adjusted.balance) == (naira("0"), naira("100"))
    details = await disputes.db.records(
        "SELECT detail::text FROM audit WHERE merchant_id = $1"
        " AND action IN ('wallet.fund', 'wallet.adjust') ORDER BY id DESC LIMIT 1",
        disputes.tenant.merchant_id,
    )
    assert "100.00" in details[0]["detail"]


async def test_a_closed_merchants_debt_and_dispute_stay_until_the_provider_decides(
    disputes: Disputes,
) -> None:
    paid = await disputes.pay()
    await disputes.empty_wallet()
    dispute = await disputes.open(paid)
    await merchants.change(
        *(disputes.db, disputes.shop.services.keyring, disputes.tenant.merchant_id),
        MerchantUpdate(status=MerchantStatus.DISABLED, status_reason="closed"),
    )
    await disputes.service.set_evidence(disputes.tenant, dispute.trx_id, "It was delivered.")
    answered = await disputes.service.submit(disputes.tenant, dispute.trx_id)
    assert answered.status is DisputeStatus.SUBMITTED
    assert await disputes.money() == money(owed=1000, withheld=1000)
    await disputes.report(paid.reported(WON))
    assert await disputes.money() == money()


async def test_a_won_dispute_pays_the_debt_that_it_made(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.empty_wallet()
    await disputes.open(paid)
    after = disputes.one(await disputes.report(paid.reported(WON)))
    assert after.short == naira("0")
    assert await disputes.money() == money()


async def test_a_dispute_owes_at_most_what_was_taken(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.empty_wallet()
    dispute = await disputes.open(paid)
    await disputes.service.accept(disputes.tenant, dispute.trx_id, Decimal(400))
    after = disputes.one(await disputes.report(paid.reported(ACCEPTED)))
    assert (after.taken, after.short) == (naira("400"), naira("400"))
    assert await disputes.money() == money(owed=400, taken=400)


async def test_ten_disputes_and_one_credit_never_pay_out_what_is_owed(disputes: Disputes) -> None:
    paid = [await disputes.pay(100) for _ in range(10)]
    await disputes.empty_wallet()
    reports = [disputes.report(each.reported(NEEDS_RESPONSE, "100")) for each in paid]
    await asyncio.gather(*reports, disputes.shop.fund("250"))
    assert await disputes.money() == money(owed=750, withheld=1000)
    ends = [
        disputes.report(each.reported(WON if place % 2 else LOST, "100"))
        for place, each in enumerate(paid)
    ]
    await asyncio.gather(*ends)
    assert await disputes.money() == money(owed=250, taken=500)


async def test_a_dispute_and_a_debit_of_the_whole_balance_at_once_leave_no_money(
    disputes: Disputes,
) -> None:
    """A settlement in the same second either comes first, or finds an empty wallet."""
    paid = await disputes.pay()
    tenant = disputes.tenant
    await asyncio.gather(
        disputes.report(paid.reported(NEEDS_RESPONSE)),
        wallets.adjust(
            *(disputes.db, tenant.merchant_id, tenant.environment),
            *(Money("NGN", -1000_00), "a settlement"),
        ),
        return_exceptions=True,
    )
    found = await disputes.money()
    assert (found["wallet"], found["withheld"]) == (0, 1000)
    assert found["owed"] in (0, 1000)


async def test_many_credits_at_once_pay_a_debt_once(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.empty_wallet()
    await disputes.open(paid)
    await asyncio.gather(*(disputes.shop.fund("150") for _ in range(10)))
    assert await disputes.money() == money(wallet=500, withheld=1000)


async def test_a_failed_refund_pays_the_debt(disputes: Disputes) -> None:
    await disputes.shop.simulator.control("a/faults", {"refunds": "failed"})
    refunded, disputed = await disputes.pay(500), await disputes.pay()
    refund = await initiate.start(disputes.db, refunded.started.trx_id, None, "returned goods")
    await disputes.empty_wallet()
    await disputes.open(disputed)
    for _ in range(2):
        await disputes.shop.simulator.run_job_now("refund", refund.trx_id)
    assert await disputes.money() == money(owed=500, withheld=1000)


async def test_the_merchant_bears_the_providers_fee(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.open(paid)
    after = disputes.one(await disputes.report(paid.reported(LOST, fee=naira("50"))))
    assert after.fee == naira("50")
    assert await disputes.money() == money(owed=50, taken=1050)


@pytest.mark.parametrize("fee", [Money("NGN", -100), Money("USD", 100)])
async def test_an_unclear_fee_is_not_posted(disputes: Disputes, fee: Money) -> None:
    paid = await disputes.pay()
    after = disputes.one(await disputes.report(paid.reported(LOST, fee=fee)))
    assert after.fee_minor == 0


@pytest.mark.parametrize("bearer", [CommissionBearer.CUSTOMER, CommissionBearer.MERCHANT])
@pytest.mark.parametrize(("rule", "returned"), [("kept", 0), ("returned", 20_00)])
async def test_the_commission_is_kept_or_returned(
    disputes: Disputes, bearer: CommissionBearer, rule: str, returned: int
) -> None:
    await disputes.shop.fund("20")
    await disputes.shop.set_commission("2", bearer)
    disputes.settings = PlatformSettings(dispute_commission=rule)
    paid = await disputes.pay()
    amount = "1020" if bearer is CommissionBearer.CUSTOMER else "1000"
    await disputes.open(paid, amount)
    after = disputes.one(await disputes.report(paid.reported(LOST, amount)))
    assert after.commission_minor == returned
    assert await disputes.shop.account("commission") == 20_00 - returned
    await disputes.report(paid.reported(WON, amount))
    assert await disputes.shop.account("commission") == 20_00


async def test_a_rule_for_the_commission_holds_for_payments_since_its_day(
    disputes: Disputes,
) -> None:
    await disputes.shop.fund("20")
    await disputes.shop.set_commission("2", CommissionBearer.MERCHANT)
    disputes.settings = PlatformSettings(dispute_commission="kept,returned@2099-01-01")
    paid = await disputes.pay()
    after = disputes.one(await disputes.report(paid.reported(LOST)))
    assert after.commission_minor == 0


async def test_a_partly_accepted_dispute_takes_only_what_was_accepted(
    disputes: Disputes,
) -> None:
    paid = await disputes.pay()
    dispute = await disputes.open(paid)
    await disputes.db.execute(
        "UPDATE dispute SET accepted_minor = 40000 WHERE merchant_id = $1 AND trx_id = $2",
        *(dispute.merchant_id, dispute.trx_id),
    )
    await disputes.report(paid.reported(ACCEPTED))
    assert await disputes.money() == money(wallet=600, taken=400)


async def test_a_disabled_merchants_dispute_withholds_and_ends(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await merchants.change(
        *(disputes.db, disputes.shop.services.keyring, disputes.tenant.merchant_id),
        MerchantUpdate(status=MerchantStatus.DISABLED, status_reason="closed"),
    )
    dispute = await disputes.open(paid)
    after = disputes.one(await disputes.report(paid.reported(LOST)))
    assert (dispute.withheld, after.status) == (naira("1000"), DisputeStatus.LOST)
    assert await disputes.money() == money(taken=1000)
