"""Charges of saved cards at the simulated Paystack, Flutterwave and Monnify."""

import asyncio
import contextlib
from typing import Any

import msgspec
import pytest

from manilla.kit.environment import Environment
from manilla.merchants.rights import Right
from manilla.payments.payment import ChargeStatus
from manilla.providers import credentials
from manilla.providers.port import Direction
from manilla.saved_ways import revoking, store
from manilla.saved_ways.way import EndedBy, WayEvent, WayStatus
from manilla.services import Services
from tests.api.test_keys import new_key
from tests.payments.orders import new_reference, order
from tests.payments.steps import second_program, setting, until
from tests.payouts.model import Killed
from tests.payouts.model_machine import dying_at
from tests.saved_ways.conftest import RAILS
from tests.saved_ways.steps import Lender
from tests.support.client import new_merchant

CHARGE_CALL = {
    "paystack": "/charge_authorization",
    "flutterwave": "/tokenized-charges",
    "monnify": "/charge-card-token",
}


@pytest.mark.parametrize("rail", RAILS)
async def test_a_saved_card_is_charged_again(lender: Lender, rail: str) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer, rail)
    before = await lender.shop.balance()
    reply = await lender.charge(customer, way.id)
    assert reply.status == 200, reply.body
    assert reply.json["status"] == "success"
    assert reply.json["info"]["amount"] == 500
    assert reply.headers["x-transaction-id"].upper() == reply.json["trx_id"]
    assert await lender.shop.balance() - before == 500_00
    payment = await lender.payment(reply.json["trx_id"])
    assert payment.customer_reference == customer
    verified = await lender.merchant.get(f"/api/v1/verify-payment/{payment.trx_id}")
    assert verified.json["saved_way"]["id"] == way.id
    [notice] = await lender.notices(payment.trx_id)
    assert notice["status"] == "completed"
    assert notice["data"]["saved_way"]["id"] == way.id
    assert len(await lender.requests(rail, CHARGE_CALL[rail])) == 1


@pytest.mark.parametrize("rail", ["paystack", "flutterwave"])
async def test_a_soft_decline_has_its_code_and_a_time(lender: Lender, rail: str) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer, rail)
    await lender.bank_answers(way, outcome="insufficient_funds")
    reply = await lender.charge(customer, way.id)
    assert reply.status == 200
    assert reply.json["status"] == "failed"
    expected = {"code": "insufficient_funds", "kind": "soft", "retry_after": 86400}
    assert reply.json["decline"] == expected
    [notice] = await lender.notices(reply.json["trx_id"])
    assert (notice["status"], notice["error_code"]) == ("failed", "INSUFFICIENT_FUNDS")
    await lender.bank_answers(way, outcome="success")
    assert (await lender.charge(customer, way.id)).json["status"] == "success"


async def test_an_expired_card_is_declined_for_good(lender: Lender) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    await lender.bank_answers(way, outcome="expired")
    reply = await lender.charge(customer, way.id)
    assert reply.json["decline"] == {"code": "expired_card", "kind": "hard"}
    assert [each["status"] for each in await lender.ways(customer)] == ["expired"]
    again = await lender.charge(customer, way.id)
    assert (again.status, again.code) == (422, "way_unusable")
    assert len(await lender.requests("paystack", CHARGE_CALL["paystack"])) == 1


async def test_a_card_past_its_month_is_not_charged(lender: Lender) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    await lender.db.execute(
        "UPDATE saved_way SET expires_on = current_date - 2 WHERE id = $1", way.id
    )
    reply = await lender.charge(customer, way.id)
    assert (reply.status, reply.code) == (422, "way_unusable")
    assert reply.json["reason"] == "expired_card"
    assert await lender.requests("paystack", CHARGE_CALL["paystack"]) == []


async def test_a_regulated_card_says_when_it_can_be_charged_again(lender: Lender) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    await lender.bank_answers(way, outcome="regulated")
    reply = await lender.charge(customer, way.id)
    expected = {"code": "wait", "kind": "soft", "retry_after": 1380 * 60}
    assert reply.json["decline"] == expected


async def test_the_customer_confirms_a_charge(lender: Lender) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    await lender.bank_answers(way, outcome="confirm")
    reply = await lender.charge(customer, way.id)
    assert reply.json["status"] == "pending"
    assert "/checkout/" in reply.json["customer_action_url"]
    trx_id = reply.json["trx_id"]
    await lender.shop.pay(await lender.charge_of(trx_id))
    await lender.until(trx_id, "success")


async def test_a_charge_that_the_customer_does_not_confirm_expires(lender: Lender) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    await lender.bank_answers(way, outcome="confirm")
    trx_id = (await lender.charge(customer, way.id)).json["trx_id"]
    await lender.due(trx_id)
    await lender.shop.simulator.run_jobs()
    assert (await lender.payment(trx_id)).status == "pending"
    await lender.db.execute("UPDATE payment SET expires_at = now() WHERE trx_id = $1", trx_id)
    await lender.due(trx_id)
    await lender.until(trx_id, "failed")
    # The customer confirms late: the money is credited, as for any late payment.
    await lender.shop.pay(await lender.charge_of(trx_id))
    await lender.until(trx_id, "success")


async def test_a_canceled_charge_that_was_sent_can_still_be_paid(lender: Lender) -> None:
    customer, reference = await lender.customer(), new_reference()
    way = await lender.save_card(customer)
    await lender.bank_answers(way, outcome="confirm")
    trx_id = (await lender.charge(customer, way.id, ref_trx=reference)).json["trx_id"]
    used = order(ref_trx=reference, payment_amount=500)
    reply = await lender.merchant.post("/api/v1/initiate-payment", used)
    assert (reply.code, "payment_url" in reply.json) == ("DUPLICATE_REFERENCE", False)
    reply = await lender.merchant.call("POST", f"/api/v1/payments/{trx_id}/cancel", b"")
    assert (reply.json["status"], reply.json["late_money"]) == ("failed", "reported")
    await lender.shop.pay(await lender.charge_of(trx_id))
    await lender.until(trx_id, "success")


@pytest.mark.parametrize(
    "fault", ["5xx_after_accept", "reset_after_accept", "garbage_after_accept"]
)
@pytest.mark.parametrize("rail", RAILS)
async def test_a_lost_answer_is_asked_about_and_never_repeated(
    lender: Lender, rail: str, fault: str
) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer, rail)
    down = {"call": "charge_status", "fault": "5xx_before", "times": None}
    await lender.faults(rail, {"fault": fault}, down)
    reply = await lender.charge(customer, way.id)
    assert (reply.status, reply.json["status"]) == (200, "pending")
    trx_id = reply.json["trx_id"]
    await lender.age(trx_id, hours=30)
    await lender.shop.simulator.run_jobs()
    assert (await lender.payment(trx_id)).status == "pending"  # still unknown
    await lender.faults(rail)
    await lender.shop.services.rails.health.mark_up(
        lender.shop.services.rails.health.rail(rail, Direction.PAY_IN)
    )
    await lender.due(trx_id)
    await lender.until(trx_id, "success")
    assert len(await lender.requests(rail, CHARGE_CALL[rail])) == 1


async def test_a_charge_that_never_arrived_fails_after_an_hour(lender: Lender) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    await lender.faults("paystack", {"fault": "reset"})
    trx_id = (await lender.charge(customer, way.id, key="one")).json["trx_id"]
    await lender.age(trx_id, hours=0.9)
    await lender.shop.simulator.run_jobs()
    assert (await lender.payment(trx_id)).status == "pending"
    await lender.age(trx_id, hours=0.2)
    await lender.until(trx_id, "failed")
    charge = await lender.charge_of(trx_id)
    assert (charge.status, charge.reason) == (ChargeStatus.FAILED, "not sent")
    assert len(await lender.requests("paystack", CHARGE_CALL["paystack"])) == 1


@pytest.mark.parametrize("status", ["failed", "expired"])
async def test_a_charge_that_ended_without_its_payment_ends_the_payment(
    lender: Lender, status: str
) -> None:
    """A worker of the previous version ends only the charge."""
    customer = await lender.customer()
    way = await lender.save_card(customer)
    await lender.bank_answers(way, outcome="pending")
    trx_id = (await lender.charge(customer, way.id)).json["trx_id"]
    await lender.db.execute(
        "UPDATE charge SET status = $2, reason = 'Declined', error_code = $3 WHERE trx_id = $1",
        *(trx_id, status, "PAYMENT_DECLINED" if status == "failed" else None),
    )
    await lender.due(trx_id)
    await lender.until(trx_id, "failed")
    [notice] = await lender.notices(trx_id)
    assert notice["status"] == "failed"


CRASHES = {
    "before_way_charge_starts": 1,
    "before_way_charge_commit": 1,
    "before_way_charge_is_sent": 0,
    "after_way_charge_is_sent": 1,
}


@pytest.mark.parametrize("point", CRASHES)
async def test_a_crash_never_sends_a_charge_twice(lender: Lender, point: str) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    order = {"key": "crash", "ref_trx": new_reference()}
    with dying_at(point), contextlib.suppress(Killed, Exception):
        await charge_directly(lender, customer, way.id, order["ref_trx"])
    trx_id = await lender.db.value(
        "SELECT trx_id FROM payment WHERE ref_trx = $1", order["ref_trx"]
    )
    await lender.due(trx_id)
    await lender.shop.simulator.run_jobs()
    await lender.age(trx_id, hours=2)
    sent = CRASHES[point]
    await lender.until(trx_id, "success" if sent else "failed")
    assert len(await lender.requests("paystack", CHARGE_CALL["paystack"])) == sent


async def charge_directly(lender: Lender, customer: str, way_id: str, ref_trx: str) -> None:
    """Charges without the API, whose server must survive the simulated crash."""
    order = lender.order(customer, ref_trx)
    services, merchant = lender.shop.services, lender.merchant
    caller = await services.directory.of(merchant.environment, merchant.new.id)
    await services.way_charges.charge(caller, way_id, order, lender.ticket())


async def test_two_charges_with_one_key_are_one_charge(lender: Lender) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    order = {"key": "twice", "ref_trx": new_reference()}
    replies = await asyncio.gather(*(lender.charge(customer, way.id, **order) for _ in range(8)))
    assert {each.status for each in replies} == {200}
    assert len({each.json["trx_id"] for each in replies}) == 1
    later = await lender.charge(customer, way.id, **order)
    assert later.json["status"] == "success"
    other = await lender.charge(customer, way.id, **order, payment_amount=501)
    assert (other.status, other.code) == (422, "DUPLICATE_REFERENCE")
    repeated = await lender.charge(customer, way.id, ref_trx=order["ref_trx"])
    assert (repeated.status, repeated.code) == (422, "DUPLICATE_REFERENCE")
    assert len(await lender.requests("paystack", CHARGE_CALL["paystack"])) == 1


async def test_a_repeated_request_gets_the_charge_as_it_is_now(lender: Lender) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    await lender.bank_answers(way, outcome="confirm")
    order = {"key": "later", "ref_trx": new_reference()}
    first = await lender.charge(customer, way.id, **order)
    assert first.json["status"] == "pending"
    await lender.shop.pay(await lender.charge_of(first.json["trx_id"]))
    await lender.until(first.json["trx_id"], "success")
    await revoking.end(lender.db, way.merchant_id, way.id, WayEvent.REVOKED, EndedBy.CUSTOMER)
    again = await lender.charge(customer, way.id, **order)
    assert (again.status, again.json["status"]) == (200, "success")
    assert again.json["info"] == first.json["info"]


async def test_a_way_of_somebody_else_is_unknown(
    lender: Lender, tester: Lender, services: Services
) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    other = await lender.customer()
    stranger = Lender(
        msgspec_replace(
            lender,
            await new_merchant(
                *(lender.merchant.site, services.db, services.keyring),
                environment=Environment.PRODUCTION,
            ),
        )
    )
    strange = await stranger.customer(reference=customer)
    in_sandbox = await tester.customer(reference=customer)
    for caller, name in ((lender, other), (stranger, strange), (tester, in_sandbox)):
        reply = await caller.charge(name, way.id)
        assert (reply.status, reply.code) == (404, "WAY_NOT_FOUND")
        gone = await caller.merchant.call("DELETE", f"/api/v1/customers/{name}/ways/{way.id}")
        assert (gone.status, gone.code) == (404, "WAY_NOT_FOUND")
    assert await lender.requests("paystack", CHARGE_CALL["paystack"]) == []
    assert (await lender.now(way)).status is WayStatus.ACTIVE


def msgspec_replace(lender: Lender, merchant: Any) -> Any:
    return type(lender.shop)(lender.shop.services, lender.shop.simulator, merchant)


async def test_a_key_needs_the_right_to_charge(lender: Lender, services: Services) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    reader = await new_key(services, lender.merchant, Right.READ, name="Reader")
    charger = await new_key(services, lender.merchant, Right.CHARGE, name="Charger")
    body = {
        "way_id": way.id,
        "payment_amount": 500,
        "currency_code": "NGN",
        "ref_trx": new_reference(),
        "ipn_url": "https://shop.example/ipn",
    }
    target = f"/api/v1/customers/{customer}/charges"
    assert (await reader.post(target, body)).code == "INSUFFICIENT_PERMISSION"
    assert (await charger.post(target, body)).json["status"] == "success"


async def test_a_charge_of_a_revoked_way_is_not_sent(lender: Lender) -> None:
    """The customer revokes after the payment was created, and before the charge is sent."""
    customer = await lender.customer()
    way = await lender.save_card(customer)
    initiation = lender.shop.services.payments
    initiate = initiation.initiate

    async def revoked_meanwhile(*given: Any) -> Any:
        session = await initiate(*given)
        await revoking.end(lender.db, way.merchant_id, way.id, WayEvent.REVOKED, EndedBy.CUSTOMER)
        return session

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(initiation, "initiate", revoked_meanwhile)
        reply = await lender.charge(customer, way.id)
    assert reply.json["status"] == "failed"
    assert reply.json["decline"] == {"code": "revoked", "kind": "hard"}
    assert await lender.requests("paystack", CHARGE_CALL["paystack"]) == []


async def test_charges_and_a_revocation_at_once(lender: Lender) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    target = f"/api/v1/customers/{customer}/ways/{way.id}"
    replies = await asyncio.gather(
        *(lender.charge(customer, way.id) for _ in range(4)),
        lender.merchant.call("DELETE", target),
        *(lender.charge(customer, way.id) for _ in range(4)),
    )
    paid = [each for each in replies if each.status == 200 and each.json["status"] == "success"]
    sent = await lender.requests("paystack", CHARGE_CALL["paystack"])
    assert len(sent) == len(paid)
    assert (await lender.charge(customer, way.id)).code == "way_unusable"


async def test_declines_are_limited(lender: Lender, services: Services) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    await lender.bank_answers(way, outcome="declined")
    async with setting(services, "way_declines_max", 2):
        for _ in range(2):
            reply = await lender.charge(customer, way.id)
            assert reply.json["decline"]["code"] == "declined"
        limited = await lender.charge(customer, way.id)
        assert (limited.status, limited.code) == (422, "retry_limit")
        await lender.db.execute(
            "UPDATE charge SET created_at = now() - interval '31 days' WHERE way_id = $1", way.id
        )
        await lender.bank_answers(way, outcome="success")
        assert (await lender.charge(customer, way.id)).json["status"] == "success"


async def test_charges_at_once_do_not_exceed_the_limit_of_declines(
    lender: Lender, services: Services
) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    await lender.bank_answers(way, outcome="declined")
    async with setting(services, "way_declines_max", 1):
        await lender.charge(customer, way.id)
        replies = await asyncio.gather(*(lender.charge(customer, way.id) for _ in range(5)))
        assert {each.code for each in replies} == {"retry_limit"}


async def test_a_charge_counts_in_the_daily_limit_unless_it_is_declined(
    lender: Lender, services: Services
) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)  # with a payment of 1,000.00
    async with setting(services, "daily_payment_limits_unverified", "NGN:2000"):
        assert (await lender.charge(customer, way.id)).json["status"] == "success"
        await lender.bank_answers(way, outcome="insufficient_funds")
        assert (await lender.charge(customer, way.id)).json["status"] == "failed"
        await lender.bank_answers(way, outcome="success")
        replies = await asyncio.gather(*(lender.charge(customer, way.id) for _ in range(3)))
        assert sorted(each.status for each in replies) == [200, 400, 400]
        assert {each.code for each in replies if each.status == 400} == {"INVALID_AMOUNT"}


async def test_a_way_of_a_disabled_account_is_unusable(lender: Lender, services: Services) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    await switch(services, "false")
    try:
        reply = await lender.charge(customer, way.id)
        assert (reply.status, reply.code) == (422, "way_unusable")
    finally:
        await switch(services, "true")
    assert (await lender.charge(customer, way.id)).json["status"] == "success"


async def switch(services: Services, is_on: str) -> None:
    changed = {"pay_in_enabled": is_on}
    await credentials.change(services.db, services.keyring, "paystack", changed)
    rails = services.rails
    await until(lambda: rails.credentials("paystack").given.get("pay_in_enabled") == is_on)


async def test_a_replaced_account_does_not_know_the_card(lender: Lender) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    await lender.shop.simulator.control("paystack/reset", {})  # another business's account
    reply = await lender.charge(customer, way.id)
    assert reply.json["decline"] == {"code": "way_invalid", "kind": "hard"}
    assert (await lender.now(way)).status is WayStatus.UNUSABLE
    assert (await lender.charge(customer, way.id)).code == "way_unusable"


@pytest.mark.parametrize("amount", [0, -5, 0.001, 10**16, "NaN", None])
async def test_a_bad_amount_is_rejected(lender: Lender, amount: Any) -> None:
    customer = await lender.customer()
    reply = await lender.charge(customer, "WAY1", payment_amount=amount)
    assert reply.status == 400
    assert "payment_amount" in reply.json["errors"]


async def test_a_way_in_another_currency_is_unusable(lender: Lender) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    reply = await lender.charge(customer, way.id, currency_code="USD")
    assert reply.code in ("way_unusable", "INVALID_CURRENCY")


async def test_a_disabled_customer_is_not_charged(lender: Lender) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    await lender.merchant.post(f"/api/v1/customers/{customer}/disable", {})
    reply = await lender.charge(customer, way.id)
    assert (reply.status, reply.code) == (422, "customer_disabled")


async def test_a_second_process_sees_the_same_charge(lender: Lender, services: Services) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    order = {"key": "both", "ref_trx": new_reference()}
    async with second_program(services, lender.merchant) as twin:
        other = Lender(msgspec_replace(lender, twin))
        replies = await asyncio.gather(
            *(each.charge(customer, way.id, **order) for each in (lender, other) * 3)
        )
    assert len({each.json["trx_id"] for each in replies}) == 1
    assert len(await lender.requests("paystack", CHARGE_CALL["paystack"])) == 1


async def test_the_token_is_encrypted_and_bound_to_its_row(lender: Lender) -> None:
    customer = await lender.customer()
    way, other = await lender.save_card(customer), await lender.save_card(customer)
    keyring = lender.shop.services.keyring
    assert way.token_sealed is not None
    assert b"AUTH_" not in way.token_sealed
    assert keyring.open(way.token_sealed, way.context).startswith(b"AUTH_")
    await lender.db.execute(
        "UPDATE saved_way SET token_sealed = $2 WHERE id = $1", other.id, way.token_sealed
    )
    reply = await lender.charge(customer, other.id)
    assert reply.json["decline"]["code"] == "not_sent"
    assert await lender.requests("paystack", CHARGE_CALL["paystack"]) == []
    found = await store.way(lender.db, way.merchant_id, way.id)
    assert found == way
    assert msgspec.json.encode(reply.json).find(b"AUTH_") < 0
