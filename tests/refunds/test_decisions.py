"""An administrator may decide on a refund only if the provider reports that it will not pay."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from manilla.cases import cases
from manilla.cases.cases import CaseAction, CaseKind
from manilla.kit.errors import Refusal
from manilla.kit.jobs.claims import hold_job
from manilla.refunds import decisions, initiate, states
from manilla.refunds.refund import SEND, Refund, RefundStatus
from manilla.resolutions import resolutions
from tests.payments import webhooks
from tests.payments.shop import Shop
from tests.support.rows import first_short

Decide = Callable[..., Coroutine[Any, Any, Refund]]
DECISIONS: list[Decide] = [decisions.confirm, decisions.reject]


async def left(shop: Shop, method: str = "providera-ngn", **faults: Any) -> Refund:
    """Creates a refund of 1,000.00 that was sent days ago and needs an administrator's decision."""
    started = await shop.start()
    await shop.pay(await shop.choose(started, method))
    await shop.until(started, "success")
    rail = method[len("provider")]
    quiet = {"refunds": "pending", "webhooks": {"mode": "lost"}, **faults}
    await shop.simulator.control(f"{rail}/faults", quiet)
    refund = await initiate.start(shop.services.db, started.trx_id, None, "Returned goods")
    await shop.simulator.run_jobs()
    await age(shop, refund)
    await shop.simulator.run_job_now("refund", refund.trx_id)
    current = await now(shop, refund)
    assert (current.status, current.by_operator) == (RefundStatus.PENDING, True)
    return current


async def age(shop: Shop, refund: Refund) -> None:
    await shop.services.db.execute(
        "UPDATE refund SET sent_at = sent_at - interval '4 days',"
        " first_sent_at = first_sent_at - interval '4 days' WHERE trx_id = $1",
        refund.trx_id,
    )


async def now(shop: Shop, refund: Refund) -> Refund:
    return await decisions.find(shop.services.db, refund.trx_id)


async def settle(shop: Shop, refund: Refund, status: str) -> None:
    await shop.simulator.control(f"a/refunds/{refund.trx_id}/settle", {"status": status})


async def decide(shop: Shop, decision: Decide, refund: Refund, **how: bool) -> Refund:
    return await decision(shop.services.db, shop.services.rails, refund.trx_id, "FT-1", **how)


async def is_unchanged(shop: Shop, refund: Refund) -> None:
    assert (await now(shop, refund)).status is RefundStatus.PENDING
    assert (await shop.balance(), await shop.account("in_flight")) == (0, 100_000)
    free = "SELECT lease IS NULL FROM job WHERE kind = 'refund' AND subject = $1"
    assert await shop.services.db.value(free, refund.trx_id) is True


@pytest.mark.parametrize("decision", first_short(DECISIONS))
@pytest.mark.parametrize("says", ["pending", "paid", "no answer"])
async def test_a_refund_that_the_provider_may_pay_is_not_decided(
    shop: Shop, decision: Decide, says: str
) -> None:
    refund = await left(shop)
    if says == "paid":
        await settle(shop, refund, "success")
    if says == "no answer":
        fault = {"call": "refund_status", "fault": "5xx_before"}
        await shop.simulator.control("a/faults", {"next": [fault]})
    with pytest.raises(Refusal, match=says if says != "no answer" else "no usable answer"):
        await decide(shop, decision, refund)
    await is_unchanged(shop, refund)


@pytest.mark.parametrize("says", ["failed", "not found"])
@pytest.mark.parametrize("decision", DECISIONS)
async def test_a_refund_that_the_provider_does_not_pay_is_decided(
    shop: Shop, decision: Decide, says: str
) -> None:
    if says == "failed":
        refund = await left(shop)
        await settle(shop, refund, "failed")
    else:
        lost = {"call": "refund", "fault": "5xx_before", "times": None}
        refund = await left(shop, next=[lost])
        await age(shop, refund)
    done = await decide(shop, decision, refund)
    is_paid = decision is decisions.confirm
    assert done.status is (RefundStatus.COMPLETED if is_paid else RefundStatus.FAILED)
    assert await shop.balance() == (0 if is_paid else 100_000)
    assert await shop.account("bank") == (100_000 if is_paid else 0)


@pytest.mark.parametrize("decision", DECISIONS)
async def test_a_refund_that_was_just_sent_is_not_decided(shop: Shop, decision: Decide) -> None:
    lost = {"call": "refund", "fault": "5xx_before", "times": None}
    refund = await left(shop, next=[lost])
    await shop.services.db.execute(
        "UPDATE refund SET sent_at = now() WHERE trx_id = $1", refund.trx_id
    )
    with pytest.raises(Refusal, match="10 minutes"):
        await decide(shop, decision, refund)
    await is_unchanged(shop, refund)


@pytest.mark.parametrize("decision", DECISIONS)
async def test_a_refund_that_a_worker_processes_is_not_decided(
    shop: Shop, decision: Decide
) -> None:
    refund = await left(shop)
    await settle(shop, refund, "failed")
    async with hold_job(shop.services.db, refund.merchant_id, SEND, refund.trx_id) as job:
        assert job is not None
        with pytest.raises(Refusal, match="A worker is processing"):
            await decide(shop, decision, refund)
    await is_unchanged(shop, refund)


@pytest.mark.parametrize("has_webhook", [True, False])
async def test_a_refund_that_the_provider_pays_after_our_bank_opens_a_case(
    shop: Shop, has_webhook: bool
) -> None:
    """After we have paid, a webhook or a status query reports that the provider has paid too."""
    refund = await left(shop)
    await decide(shop, decisions.confirm, refund, already_paid=True)
    assert await shop.account("bank") == 100_000
    await settle(shop, refund, "success")
    if has_webhook:
        data = {"reference": refund.trx_id, "amount": 1000, "currency": "NGN", "status": "success"}
        document = {"event": "refund.success", "data": data}
        reply = await webhooks.send(shop.merchant.site, "providera", document)
        assert reply.status == 200
    await shop.simulator.run_job_now("refund", refund.trx_id)
    assert ("contradiction", refund.trx_id) in await shop.cases()
    assert await shop.balance() == 0
    before = await shop.account("clearing:providera")
    await write_off(shop, refund)
    assert await shop.account("clearing:providera") == before + 100_000
    assert await shop.account("adjustment") == -100_000


async def write_off(shop: Shop, refund: Refund) -> None:
    db = shop.services.db
    [case] = [
        each
        for each in await cases.cases(db)
        if (each.reference, each.kind) == (refund.trx_id, CaseKind.CONTRADICTION)
    ]
    assert case.provider == "providera"
    ways = [way.name for way in await resolutions.options(db, case)]
    assert ways == [CaseAction.WRITE_OFF, CaseAction.NOTHING]
    await resolutions.resolve(db, case.id, "as agreed", CaseAction.WRITE_OFF)


async def test_a_refund_that_failed_at_the_provider_after_our_bank_paid_opens_no_case(
    shop: Shop,
) -> None:
    refund = await left(shop)
    await decide(shop, decisions.confirm, refund, already_paid=True)
    await settle(shop, refund, "failed")
    await shop.simulator.run_job_now("refund", refund.trx_id)
    assert "contradiction" not in [kind for kind, _ in await shop.cases()]


async def test_a_webhook_during_the_decision_stops_a_rejection(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    refund = await left(shop)
    await settle(shop, refund, "failed")
    settled = states.apply_result

    async def then_it_pays(*arguments: Any, **more: Any) -> bool:
        data = {"reference": refund.trx_id, "amount": 1000, "currency": "NGN", "status": "success"}
        document = {"event": "refund.success", "data": data}
        assert (await webhooks.send(shop.merchant.site, "providera", document)).status == 200
        return await settled(*arguments, **more)

    monkeypatch.setattr(states, "apply_result", then_it_pays)
    with pytest.raises(Refusal, match="signed webhook"):
        await decide(shop, decisions.reject, refund)
    await is_unchanged(shop, refund)


@pytest.mark.parametrize("decision", DECISIONS)
async def test_without_a_status_query_an_administrator_must_have_checked(
    shop: Shop, decision: Decide
) -> None:
    """Provider C has no status query for refunds, and the response to the refund was lost."""
    lost = {"call": "refund", "fault": "5xx_after_accept"}
    refund = await left(shop, "providerc-ngn", next=[lost])
    with pytest.raises(Refusal, match="no status query"):
        await decide(shop, decision, refund)
    await is_unchanged(shop, refund)
    sure = "already_paid" if decision is decisions.confirm else "is_checked"
    done = await decide(shop, decision, refund, **{sure: True})
    assert done.status is not RefundStatus.PENDING


async def test_a_manual_check_does_not_replace_a_status_query(shop: Shop) -> None:
    refund = await left(shop)
    with pytest.raises(Refusal, match="pending"):
        await decide(shop, decisions.reject, refund, is_checked=True)
    await is_unchanged(shop, refund)
