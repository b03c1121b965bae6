"""The sandbox completes payments automatically, calls no provider and supports scenarios."""

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


async def test_opening_the_checkout_gives_the_customer_time_to_choose(sandbox_shop: Shop) -> None:
    started = await sandbox_shop.start()
    first = await sandbox_shop.services.checkout.view(started.trx_id)
    second = await sandbox_shop.services.checkout.view(started.trx_id)
    assert first.completes_at == second.completes_at
    assert first.completes_at is not None
    assert 12 < (first.completes_at - first.payment.created_at).total_seconds() < 17


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


async def _with_scenario(shop: Shop, scenario: str) -> str:
    import json

    body = json.dumps(order()).encode()
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
    with pytest.raises(Refusal, match="no longer available"):
        await sandbox_shop.services.checkout.choose(started.trx_id, "providera-ngn")
    await sandbox_shop.simulator.run_job_now("payment.sandbox", started.trx_id)
    db = sandbox_shop.services.db
    remarks = await db.value("SELECT remarks FROM payment WHERE trx_id = $1", started.trx_id)
    charges = await db.value("SELECT count(*) FROM charge WHERE trx_id = $1", started.trx_id)
    assert (remarks, charges) == ("SANDBOX_TRANSACTION", 0)


async def test_a_production_payment_cannot_be_simulated(shop: Shop) -> None:
    started = await shop.start()
    with pytest.raises(Refusal):
        await shop.services.checkout.pretend(started.trx_id, SandboxOutcome.PAY)
    assert await shop.status(started) == "pending"
