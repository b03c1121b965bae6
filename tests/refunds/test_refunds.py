"""Refunds never exceed the paid amount, are never paid twice, and always get a final outcome."""

import asyncio
from typing import Any

import pytest

from manilla.kit.errors import Refusal
from manilla.kit.jobs import claims
from manilla.kit.money import MoneyError
from manilla.merchants.merchants import CommissionBearer
from manilla.refunds import decisions, initiate, states
from manilla.refunds.postings import RefundNotCovered
from manilla.refunds.refund import SEND, Refund, RefundStatus
from manilla.transfers import sending
from manilla.transfers.events import Source, TransferEvent, TransferResult
from manilla.transfers.sending import REFUNDS, Mark
from tests.payments import webhooks
from tests.payments.shop import Shop, Started
from tests.support.client import Merchant
from tests.support.rows import first_short

REFUSED = TransferResult(TransferEvent.FAILED, Source.PROVIDER, guidance="refused")


async def _paid(shop: Shop, method: str = "providera-ngn", amount: float = 1000) -> Started:
    started = await shop.start(payment_amount=amount)
    charge = await shop.choose(started, method)
    await shop.pay(charge)
    await shop.until(started, "success")
    return started


async def _refund(shop: Shop, started: Started, amount: str | None = None) -> Refund:
    return await initiate.start(shop.services.db, started.trx_id, amount, "Returned goods")


async def _now(shop: Shop, refund: Refund) -> Refund:
    return await decisions.find(shop.services.db, refund.trx_id)


async def _confirm(shop: Shop, refund: Refund, note: str) -> Refund:
    return await decisions.confirm(shop.services.db, shop.services.rails, refund.trx_id, note)


async def _reject(shop: Shop, refund: Refund, reason: str) -> Refund:
    return await decisions.reject(shop.services.db, shop.services.rails, refund.trx_id, reason)


async def _until(shop: Shop, refund: Refund, status: RefundStatus) -> None:
    async def is_so() -> bool:
        return (await _now(shop, refund)).status is status

    await shop.simulator.until(is_so)


@pytest.mark.parametrize(
    "method", first_short(["providera-ngn", "providera_ngn_va", "providerc-ngn"])
)
async def test_a_full_refund_is_sent_through_the_provider(shop: Shop, method: str) -> None:
    started = await _paid(shop, method)
    refund = await _refund(shop, started)
    assert await shop.balance() == 0
    assert await shop.account("in_flight") == 100_000
    await _until(shop, refund, RefundStatus.COMPLETED)
    assert await shop.account("in_flight") == 0
    notified = (await shop.notifications(started))[-1]
    assert (notified["event"], notified["status"], notified["message"]) == (
        "refund",
        "completed",
        "Payment Refunded",
    )
    assert notified["data"]["refund_amount"] == 1000
    assert notified["data"]["refund_trx_id"] == refund.trx_id
    assert notified["data"]["refund_ref_trx"] is None  # it was not created through the API
    assert notified["data"]["trx_id"] == started.trx_id
    assert await shop.status(started) == "success"


async def test_a_completed_refund_does_not_change_its_payment_again(shop: Shop) -> None:
    """Merchants see `updated_at`. The refund has changed the payment when it was started."""
    refund = await _refund(shop, started := await _paid(shop))
    payment = await shop.payment(started)
    await _until(shop, refund, RefundStatus.COMPLETED)
    assert await shop.payment(started) == payment


async def test_partial_refunds_add_up_to_at_most_the_whole(shop: Shop) -> None:
    started = await _paid(shop)
    for part in ("400", "599.99", None):
        await _until(shop, await _refund(shop, started, part), RefundStatus.COMPLETED)
    assert await shop.balance() == 0
    with pytest.raises(Refusal, match="already been refunded"):
        await _refund(shop, started, "0.01")


@pytest.mark.parametrize("amount", ["1000.01", "0", "99999999"])
async def test_an_amount_above_what_was_paid_is_rejected(shop: Shop, amount: str) -> None:
    started = await _paid(shop)
    with pytest.raises(Refusal, match=r"At most ₦1,000\.00"):
        await _refund(shop, started, amount)
    assert await shop.balance() == 100_000


async def test_a_negative_amount_is_rejected(shop: Shop) -> None:
    started = await _paid(shop)
    with pytest.raises(MoneyError, match="is not an amount"):
        await _refund(shop, started, "-1")
    assert await shop.balance() == 100_000


async def test_many_concurrent_refunds_never_exceed_the_payment(shop: Shop) -> None:
    started = await _paid(shop)
    tries = await asyncio.gather(
        *(_refund(shop, started, "300") for _ in range(12)), return_exceptions=True
    )
    assert sum(isinstance(each, Refund) for each in tries) == 3
    assert all(isinstance(each, Refund | Refusal) for each in tries)
    assert await shop.balance() == 10_000


async def test_a_refund_beyond_the_wallet_balance_is_rejected(shop: Shop) -> None:
    await shop.set_commission("1.5", CommissionBearer.MERCHANT)
    await shop.fund("15")
    first, second = await _paid(shop), await _paid(shop)
    assert await shop.balance() == 198_500
    await _refund(shop, first)
    with pytest.raises(RefundNotCovered):
        await _refund(shop, second)
    assert await shop.balance() == 98_500
    assert (await shop.payment(second)).refunded_minor == 0
    await _refund(shop, second, "985")
    assert await shop.balance() == 0


@pytest.mark.parametrize("state", ["pending", "failed"])
async def test_only_paid_payments_can_be_refunded(shop: Shop, state: str) -> None:
    started = await shop.start()
    if state == "failed":
        await shop.simulator.run_job_now("payment.expire", started.trx_id)
    with pytest.raises(Refusal, match=f"The payment is {state}"):
        await _refund(shop, started)


async def test_a_refused_refund_is_credited_back_once(shop: Shop) -> None:
    await shop.simulator.control("a/faults", {"refunds": "failed"})
    started = await _paid(shop)
    refund = await _refund(shop, started)
    await _until(shop, refund, RefundStatus.FAILED)
    await shop.simulator.run_job_now("refund", refund.trx_id)
    assert await shop.balance() == 100_000
    assert await shop.account("in_flight") == 0
    assert [notified["event"] for notified in await shop.notifications(started)] == ["payment"]
    again = await _refund(shop, started)
    assert again.amount_minor == 100_000


@pytest.mark.parametrize(
    "fault",
    first_short(
        ["5xx_before", "5xx_after_accept", "reset", "reset_after_accept", "garbage_after_accept"],
        of_each=lambda fault: "after" in fault,
    ),
)
async def test_a_refund_whose_response_is_lost_is_queried_and_paid_once(
    shop: Shop, fault: str
) -> None:
    started = await _paid(shop)
    await shop.simulator.control(
        "a/faults",
        {"next": [{"call": "refund", "fault": fault}], "webhooks": {"mode": "lost"}},
    )
    refund = await _refund(shop, started)
    await shop.simulator.run_jobs()
    assert (await _now(shop, refund)).status is RefundStatus.PENDING
    assert await shop.balance() == 0

    async def is_done() -> bool:
        await shop.simulator.run_job_now("refund", refund.trx_id)
        return (await _now(shop, refund)).status is RefundStatus.COMPLETED

    await shop.simulator.until(is_done)
    assert await shop.balance() == 0
    assert await shop.account("in_flight") == 0


async def test_a_worker_stalled_past_its_lease_neither_sends_nor_returns_a_refund(
    shop: Shop,
) -> None:
    db = shop.services.db
    refund = await _refund(shop, await _paid(shop))
    [stalled] = await claims.claim(db, {SEND: 1})
    await db.execute("UPDATE job SET leased_until = now() WHERE subject = $1", refund.trx_id)
    [taken_over] = await claims.claim(db, {SEND: 1})
    assert await sending.mark(db, REFUNDS, [Mark(stalled, None, "providera")]) == [False]
    assert not await states.apply_result(db, refund, REFUSED, holder=stalled)
    assert await sending.mark(db, REFUNDS, [Mark(taken_over, None, "providera")]) == [True]
    again = await sending.mark(db, REFUNDS, [Mark(taken_over, None, "providera")])
    assert again == [False], "a refund that was already marked cannot be marked again"
    assert await shop.balance() == 0
    assert await states.apply_result(db, refund, REFUSED, holder=taken_over)
    assert await shop.balance() == 100_000


@pytest.mark.parametrize("order", ["webhook first", "answer first"])
async def test_a_rejection_that_a_webhook_contradicts_returns_nothing(
    shop: Shop, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider pays the refund, but its response rejects the request."""
    settle = states.apply_result

    async def it_pays(*arguments: Any, **more: Any) -> bool:
        monkeypatch.setattr(states, "apply_result", settle)
        await _says(shop, refund, "success")
        return await settle(*arguments, **more)

    refused = {"call": "refund", "fault": "refuse", "status": 400, "message": "Not allowed"}
    started = await _paid(shop)
    await shop.simulator.control(
        "a/faults", {"next": [refused], "refunds": "pending", "webhooks": {"mode": "lost"}}
    )
    refund = await _refund(shop, started)
    if order == "webhook first":
        await _says(shop, refund, "success")
    else:
        monkeypatch.setattr(states, "apply_result", it_pays)
    await shop.simulator.run_jobs()
    assert (await _now(shop, refund)).status is RefundStatus.PENDING
    assert await shop.balance() == 0


async def _says(shop: Shop, refund: Refund, status: str) -> None:
    """Sends a signed webhook of provider A that reports this status of the refund."""
    amount = float(refund.amount.amount)
    data = {"reference": refund.trx_id, "amount": amount, "currency": "NGN", "status": status}
    document = {"event": f"refund.{status}", "data": data}
    reply = await webhooks.send(shop.merchant.site, "providera", document)
    assert reply.status == 200


async def test_provider_b_has_no_refunds_so_an_operator_confirms_them(shop: Shop) -> None:
    started = await _paid(shop, "providerb-ngn")
    refund = await _refund(shop, started)
    await shop.simulator.run_jobs()
    waiting = await _now(shop, refund)
    assert (waiting.status, waiting.by_operator) == (RefundStatus.PENDING, True)
    assert await shop.balance() == 0
    done = await _confirm(shop, refund, "bank transfer 7")
    assert done.status is RefundStatus.COMPLETED
    with pytest.raises(Refusal, match="completed already"):
        await _reject(shop, refund, "no")
    assert [notified["event"] for notified in await shop.notifications(started)] == [
        "payment",
        "refund",
    ]


async def test_a_refund_that_an_operator_pays_may_not_be_sent(shop: Shop) -> None:
    """A worker has read the refund, and tries to send it after an operator has claimed it."""
    db = shop.services.db
    refund = await _refund(shop, await _paid(shop))
    [job] = await claims.claim(db, {SEND: 1})
    await db.execute("UPDATE refund SET by_operator = true WHERE trx_id = $1", refund.trx_id)
    assert await sending.mark(db, REFUNDS, [Mark(job, None, "providera")]) == [False]


async def test_two_operators_cannot_both_decide_a_refund(shop: Shop) -> None:
    started = await _paid(shop, "providerb-ngn")
    refund = await _refund(shop, started)
    await shop.simulator.run_jobs()
    decided = await asyncio.gather(
        *((_reject if n % 2 else _confirm)(shop, refund, "mine") for n in range(8)),
        return_exceptions=True,
    )
    assert sum(isinstance(each, Refund) for each in decided) == 1
    assert all(isinstance(each, Refund | Refusal) for each in decided)


async def test_an_operator_cannot_decide_a_refund_the_provider_handles(shop: Shop) -> None:
    await shop.simulator.control("a/faults", {"refunds": "pending"})
    started = await _paid(shop)
    refund = await _refund(shop, started)
    await shop.simulator.run_jobs()
    with pytest.raises(Refusal, match="The provider decides its outcome"):
        await _confirm(shop, refund, "no")


async def test_a_sandbox_payment_is_refunded_without_a_provider(
    shop: Shop, sandbox: Merchant
) -> None:
    test_shop = Shop(shop.services, shop.simulator, sandbox)
    started = await test_shop.start()
    before = await test_shop.balance()
    await shop.simulator.run_job_now("payment.sandbox", started.trx_id)
    refund = await _refund(test_shop, started)
    await _until(test_shop, refund, RefundStatus.COMPLETED)
    assert await test_shop.balance() == before


async def _refund_with_commission(
    shop: Shop, started: Started, amount: str | None = None
) -> Refund:
    return await initiate.start(
        shop.services.db, started.trx_id, amount, "Fault", on_behalf=True, with_commission=True
    )


@pytest.mark.parametrize("method", first_short(["providera-ngn", "providerc-ngn"]))
async def test_a_full_refund_can_return_a_commission_the_platform_bears(
    shop: Shop, method: str
) -> None:
    await shop.set_commission("1.5", CommissionBearer.CUSTOMER)
    started = await _paid(shop, method)
    assert await shop.account("commission") == 1_500
    refund = await _refund_with_commission(shop, started)
    assert (await shop.balance(), await shop.account("commission")) == (0, 0)
    assert await shop.account("in_flight") == 101_500
    await _until(shop, refund, RefundStatus.COMPLETED)
    rail = method[len("provider")]
    [sent] = (await shop.simulator.read(f"{rail}/refunds"))["refunds"]
    assert sent["amount"] == 1015
    notified = (await shop.notifications(started))[-1]
    assert (notified["event"], notified["data"]["refund_amount"]) == ("refund", 1015)
    assert (await shop.payment(started)).refundable.minor == 0


async def test_a_failed_refund_with_commission_returns_each_part_to_its_payer(shop: Shop) -> None:
    await shop.set_commission("1.5", CommissionBearer.CUSTOMER)
    await shop.simulator.control("a/faults", {"refunds": "failed"})
    started = await _paid(shop)
    await _until(shop, await _refund_with_commission(shop, started), RefundStatus.FAILED)
    assert (await shop.balance(), await shop.account("commission")) == (100_000, 1_500)
    assert await shop.account("in_flight") == 0
    await shop.simulator.control("a/faults", {"refunds": "success"})
    again = await _refund_with_commission(shop, started)
    assert again.amount_minor == 101_500


async def test_the_commission_is_returned_once_with_the_last_partial_refund(shop: Shop) -> None:
    await shop.set_commission("1.5", CommissionBearer.CUSTOMER)
    started = await _paid(shop)
    with pytest.raises(Refusal, match=r"only with the full remaining amount: ₦1,000\.00"):
        await _refund_with_commission(shop, started, "400")
    await _refund(shop, started, "400")
    last = await _refund_with_commission(shop, started)
    assert (last.amount_minor, last.commission_minor) == (61_500, 1_500)
    with pytest.raises(Refusal, match="already been refunded"):
        await _refund_with_commission(shop, started)
    assert (await shop.balance(), await shop.account("commission")) == (0, 0)


@pytest.mark.parametrize(
    ("percent", "bearer"), [("0", CommissionBearer.CUSTOMER), ("1.5", CommissionBearer.MERCHANT)]
)
async def test_a_commission_the_customer_did_not_pay_is_not_returned(
    shop: Shop, percent: str, bearer: CommissionBearer
) -> None:
    await shop.set_commission(percent, bearer)
    await shop.fund("100")
    started = await _paid(shop)
    with pytest.raises(Refusal, match="The customer paid no commission"):
        await _refund_with_commission(shop, started)
