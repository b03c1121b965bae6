"""Which gateway is used first if several offer the same way to pay, and which one if it fails."""

import asyncio
from typing import Any

import pytest

from manilla.kit import time_limits
from manilla.kit.environment import Environment
from manilla.ledger import timeline
from manilla.merchants import gateway_order
from manilla.merchants.gateway_order import OrderStep
from manilla.payments import charges, store
from manilla.payments.charges import (
    GatewayRefused,
    GatewayUnavailable,
    PaymentClosed,
    TooManyCharges,
)
from manilla.payments.checkout import MethodNotOffered
from manilla.payments.payment import Charge, ChargeStatus, PaymentErrorCode
from manilla.payments.ways import way_of
from manilla.platform.settings import CheckoutChoice
from manilla.providers.port import Channel, Direction
from tests.payments.shop import METHODS, Shop, Started
from tests.payments.steps import change_method, setting
from tests.support.limits import limited
from tests.support.rows import first_short

PAGE, TRANSFER, USSD = (way_of(channel) for channel in Channel)
A, B, C = "providera-ngn", "providerb-ngn", "providerc-ngn"


@pytest.fixture(autouse=True)
async def _no_jobs_of_others(shop: Shop) -> None:
    await shop.services.db.execute("UPDATE job SET due_at = 'infinity'")


async def fail_next(shop: Shop, provider: str, fault: str, **how: Any) -> None:
    planned = {"call": "charge", "fault": fault, **how}
    await shop.simulator.control(f"{provider}/faults", {"next": [planned]})


async def charges_of(shop: Shop, started: Started) -> list[Charge]:
    return await store.charges(shop.services.db, shop.merchant.new.id, started.trx_id)


async def events(shop: Shop, started: Started) -> list[tuple[str, str]]:
    steps = await timeline.steps(shop.services.db, shop.merchant.new.id, started.trx_id)
    return [(step.event, step.detail or "") for step in steps]


async def prefer(shop: Shop, code: str) -> None:
    """Moves the gateway to the first position in the merchant's gateway order."""
    codes = [code, *(method for method in METHODS if method != code)]
    place = Environment.PRODUCTION, codes, code, OrderStep.UP
    await gateway_order.move(shop.services.db, shop.merchant.new.id, *place)
    await shop.services.directory._refresh(0)


async def test_one_entry_stands_for_all_gateways_of_a_way(shop: Shop) -> None:
    started = await shop.start()
    view = await shop.services.checkout.view(started.trx_id)
    assert [entry.value for entry in view.entries] == [PAGE, TRANSFER, USSD]
    async with setting(shop.services, "checkout_choice", CheckoutChoice.GATEWAYS):
        view = await shop.services.checkout.view(started.trx_id)
        assert [entry.value for entry in view.entries] == list(METHODS)


async def test_a_way_is_offered_only_if_a_gateway_accepts_it(shop: Shop) -> None:
    started = await shop.start(allow_payment_methods=["providera"])
    view = await shop.services.checkout.view(started.trx_id)
    assert [entry.value for entry in view.entries] == [PAGE, TRANSFER]
    with pytest.raises(MethodNotOffered):
        await shop.choose(started, USSD)


async def test_a_transfer_goes_to_an_account_on_checkout_or_else_to_a_providers_page(
    shop: Shop,
) -> None:
    started = await shop.start()
    charge = await shop.choose(started, TRANSFER)
    assert (charge.method_code, charge.channel) == ("providera_ngn_va", Channel.BANK_TRANSFER)
    started = await shop.start(allow_payment_methods=["providerc"])
    assert (await shop.choose(started, TRANSFER)).method_code == C


async def test_another_way_needs_another_charge_even_at_the_same_gateway(shop: Shop) -> None:
    started = await shop.start(allow_payment_methods=["providerc"])
    by_card = await shop.choose(started, PAGE)
    assert await shop.choose(started, PAGE) == by_card
    by_ussd = await shop.choose(started, USSD)
    assert (by_ussd.number, by_ussd.channel) == (2, Channel.USSD)


async def test_a_customer_who_has_paid_and_chooses_again_is_not_charged_again(shop: Shop) -> None:
    started = await shop.start()
    charge = await shop.choose(started, PAGE)
    await shop.pay(charge)  # The webhook about the charge has not been processed yet.
    with pytest.raises(PaymentClosed):
        await shop.services.checkout.choose(started.trx_id, USSD, seen=charge.number)
    assert len(await charges_of(shop, started)) == 1
    assert await shop.status(started) == "success"


async def test_the_merchants_order_decides_and_the_api_keeps_its_own(shop: Shop) -> None:
    await prefer(shop, C)
    started = await shop.start()
    assert started.info["merchant_payment_method_codes"] == list(METHODS)
    charge = await shop.choose(started, PAGE)
    assert charge.method_code == C
    [(event, detail)] = await events(shop, started)
    assert event == "gateway_chosen"
    assert detail == (
        "The customer saw: Card; Bank transfer; USSD. The customer chose: Card."
        " Chose Provider C checkout: first in the merchant's order;"
        " then Provider A checkout: later in the merchant's order;"
        " then Provider B checkout: later in the merchant's order."
    )


async def test_the_lowest_fee_decides_without_an_order(shop: Shop) -> None:
    started = await shop.start(payment_amount=1000)
    for code in (A, C):
        await change_method(shop.services, code, fee_fixed="20")
    try:
        assert (await shop.choose(started, PAGE)).method_code == B
    finally:
        for code in (A, C):
            await change_method(shop.services, code, fee_fixed="0")


async def test_a_gateway_that_is_down_is_skipped(shop: Shop) -> None:
    rail = shop.services.rails.health.rail("providera", Direction.PAY_IN)
    rail.is_down = True
    started = await shop.start()
    try:
        charge = await shop.choose(started, PAGE)
    finally:
        rail.reset()
    assert charge.method_code == B
    [(_, detail)] = await events(shop, started)
    assert "skipped Provider A checkout: down since " in detail


async def test_if_all_gateways_are_down_the_way_is_unavailable(shop: Shop) -> None:
    rails = [shop.services.rails.health.rail(f"provider{x}", Direction.PAY_IN) for x in "abc"]
    started = await shop.start()
    for rail in rails:
        rail.is_down = True
    try:
        view = await shop.services.checkout.view(started.trx_id)
        assert all(entry.is_down for entry in view.entries)
        with pytest.raises(GatewayUnavailable):
            await shop.choose(started, PAGE)
    finally:
        for rail in rails:
            rail.reset()
    assert await charges_of(shop, started) == []


async def test_after_a_refusal_the_next_gateway_gets_a_charge_of_its_own(shop: Shop) -> None:
    await fail_next(shop, "a", "refuse", message="Merchant not active", status=400)
    started = await shop.start(payment_amount=1000)
    charge = await shop.choose(started, PAGE)
    assert (charge.method_code, charge.reference) == (B, f"{started.trx_id}-2")
    first, _ = await charges_of(shop, started)
    assert (first.status, first.reason) == (ChargeStatus.FAILED, "Merchant not active")
    assert [event for event, _ in await events(shop, started)] == [
        "gateway_chosen",
        "charge_not_created",
        "gateway_chosen",
    ]
    await shop.pay(charge)
    await shop.until(started, "success")
    assert await shop.balance() == 100_000


@pytest.mark.parametrize(
    "fault", first_short(["5xx_before", "5xx_after_accept", "reset", "reset_after_accept"])
)
async def test_after_an_unknown_answer_the_next_is_tried_and_the_first_is_still_queried(
    shop: Shop, fault: str
) -> None:
    await fail_next(shop, "a", fault)
    started = await shop.start()
    charge = await shop.choose(started, PAGE)
    assert charge.method_code == B
    first, _ = await charges_of(shop, started)
    assert first.is_uncertain
    for _ in range(2):
        await shop.simulator.run_job_now("charge", first.reference)
        assert (await shop.charge(first)).is_uncertain
    jobs = "SELECT count(*) FROM job WHERE kind = 'charge' AND subject = $1"
    assert await shop.services.db.value(jobs, first.reference) == 1


async def test_a_payment_of_the_uncertain_charge_is_credited(shop: Shop) -> None:
    await fail_next(shop, "a", "5xx_after_accept")
    started = await shop.start(payment_amount=1000)
    await shop.choose(started, PAGE)
    first, _ = await charges_of(shop, started)
    await shop.simulator.control("a/faults", {"webhooks": {"mode": "lost"}})
    await shop.pay(first)
    await shop.simulator.run_job_now("charge", first.reference)
    assert await shop.status(started) == "success"
    assert await shop.balance() == 100_000


async def test_if_both_charges_are_paid_one_is_credited_and_one_is_held(shop: Shop) -> None:
    await fail_next(shop, "a", "5xx_after_accept")
    started = await shop.start(payment_amount=1000)
    second = await shop.choose(started, PAGE)
    first, _ = await charges_of(shop, started)
    await shop.pay(second)
    await shop.until(started, "success")
    await shop.pay(first)
    await shop.until_charge(first, "suspense")
    assert await shop.balance() == 100_000
    assert await shop.cases() == [("second_charge_paid", first.reference)]


async def test_a_charge_that_the_customer_never_saw_is_not_a_decline(shop: Shop) -> None:
    await fail_next(shop, "a", "5xx_after_accept")
    started = await shop.start()
    second = await shop.choose(started, PAGE)
    first, _ = await charges_of(shop, started)
    await shop.pay(first, outcome="failed", reason="declined")
    await shop.until_charge(first, "failed")
    assert (await shop.charge(first)).error_code is None
    view = await shop.services.checkout.view(started.trx_id)
    assert (view.charge, view.declined) == (second, None)


async def test_if_every_gateway_fails_each_is_tried_once(shop: Shop) -> None:
    for provider in "abc":
        await fail_next(shop, provider, "refuse", times=None)
    started = await shop.start()
    with pytest.raises(GatewayRefused):
        await shop.choose(started, PAGE)
    assert [charge.method_code for charge in await charges_of(shop, started)] == [A, B, C]


@pytest.mark.usefixtures("hanging_calls_end")
async def test_a_gateway_that_hangs_leaves_time_for_the_next(shop: Shop) -> None:
    """One call could use up the whole time limit, so the first gateway gets only half of it."""
    half = time_limits.current.provider_call_seconds
    with limited(provider_call_seconds=2 * half, charge_seconds=2 * half):
        await _hangs_and_leaves_time(shop)


async def _hangs_and_leaves_time(shop: Shop) -> None:
    await fail_next(shop, "a", "timeout_before")
    started = await shop.start()
    charge = await shop.choose(started, PAGE)
    assert charge.method_code == B
    first, _ = await charges_of(shop, started)
    assert first.reason == "no answer in time"


async def test_a_gateway_named_by_its_code_is_the_only_one_tried(shop: Shop) -> None:
    await fail_next(shop, "b", "5xx_before")
    started = await shop.start()
    with pytest.raises(GatewayUnavailable):
        await shop.choose(started, B)
    assert [charge.method_code for charge in await charges_of(shop, started)] == [B]


async def test_a_repeated_choice_gets_the_same_charge(shop: Shop) -> None:
    started = await shop.start()
    chosen = await asyncio.gather(*(shop.choose(started, PAGE) for _ in range(5)))
    assert {charge.reference for charge in chosen} == {f"{started.trx_id}-1"}


async def test_concurrent_choices_leave_one_payable_charge_after_a_failure(shop: Shop) -> None:
    await fail_next(shop, "a", "refuse")
    started = await shop.start()
    await asyncio.gather(*(shop.choose(started, PAGE) for _ in range(5)))
    payable = [each.is_payable for each in await charges_of(shop, started)]
    assert payable == [False, True]


async def test_a_customer_who_comes_back_and_chooses_again_gets_another_gateway(
    shop: Shop,
) -> None:
    started = await shop.start()
    first = await shop.choose(started, PAGE)
    again = await shop.services.checkout.choose(started.trx_id, PAGE, first.number)
    assert (first.method_code, again.method_code) == (A, B)
    last = await shop.services.checkout.choose(started.trx_id, PAGE, again.number)
    assert last.method_code == C
    assert "without paying" in (await events(shop, started))[-1][1]


async def test_with_one_gateway_the_customer_continues_with_the_same_charge(shop: Shop) -> None:
    started = await shop.start(allow_payment_methods=["providerc"])
    first = await shop.choose(started, C)
    assert await shop.services.checkout.choose(started.trx_id, C, first.number) == first


async def test_after_a_decline_another_gateway_is_chosen(shop: Shop) -> None:
    started = await shop.start()
    first = await shop.choose(started, PAGE)
    await shop.pay(first, outcome="failed", reason="declined")
    await shop.until_charge(first, "failed")
    assert (await shop.charge(first)).error_code is PaymentErrorCode.PAYMENT_DECLINED
    assert (await shop.choose(started, PAGE)).method_code == B
    declined = dict(await events(shop, started))["charge_declined"]
    assert "Checkout says: Your bank declined the payment." in declined


async def test_a_payment_has_a_limited_number_of_charges(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charges, "TRIES_MAX", 2)
    started = await shop.start()
    await shop.choose(started, A)
    await shop.choose(started, B)
    with pytest.raises(TooManyCharges):
        await shop.choose(started, C)
    assert len(await charges_of(shop, started)) == 2
    # The customer can still pay the latest charge.
    assert (await shop.choose(started, B)).number == 2


async def test_an_account_that_has_expired_is_not_offered_again(shop: Shop) -> None:
    started = await shop.start()
    first = await shop.choose(started, "providerb_ngn_va")
    assert await shop.choose(started, "providerb_ngn_va") == first
    await shop.services.db.execute(
        """
        UPDATE charge SET account_expires_at = now() - interval '1 second'
         WHERE merchant_id = $1 AND reference = $2""",
        *(first.merchant_id, first.reference),
    )
    assert (await shop.choose(started, "providerb_ngn_va")).number == 2
