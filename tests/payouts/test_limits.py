"""The limits per payout and per day, which depend on the merchant's verification level."""

import asyncio

import pytest

from manilla.merchants.merchants import MerchantLevel, MerchantUpdate
from manilla.payouts import decisions
from tests.payouts.payout_merchant import MANUAL, PayoutMerchant, setting
from tests.support.client import Reply

EACH, DAY = "payout_limits_unverified", "daily_payout_limits_unverified"


def _reason(reply: Reply) -> str:
    assert (reply.status, reply.code) == (422, "payout_failed"), reply.body
    text: str = reply.json["error"]
    return text


async def test_a_payout_above_the_limit_is_rejected_and_moves_no_money(
    payer: PayoutMerchant,
) -> None:
    async with setting(payer.services, EACH, "NGN:1000"):
        assert (await payer.ask(payout_amount=1000)).status == 200
        before = await payer.balance()
        text = _reason(await payer.ask(payout_amount=1000.01))
        assert text == "The amount exceeds your limit of ₦1,000.00 for a payout."
        assert await payer.balance() == before
        await payer.change(MerchantUpdate(level=MerchantLevel.VERIFIED))
        assert (await payer.ask(payout_amount=1000.01)).status == 200


async def test_payouts_of_a_day_stay_within_the_limit(payer: PayoutMerchant) -> None:
    async with setting(payer.services, DAY, "NGN:2500"):
        rejected = await payer.pay_out(MANUAL, payout_amount=1000)
        assert (await payer.ask(payout_amount=1500)).status == 200
        text = _reason(await payer.ask(payout_amount=100))
        assert text == "Today's payouts would exceed your daily limit of ₦2,500.00."
        await decisions.reject(payer.services.db, payer.services.rails, rejected, "Not today.")
        assert (await payer.ask(payout_amount=1000)).status == 200
        _reason(await payer.ask(payout_amount=100))
    assert (await payer.ask(payout_amount=100)).status == 200


@pytest.mark.parametrize("second_process", [False, True])
async def test_concurrent_payouts_do_not_exceed_the_limit_together(
    payer: PayoutMerchant, second_process: bool
) -> None:
    async with setting(payer.services, DAY, "NGN:3000"), payer.at_second_process() as other:
        assert (await payer.ask(payout_amount=500)).status == 200
        callers = [payer, other if second_process else payer] * 6
        replies = await asyncio.gather(*(each.ask(payout_amount=500) for each in callers))
    assert sum(reply.status == 200 for reply in replies) == 5
    assert {reply.status for reply in replies} <= {200, 422, 503}


async def test_a_repeated_request_gets_its_first_response_after_the_limit_is_reached(
    payer: PayoutMerchant,
) -> None:
    async with setting(payer.services, DAY, "NGN:1000"):
        body = await payer.order(payout_amount=1000)
        first = await payer.send(body, Idempotency_Key="k-1")
        again = await payer.send(body, Idempotency_Key="k-1")
    assert (first.status, again.status) == (200, 200)
    assert first.json["trx_id"] == again.json["trx_id"]


async def test_the_sandbox_has_no_limits(sandbox_payer: PayoutMerchant) -> None:
    services = sandbox_payer.services
    async with setting(services, EACH, "NGN:1"), setting(services, DAY, "NGN:1"):
        assert (await sandbox_payer.ask(payout_amount=1000)).status == 200


async def test_a_limit_of_another_currency_does_not_apply(payer: PayoutMerchant) -> None:
    async with setting(payer.services, EACH, "USD:1"), setting(payer.services, DAY, "USD:1"):
        assert (await payer.ask(payout_amount=1000)).status == 200
