"""The sandbox completes payments automatically, without a provider, and supports scenarios."""

import json

import pytest

from manilla.kit.errors import Refusal
from manilla.payments.checkout import SandboxOutcome
from tests.payments.orders import INITIATE, order
from tests.payments.shop import Shop

SCENARIO = "X-Sandbox-Scenario"


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
