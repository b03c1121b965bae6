"""Who has which money after a payment, a release, a refund and a dispute."""

import asyncio
from typing import Any

import pytest

from manilla.disputes import states
from manilla.ledger.scope import Tenant
from manilla.ledger.transactions import TransactionNotFound
from manilla.merchants.merchants import CommissionBearer
from manilla.platform.settings import PlatformSettings
from manilla.refunds.postings import RefundNotCovered
from manilla.splits import service
from manilla.splits.share import ShareStatus
from tests.disputes.steps import LOST, NEEDS_RESPONSE, WON, Paid
from tests.splits.steps import Splits, fixed, percent


async def money(splits: Splits, *merchants: int | str | None) -> list[float]:
    return [await splits.balance(each) for each in merchants]


async def report(splits: Splits, paid: Paid, status: Any, amount: str = "1000") -> None:
    reported = paid.reported(status, amount)
    found = await states.report(splits.db, PlatformSettings(), "providera", reported)
    assert found.dispute is not None, found.problem


async def test_receivers_are_credited_together_with_the_owner(splits: Splits) -> None:
    first, second = await splits.receiver(), await splits.sub_account()
    paid = await splits.pay({"receivers": [percent(first, 30), fixed(second, 50)]})
    assert paid.started.info["split"] == {
        "id": None,
        "version": None,
        "shares": [
            {"receiver": "owner", "amount": 650.00},
            {"receiver": str(first), "amount": 300.00},
            {"receiver": second, "amount": 50.00},
        ],
    }
    assert await money(splits, None, first, second) == [650, 300, 50]
    [share, _] = await splits.shares(paid)
    assert await splits.events(first, share.trx_id) == ["released"]


@pytest.mark.parametrize("bearer", [CommissionBearer.CUSTOMER, CommissionBearer.MERCHANT])
@pytest.mark.parametrize("fees", ["owner", "proportional", "receiver"])
async def test_shares_and_commission_are_what_is_paid(
    splits: Splits, bearer: CommissionBearer, fees: str
) -> None:
    await splits.shop.set_commission("1.5", bearer)
    await splits.shop.fund("100")
    first, second = await splits.receiver(), await splits.receiver("Second")
    terms = {
        "receivers": [percent(first, 33.3333), percent(second, 10)],
        "fees": str(second) if fees == "receiver" else fees,
    }
    paid = await splits.pay(terms, 1000.01)
    info = paid.started.info
    shares = {each["receiver"]: each["amount"] for each in info["split"]["shares"]}
    total = round(sum(shares.values()) + info["commission_fee"], 2)
    assert total == round(info["customer_pays"], 2)
    assert await money(splits, first, second) == [shares[str(first)], shares[str(second)]]
    assert await money(splits, None) == [round(100 + shares["owner"], 2)]


async def test_the_rest_and_the_rounding_go_to_the_named_receiver(splits: Splits) -> None:
    first, second = await splits.receiver(), await splits.receiver("Second")
    split = {
        "receivers": [percent(first, 33.3333), {"merchant_id": second}],
        "rest": second,
    }
    await splits.pay(split, 100.01)
    assert await money(splits, None, first, second) == [0, 33.33, 66.68]


async def test_one_naira_among_twenty(splits: Splits) -> None:
    receivers = [await splits.receiver(f"R{each}") for each in range(20)]
    split = {"receivers": [percent(each, 4.9) for each in receivers]}
    paid = await splits.pay(split, 1.00)
    assert await money(splits, None, *receivers) == [0.20, *[0.04] * 20]
    await splits.refund(paid, "0.50")
    await splits.refund(paid, "0.50")
    assert await money(splits, None, *receivers) == [0] * 21


async def test_a_share_that_rounds_to_zero_is_listed_but_not_booked(splits: Splits) -> None:
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 0.1)]}, 1.00)
    assert paid.started.info["split"]["shares"][1] == {"receiver": str(receiver), "amount": 0.00}
    assert await splits.shares(paid) == []
    assert await money(splits, None, receiver) == [1, 0]


async def test_a_receiver_gets_at_least_its_minimum(splits: Splits) -> None:
    receiver = await splits.receiver()
    await splits.pay({"receivers": [percent(receiver, 1, minimum=20)]})
    assert await money(splits, None, receiver) == [980, 20]


# Refunds.


async def test_a_refund_takes_from_each_receiver_in_proportion(splits: Splits) -> None:
    first, second = await splits.receiver(), await splits.receiver("Second")
    paid = await splits.pay({"receivers": [percent(first, 30), percent(second, 20)]})
    await splits.refund(paid, "100")
    assert await money(splits, None, first, second) == [450, 270, 180]
    assert [each.returned_minor for each in await splits.shares(paid)] == [3000, 2000]


async def test_refunds_of_the_rest_add_up_to_the_shares(splits: Splits) -> None:
    first, second = await splits.receiver(), await splits.receiver("Second")
    split = {"receivers": [percent(first, 33.3333), {"merchant_id": second}], "rest": second}
    paid = await splits.pay(split, 100.01)
    for amount in ("33.37", "0.01", "33.33", None):
        await splits.refund(paid, amount)
    assert await money(splits, None, first, second) == [0, 0, 0]
    assert {each.status for each in await splits.shares(paid)} == {ShareStatus.RETURNED}


async def test_the_owner_bears_refunds_if_the_rule_says_so(splits: Splits) -> None:
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)], "refunds": "owner"})
    await splits.refund(paid, "500")
    assert await money(splits, None, receiver) == [200, 300]


async def test_a_receiver_that_cannot_cover_its_part_is_short_and_the_owner_covers_it(
    splits: Splits,
) -> None:
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)]})
    await splits.add(None, 500_00)
    await splits.empty(receiver)
    await splits.add(receiver, 100_00)
    await splits.refund(paid)
    assert await money(splits, None, receiver) == [300, 0]
    assert (await splits.owed(receiver), await splits.withheld()) == (200, 200)
    [share] = await splits.shares(paid)
    assert share.status is ShareStatus.SHORT
    assert await splits.events(receiver, share.trx_id) == ["released", "short"]
    assert await splits.events(None, share.payment_trx_id) == ["short"]


async def test_what_a_short_receiver_pays_later_goes_to_the_owner(splits: Splits) -> None:
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)]})
    await splits.add(None, 500_00)
    await splits.empty(receiver)
    await splits.refund(paid)
    await splits.add(receiver, 120_00)
    [share] = await splits.shares(paid)
    await splits.run(share)
    assert await money(splits, None, receiver) == [320, 0]
    assert (await splits.owed(receiver), await splits.withheld()) == (180, 180)
    await splits.add(receiver, 200_00)
    await splits.run(share)
    assert await money(splits, None, receiver) == [500, 20]
    [share] = await splits.shares(paid)
    assert share.status is ShareStatus.RETURNED


async def test_a_refund_that_nobody_can_cover_moves_no_money(splits: Splits) -> None:
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)]})
    await splits.empty(receiver)
    with pytest.raises(RefundNotCovered):
        await splits.refund(paid)
    assert await money(splits, None, receiver) == [700, 0]
    assert (await splits.owed(receiver), await splits.withheld()) == (0, 0)


@pytest.mark.parametrize("is_short", [False, True])
async def test_a_failed_refund_returns_the_shares(splits: Splits, is_short: bool) -> None:
    await splits.shop.simulator.control("a/faults", {"refunds": "failed"})
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)]})
    if is_short:
        await splits.empty(receiver)
        await splits.add(None, 300_00)
    refund = await splits.refund(paid)
    for _ in range(2):
        await splits.shop.simulator.run_job_now("refund", refund.trx_id)
    assert await money(splits, None, receiver) == ([1000, 0] if is_short else [700, 300])
    assert (await splits.owed(receiver), await splits.withheld()) == (0, 0)
    [share] = await splits.shares(paid)
    assert share.status is ShareStatus.COMPLETED


async def test_refunds_at_the_same_time_take_each_share_once(splits: Splits) -> None:
    first, second = await splits.receiver(), await splits.receiver("Second")
    paid = await splits.pay({"receivers": [percent(first, 30), percent(second, 20)]})
    found = await asyncio.gather(
        *(splits.refund(paid, "300") for _ in range(5)), return_exceptions=True
    )
    assert sum(not isinstance(each, Exception) for each in found) == 3
    assert await money(splits, None, first, second) == [50, 30, 20]


async def test_payments_and_refunds_between_two_merchants_do_not_deadlock(splits: Splits) -> None:
    """Both are owner and receiver, so each statement locks the wallets of both."""
    receiver = await splits.receiver()
    split = {"receivers": [percent(receiver, 50)]}
    paid = [await splits.pay(split, 100) for _ in range(3)]
    await asyncio.gather(
        *(splits.refund(each, "10") for each in paid for _ in range(2)),
        *(splits.pay(split, 100) for _ in range(4)),
    )
    assert await money(splits, None, receiver) == [320, 320]


# Disputes.


async def test_a_dispute_takes_from_each_receiver_and_returns_it_if_it_is_won(
    splits: Splits,
) -> None:
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)]})
    await report(splits, paid, NEEDS_RESPONSE, "500")
    assert await money(splits, None, receiver) == [350, 150]
    await report(splits, paid, WON, "500")
    assert await money(splits, None, receiver) == [700, 300]


async def test_a_lost_dispute_makes_those_short_who_cannot_cover_it(splits: Splits) -> None:
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)]})
    await splits.empty(receiver)
    await splits.empty()
    await report(splits, paid, LOST)
    assert await money(splits, None, receiver) == [0, 0]
    assert (await splits.owed(), await splits.owed(receiver)) == (1000, 300)
    # The owner's debt is what it could not cover. Its claim on the receiver stays withheld.
    [share] = await splits.shares(paid)
    await splits.add(receiver, 300_00)
    await splits.run(share)
    assert (await splits.owed(), await splits.owed(receiver)) == (700, 0)


async def test_a_won_dispute_ends_all_debts(splits: Splits) -> None:
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)]})
    await splits.empty(receiver)
    await splits.empty()
    await report(splits, paid, NEEDS_RESPONSE)
    await report(splits, paid, WON)
    assert await money(splits, None, receiver) == [0, 0]
    assert (await splits.owed(), await splits.owed(receiver)) == (0, 0)
    assert (await splits.withheld(), await splits.withheld(receiver)) == (0, 0)


@pytest.mark.parametrize(("bearer", "left"), [("owner", [0, 300]), ("receiver", [200, 0])])
async def test_the_rule_says_who_bears_disputes(
    splits: Splits, bearer: str, left: list[float]
) -> None:
    receiver = await splits.receiver()
    disputes = str(receiver) if bearer == "receiver" else bearer
    paid = await splits.pay({"receivers": [percent(receiver, 30)], "disputes": disputes})
    await report(splits, paid, LOST, "800" if bearer == "receiver" else "700")
    assert await money(splits, None, receiver) == left


async def test_a_refund_beside_a_dispute_takes_each_share_once(splits: Splits) -> None:
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)]})
    await splits.refund(paid, "400")
    await report(splits, paid, NEEDS_RESPONSE)
    assert await money(splits, None, receiver) == [0, 0]
    await report(splits, paid, WON)
    assert await money(splits, None, receiver) == [420, 180]


# Held shares.


async def test_a_held_share_is_withheld_until_it_is_released(splits: Splits) -> None:
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)], "hold": "release"})
    assert await money(splits, None, receiver) == [700, 0]
    assert await splits.withheld(receiver) == 300
    tenant, trx_id = splits.tenant, paid.started.trx_id
    found = await asyncio.gather(
        *(service.release(splits.db, tenant, trx_id, None) for _ in range(2))
    )
    assert {share.status for [share] in found} == {ShareStatus.COMPLETED}
    assert await money(splits, None, receiver) == [700, 300]
    [share] = await splits.shares(paid)
    assert await splits.events(receiver, share.trx_id) == ["held", "released"]
    assert await splits.events(None, trx_id) == ["released"]


async def test_a_share_is_released_on_its_day(splits: Splits) -> None:
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)], "hold": 7})
    [share] = await splits.shares(paid)
    await splits.run(share)
    assert await money(splits, None, receiver) == [700, 0]
    await splits.pass_days(share, 7)
    await splits.run(share)
    assert await money(splits, None, receiver) == [700, 300]


async def test_only_one_receivers_share_is_released(splits: Splits) -> None:
    first, second = await splits.receiver(), await splits.sub_account()
    terms = {"receivers": [percent(first, 30), percent(second, 10)], "hold": "release"}
    paid = await splits.pay(terms)
    await service.release(splits.db, splits.tenant, paid.started.trx_id, second)
    assert await money(splits, None, first, second) == [600, 0, 100]


async def test_a_refund_takes_held_money_first_and_a_failed_one_holds_it_again(
    splits: Splits,
) -> None:
    await splits.shop.simulator.control("a/faults", {"refunds": "failed"})
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)], "hold": "release"})
    refund = await splits.refund(paid, "500")
    assert (await splits.withheld(receiver), await splits.balance(receiver)) == (150, 0)
    for _ in range(2):
        await splits.shop.simulator.run_job_now("refund", refund.trx_id)
    assert (await splits.withheld(receiver), await splits.balance(receiver)) == (300, 0)
    await service.release(splits.db, splits.tenant, paid.started.trx_id, None)
    assert await money(splits, None, receiver) == [700, 300]


async def test_another_merchant_or_environment_releases_nothing(splits: Splits) -> None:
    receiver = await splits.receiver()
    paid = await splits.pay({"receivers": [percent(receiver, 30)], "hold": "release"})
    reply = await splits.shop.merchant.post(f"/api/v1/payments/{paid.started.trx_id}X/release", {})
    assert reply.status == 404
    other = Tenant(receiver, splits.tenant.environment)
    with pytest.raises(TransactionNotFound):
        await service.release(splits.db, other, paid.started.trx_id, None)
