"""The sandbox completes payments automatically, without a provider, and supports scenarios."""

import json
from collections.abc import AsyncIterator

import pytest

from manilla.kit.errors import Refusal
from manilla.ledger import invariants
from manilla.lookup.story import payment_story
from manilla.lookup.whereabouts import StoryReader, of_payment
from manilla.merchants.merchants import MerchantUpdate, OverpaidRule, UnderpaidRule
from manilla.payments.checkout import WRONG_TRANSFERS, SandboxOutcome
from manilla.payments.invariants import PAYMENTS
from manilla.payments.payment import PaymentErrorCode
from manilla.payments.states import HeldInProduction
from tests.payments.orders import INITIATE, order
from tests.payments.shop import HOLD, Shop, Started

SCENARIO = "X-Sandbox-Scenario"
RULES = MerchantUpdate(overpaid=OverpaidRule.SETTLE, underpaid=UnderpaidRule.ASK)


async def test_a_sandbox_payment_completes_automatically_after_the_delay(
    sandbox_shop: Shop,
) -> None:
    started = await sandbox_shop.start()
    due_in = await sandbox_shop.services.db.value(
        "SELECT extract(epoch FROM due_at - now()) FROM job WHERE subject = $1", started.trx_id
    )
    assert 3 < due_in <= 5
    await sandbox_shop.simulator.run_jobs()
    assert await sandbox_shop.status(started) == "pending"
    await sandbox_shop.simulator.run_job_now("payment.sandbox", started.trx_id)
    assert await sandbox_shop.status(started) == "success"


async def test_a_sandbox_payment_waits_while_its_checkout_is_open(sandbox_shop: Shop) -> None:
    started = await sandbox_shop.start()
    db, view = sandbox_shop.services.db, sandbox_shop.services.checkout.view
    first = await view(started.trx_id)
    assert first.completes_at is not None
    assert 15 < (first.completes_at - first.payment.created_at).total_seconds() < 22
    again = await view(started.trx_id)
    assert again.completes_at == first.completes_at
    for _ in range(3):  # an open page polls
        await db.execute(
            "UPDATE job SET due_at = due_at - interval '10 seconds' WHERE subject = $1",
            started.trx_id,
        )
        later = await view(started.trx_id)
        assert later.completes_at is not None
        left = await db.value("SELECT $1 - now() > interval '15 seconds'", later.completes_at)
        assert left


OUTCOMES = {
    SandboxOutcome.PAY: ("success", None, "completed"),
    SandboxOutcome.DECLINE: ("failed", "PAYMENT_DECLINED", "failed"),
    SandboxOutcome.INSUFFICIENT_FUNDS: ("failed", "INSUFFICIENT_FUNDS", "failed"),
    SandboxOutcome.CANCEL: ("failed", "PAYMENT_CANCELED", "canceled"),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_a_customer_can_choose_every_outcome(
    sandbox_shop: Shop, outcome: SandboxOutcome
) -> None:
    status, code, notified_status = OUTCOMES[outcome]
    started = await sandbox_shop.start()
    await sandbox_shop.services.checkout.pretend(started.trx_id, outcome)
    reply = (await sandbox_shop.verify(started)).json
    assert (reply["status"], reply.get("error_code")) == (status, code)
    [notified] = await sandbox_shop.notifications(started)
    assert (notified["status"], notified.get("error_code")) == (notified_status, code)
    assert notified["data"]["is_sandbox"] is True
    await sandbox_shop.services.checkout.pretend(started.trx_id, SandboxOutcome.DECLINE)
    assert await sandbox_shop.status(started) == status


@pytest.mark.parametrize(("scenario", "status"), [("success", "success"), ("failed", "failed")])
async def test_a_scenario_decides_the_outcome(
    sandbox_shop: Shop, scenario: str, status: str
) -> None:
    trx_id = await _with_scenario(sandbox_shop, scenario)
    await sandbox_shop.simulator.run_job_now("payment.sandbox", trx_id)
    reply = await sandbox_shop.merchant.get(f"/api/v1/verify-payment/{trx_id}")
    assert reply.json["status"] == status


async def test_the_pending_scenario_waits_until_it_expires(sandbox_shop: Shop) -> None:
    trx_id = await _with_scenario(sandbox_shop, "pending")
    await sandbox_shop.simulator.run_job_now("payment.sandbox", trx_id)
    target = f"/api/v1/verify-payment/{trx_id}"
    assert (await sandbox_shop.merchant.get(target)).json["status"] == "pending"
    await sandbox_shop.simulator.run_job_now("payment.expire", trx_id)
    assert (await sandbox_shop.merchant.get(target)).json["error_code"] == "EXPIRED_SESSION"


async def _with_scenario(shop: Shop, scenario: str, **changed: object) -> str:
    body = json.dumps(order(**changed)).encode()
    reply = await shop.merchant.call("POST", INITIATE, body, X_Sandbox_Scenario=scenario)
    assert reply.status == 200
    again = await shop.merchant.call("POST", INITIATE, body)
    trx_id: str = again.json["trx_id"]
    return trx_id


async def test_no_provider_is_called_and_the_remark_mentions_the_sandbox(
    sandbox_shop: Shop,
) -> None:
    started = await sandbox_shop.start()
    assert started.info["merchant_payment_method_codes"]
    charge = await sandbox_shop.choose(started, "providera-ngn")
    assert charge.provider == "sandbox"
    db = sandbox_shop.services.db
    assert not await db.value("SELECT true FROM job WHERE subject = $1", charge.reference)
    await sandbox_shop.simulator.run_job_now("payment.sandbox", started.trx_id)
    assert await sandbox_shop.status(started) == "success"
    remarks = await db.value("SELECT remarks FROM payment WHERE trx_id = $1", started.trx_id)
    assert remarks == "SANDBOX_TRANSACTION"


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (SandboxOutcome.DECLINE, "PAYMENT_DECLINED"),
        (SandboxOutcome.INSUFFICIENT_FUNDS, "INSUFFICIENT_FUNDS"),
    ],
)
async def test_a_decline_ends_the_charge_and_the_customer_can_pay_another_way(
    sandbox_shop: Shop, outcome: SandboxOutcome, code: str
) -> None:
    started, checkout = await sandbox_shop.start(), sandbox_shop.services.checkout
    charge = await sandbox_shop.choose(started, "way:card")
    await checkout.pretend(started.trx_id, outcome)
    view = await checkout.view(started.trx_id)
    assert (view.charge, view.declined and view.declined.error_code) == (None, code)
    assert await sandbox_shop.status(started) == "pending"
    second = await sandbox_shop.choose(started, "way:card")
    assert second.number == charge.number + 1
    await checkout.pretend(started.trx_id, SandboxOutcome.PAY)
    assert await sandbox_shop.status(started) == "success"


async def test_a_declined_customer_who_does_nothing_more_has_not_paid(sandbox_shop: Shop) -> None:
    started, checkout = await sandbox_shop.start(), sandbox_shop.services.checkout
    await sandbox_shop.choose(started, "way:ussd")
    await checkout.pretend(started.trx_id, SandboxOutcome.INSUFFICIENT_FUNDS)
    await sandbox_shop.simulator.run_job_now("payment.sandbox", started.trx_id)
    assert (await sandbox_shop.verify(started)).json["error_code"] == "INSUFFICIENT_FUNDS"


async def test_a_refund_of_a_payment_with_a_sandbox_charge_has_no_provider(
    sandbox_shop: Shop,
) -> None:
    started, db = await sandbox_shop.start(), sandbox_shop.services.db
    await sandbox_shop.choose(started, "way:bank_transfer")
    await sandbox_shop.services.checkout.pretend(started.trx_id, SandboxOutcome.PAY)
    body = json.dumps({"trx_id": started.trx_id, "ref_trx": f"R-{started.trx_id}"}).encode()
    reply = await sandbox_shop.merchant.call("POST", "/api/v1/initiate-refund", body)
    assert reply.status == 200, reply.body
    refund = reply.json["trx_id"]
    assert await db.value("SELECT provider FROM refund WHERE trx_id = $1", refund) is None


async def test_a_production_payment_cannot_be_simulated(shop: Shop) -> None:
    started = await shop.start()
    with pytest.raises(Refusal):
        await shop.services.checkout.pretend(started.trx_id, SandboxOutcome.PAY)
    assert await shop.status(started) == "pending"


@pytest.mark.parametrize(
    ("amount", "outcome"),
    [
        (666.61, ("failed", "PAYMENT_DECLINED")),
        (666.62, ("failed", "INSUFFICIENT_FUNDS")),
        (666.60, ("success", None)),
        (666.64, ("success", None)),
    ],
)
async def test_the_amount_decides_the_outcome(
    sandbox_shop: Shop, amount: float, outcome: tuple[str, str | None]
) -> None:
    started = await sandbox_shop.start(payment_amount=amount)
    await sandbox_shop.simulator.run_job_now("payment.sandbox", started.trx_id)
    reply = (await sandbox_shop.verify(started)).json
    assert (reply["status"], reply.get("error_code")) == outcome


async def test_a_payment_of_the_pending_amount_waits_for_a_choice_on_the_page(
    sandbox_shop: Shop,
) -> None:
    started = await sandbox_shop.start(payment_amount=666.63)
    await sandbox_shop.simulator.run_job_now("payment.sandbox", started.trx_id)
    assert await sandbox_shop.status(started) == "pending"
    await sandbox_shop.services.checkout.pretend(started.trx_id, SandboxOutcome.PAY)
    assert await sandbox_shop.status(started) == "success"


async def test_a_choice_on_the_page_takes_precedence_over_the_amount(sandbox_shop: Shop) -> None:
    started = await sandbox_shop.start(payment_amount=666.61)
    await sandbox_shop.services.checkout.pretend(started.trx_id, SandboxOutcome.PAY)
    assert await sandbox_shop.status(started) == "success"


@pytest.mark.parametrize("amount", [666.61, 666.63])
async def test_the_header_takes_precedence_over_the_amount(
    sandbox_shop: Shop, amount: float
) -> None:
    trx_id = await _with_scenario(sandbox_shop, "success", payment_amount=amount)
    await sandbox_shop.simulator.run_job_now("payment.sandbox", trx_id)
    reply = await sandbox_shop.merchant.get(f"/api/v1/verify-payment/{trx_id}")
    assert reply.json["status"] == "success"


async def test_the_amount_decides_nothing_in_production(shop: Shop) -> None:
    started = await shop.start(payment_amount=666.61)
    await shop.simulator.run_job_now("payment.sandbox", started.trx_id)
    assert await shop.status(started) == "pending"


@pytest.fixture
async def transfer(sandbox_shop: Shop) -> AsyncIterator[Started]:
    """A sandbox payment of 1,000 whose customer sees the account for the transfer."""
    await sandbox_shop.change(RULES)
    started = await sandbox_shop.start(payment_amount=1000)
    await sandbox_shop.choose(started, "way:bank_transfer")
    yield started
    await sandbox_shop.simulator.run_jobs()
    for each in (*invariants.LEDGER, *PAYMENTS):
        assert await sandbox_shop.services.db.records(each.violations) == [], each.name
    assert await sandbox_shop.account("customer_credit") == 0
    assert await sandbox_shop.account("suspense") == 0
    assert await sandbox_shop.cases() == []


async def _sentences(shop: Shop, started: Started) -> str:
    """Returns the sentences about the money at the top of the payment's page."""
    db = shop.services.db
    story = await payment_story(db, shop.merchant.new.id, started.trx_id)
    assert story is not None
    found = await of_payment(db, StoryReader({}, is_internal=False), story)
    return " ".join(str(part) for sentence in found.sentences for part in sentence)


async def test_a_test_transfer_of_too_much_succeeds_and_the_surplus_is_returned(
    sandbox_shop: Shop, transfer: Started
) -> None:
    before = await sandbox_shop.balance()
    await sandbox_shop.services.checkout.pretend(transfer.trx_id, SandboxOutcome.PAY_MORE)
    verified = (await sandbox_shop.verify(transfer)).json
    assert (verified["status"], verified["amount_received"]) == ("success", 1500)
    await sandbox_shop.until_refunded(transfer)
    assert await sandbox_shop.balance() - before == 100_000
    _, returned = await sandbox_shop.notifications(transfer)
    assert (returned["event"], returned["data"]["refund_amount"]) == ("refund", 500)
    assert returned["data"]["refund_source"] == "customer_credit"


@pytest.mark.parametrize("way", ["way:bank_transfer", "way:card"])
async def test_after_a_test_transfer_of_too_little_the_customer_pays_the_rest(
    sandbox_shop: Shop, transfer: Started, way: str
) -> None:
    checkout = sandbox_shop.services.checkout
    for _ in range(2):  # a double click
        await checkout.pretend(transfer.trx_id, SandboxOutcome.PAY_LESS)
    assert "Without the rest, this sandbox payment fails at" in await _sentences(
        sandbox_shop, transfer
    )
    assert (await checkout.view(transfer.trx_id)).payment.rest.minor == 50_000
    assert (await sandbox_shop.choose(transfer, way)).amount_minor == 50_000
    await checkout.pretend(transfer.trx_id, SandboxOutcome.PAY)
    verified = (await sandbox_shop.verify(transfer)).json
    assert (verified["status"], verified["amount_received"]) == ("success", 1000)


@pytest.mark.parametrize("outcome", [None, SandboxOutcome.PAY, SandboxOutcome.CANCEL])
async def test_a_test_transfer_of_too_little_is_returned_if_the_rest_is_not_paid(
    sandbox_shop: Shop, transfer: Started, outcome: SandboxOutcome | None
) -> None:
    before = await sandbox_shop.balance()
    await sandbox_shop.services.checkout.pretend(transfer.trx_id, SandboxOutcome.PAY_LESS)
    if outcome is None:  # the customer closes the page
        await sandbox_shop.simulator.run_job_now("payment.sandbox", transfer.trx_id)
    else:
        await sandbox_shop.services.checkout.pretend(transfer.trx_id, outcome)
    canceled = outcome is SandboxOutcome.CANCEL
    code = "PAYMENT_CANCELED" if canceled else "EXPIRED_SESSION"
    assert (await sandbox_shop.verify(transfer)).json["error_code"] == code
    await sandbox_shop.until_refunded(transfer)
    assert await sandbox_shop.balance() == before


@pytest.mark.parametrize(
    "code", [PaymentErrorCode.EXPIRED_SESSION, PaymentErrorCode.PAYMENT_DECLINED]
)
async def test_a_late_test_transfer_arrives_after_the_payment_has_failed(
    sandbox_shop: Shop, transfer: Started, code: PaymentErrorCode
) -> None:
    if code is PaymentErrorCode.PAYMENT_DECLINED:
        await sandbox_shop.services.checkout.pretend(transfer.trx_id, SandboxOutcome.DECLINE)
        await sandbox_shop.choose(transfer, "way:bank_transfer")
    for _ in range(2):
        await sandbox_shop.services.checkout.pretend(transfer.trx_id, SandboxOutcome.PAY_LATE)
    assert (await sandbox_shop.verify(transfer)).json["error_code"] == code
    assert "The test transfer arrives late, at" in await _sentences(sandbox_shop, transfer)
    await sandbox_shop.simulator.run_job_now("payment.sandbox", transfer.trx_id)
    assert await sandbox_shop.status(transfer) == "success"
    notified = [each["status"] for each in await sandbox_shop.notifications(transfer)]
    assert notified == ["failed", "completed"]


async def test_the_late_rest_of_a_test_transfer_is_returned_like_the_first_part(
    sandbox_shop: Shop, transfer: Started
) -> None:
    before, checkout = await sandbox_shop.balance(), sandbox_shop.services.checkout
    await checkout.pretend(transfer.trx_id, SandboxOutcome.PAY_LESS)
    await sandbox_shop.choose(transfer, "way:bank_transfer")
    await checkout.pretend(transfer.trx_id, SandboxOutcome.PAY_LATE)
    await sandbox_shop.simulator.run_job_now("payment.sandbox", transfer.trx_id)
    assert await sandbox_shop.status(transfer) == "failed"
    await sandbox_shop.until_refunded(transfer)
    assert await sandbox_shop.balance() == before


@pytest.mark.parametrize("outcome", WRONG_TRANSFERS)
async def test_the_sandbox_does_not_hold_a_wrong_amount_for_review(
    sandbox_shop: Shop, transfer: Started, outcome: SandboxOutcome
) -> None:
    await sandbox_shop.change(HOLD)
    with pytest.raises(HeldInProduction):
        await sandbox_shop.services.checkout.pretend(transfer.trx_id, outcome)
    assert await sandbox_shop.status(transfer) == "pending"


async def test_a_wrong_amount_cannot_be_paid_by_card(sandbox_shop: Shop) -> None:
    started = await sandbox_shop.start()
    await sandbox_shop.choose(started, "way:card")
    for outcome in (*WRONG_TRANSFERS, SandboxOutcome.PAY_LATE):
        await sandbox_shop.services.checkout.pretend(started.trx_id, outcome)
    assert await sandbox_shop.status(started) == "pending"
