"""Shares of a payment whose customer pays another amount than the one that is due."""

from manilla.cases import cases
from manilla.cases.cases import CaseAction
from manilla.disputes import states
from manilla.merchants.merchants import (
    CommissionBearer,
    MerchantUpdate,
    OverpaidRule,
    UnderpaidRule,
)
from manilla.platform.settings import PlatformSettings
from manilla.resolutions import resolutions
from tests.disputes.steps import LOST, Paid
from tests.payments.shop import HOLD, Started
from tests.splits.steps import Splits, percent

TRANSFER = "providera_ngn_va"
ACCEPT = MerchantUpdate(overpaid=OverpaidRule.SETTLE, underpaid=UnderpaidRule.ASK)


async def start(splits: Splits, rules: MerchantUpdate = ACCEPT) -> tuple[Started, int]:
    """Starts a payment of 1000, of which a receiver gets 30 %. The customer pays 15 on top."""
    await splits.shop.change(rules)
    await splits.shop.set_commission("1.5", CommissionBearer.CUSTOMER)
    receiver = await splits.receiver()
    split = {"receivers": [percent(receiver, 30)]}
    return await splits.shop.start(payment_amount=1000, split=split), receiver


async def pay(splits: Splits, started: Started, amount: float, status: str) -> Paid:
    charge = await splits.shop.choose(started, TRANSFER)
    await splits.shop.pay(charge, amount=amount)
    await splits.shop.until_charge(charge, status)
    return Paid(started, charge)


async def money(splits: Splits, receiver: int) -> tuple[float, float]:
    return await splits.balance(), await splits.balance(receiver)


async def test_a_surplus_belongs_to_the_customer_and_changes_no_share(splits: Splits) -> None:
    started, receiver = await start(splits)
    paid = await pay(splits, started, 1250, "paid")
    await splits.shop.until_refunded(started)
    assert await money(splits, receiver) == (700, 300)
    await splits.refund(paid)
    assert await money(splits, receiver) == (0, 0)


async def test_shares_are_credited_when_the_rest_arrives(splits: Splits) -> None:
    started, receiver = await start(splits)
    await pay(splits, started, 700, "part")
    assert await money(splits, receiver) == (0, 0)
    await pay(splits, started, 315, "paid")
    assert await money(splits, receiver) == (700, 300)


async def test_a_part_that_is_returned_gives_nobody_a_share(splits: Splits) -> None:
    started, receiver = await start(splits)
    paid = await pay(splits, started, 700, "part")
    await splits.shop.simulator.run_job_now("payment.expire", started.trx_id)
    await splits.shop.until_refunded(started)
    assert await money(splits, receiver) == (0, 0)
    assert await splits.shares(paid) == []


async def test_a_dispute_of_more_than_the_amount_takes_each_share_once(splits: Splits) -> None:
    started, receiver = await start(splits)
    paid = await pay(splits, started, 1250, "paid")
    await splits.shop.until_refunded(started)
    reported = paid.reported(LOST, "1015")
    found = await states.report(splits.db, PlatformSettings(), "providera", reported)
    assert found.dispute is not None, found.problem
    assert await splits.balance(receiver) == 0
    assert await splits.owed(receiver) == 0


async def test_money_that_an_administrator_credits_is_the_owners_alone(splits: Splits) -> None:
    """The shares are those of the payment's amount. People decide whose other money is."""
    started, receiver = await start(splits, HOLD)
    paid = await pay(splits, started, 1100, "suspense")
    found = await cases.cases(splits.db)
    [case] = [each for each in found if each.reference == paid.charge.reference]
    await resolutions.resolve(splits.db, case.id, "theirs", CaseAction.CREDIT)
    assert await money(splits, receiver) == (1100, 0)
    assert await splits.shares(paid) == []
