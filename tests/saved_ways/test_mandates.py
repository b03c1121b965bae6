"""Mandates (direct debit) at the simulated Monnify."""

import contextlib
from typing import Any

import pytest

from manilla.saved_ways import store
from manilla.saved_ways.way import SavedWay, WayStatus
from tests.payouts.model import Killed
from tests.payouts.model_machine import dying_at
from tests.saved_ways.steps import Lender
from tests.support.client import Reply

TERMS = {
    "amount_max": 1000,
    "currency_code": "NGN",
    "bank_code": "058",
    "account_number": "0123456789",
    "customer_address": "12 Allen Avenue, Ikeja",
    "description": "Loan 17",
    "end_date": "2035-12-31",
    "redirect_url": "https://lender.example/loans/17",
}


async def create(lender: Lender, customer: str, **changed: Any) -> Reply:
    return await lender.merchant.post(f"/api/v1/customers/{customer}/ways", {**TERMS, **changed})


async def active(lender: Lender, customer: str) -> SavedWay:
    reply = await create(lender, customer)
    assert reply.status == 200, reply.body
    await confirm(lender, reply.json["id"])
    return await way_of(lender, reply.json["id"])


async def way_of(lender: Lender, way_id: str) -> SavedWay:
    found = await store.way(lender.db, lender.merchant.new.id, way_id)
    assert found is not None
    return found


async def confirm(lender: Lender, way_id: str, status: str = "active") -> None:
    """The customer or the bank changes the mandate, and the provider sends a webhook."""
    await lender.shop.simulator.control(f"monnify/mandates/{way_id}/status", {"status": status})

    async def is_applied() -> bool:
        return (await way_of(lender, way_id)).status != WayStatus.PENDING

    await lender.shop.simulator.until(is_applied)


async def test_a_confirmed_mandate_is_debited(lender: Lender) -> None:
    customer = await lender.customer()
    made = await create(lender, customer)
    assert (made.json["status"], made.json["kind"]) == ("pending", "mandate")
    assert made.json["label"].endswith("•••• 6789")
    assert made.json["consented_at"] is None
    early = await lender.charge(customer, made.json["id"])
    assert (early.status, early.code) == (422, "way_unusable")
    await lender.shop.simulator.run_job_now("saved_way", made.json["id"])
    [waiting] = await lender.ways(customer)
    assert "/mandate/" in waiting["customer_action_url"]
    await confirm(lender, made.json["id"])
    [listed] = await lender.ways(customer)
    assert (listed["status"], listed["customer_action_url"]) == ("active", None)
    assert listed["consented_at"] is not None
    reply = await lender.charge(customer, made.json["id"])
    assert reply.status == 200, reply.body
    await lender.until(reply.json["trx_id"], "success")
    assert await lender.shop.balance() == 500_00
    assert len(await lender.requests("monnify", "/mandate/debit")) >= 1


async def test_a_debit_above_the_mandate_is_declined(lender: Lender) -> None:
    customer = await lender.customer()
    way = await active(lender, customer)
    reply = await lender.charge(customer, way.id, payment_amount=1001)
    assert reply.json["decline"] == {"code": "amount_too_high", "kind": "hard"}
    assert (await way_of(lender, way.id)).status is WayStatus.ACTIVE


async def test_a_suspended_mandate_is_not_debited_until_it_is_active_again(lender: Lender) -> None:
    customer = await lender.customer()
    way = await active(lender, customer)
    for status, code in (("suspended", 422), ("active", 200)):
        path = f"monnify/mandates/{way.id}/status"
        await lender.shop.simulator.control(path, {"status": status})

        async def is_so(expected: str = status) -> bool:
            return (await way_of(lender, way.id)).status == expected

        await lender.shop.simulator.until(is_so)
        assert (await lender.charge(customer, way.id)).status == code


@pytest.mark.parametrize(
    ("status", "expected"), [("failed", "failed"), ("expired", "failed"), ("canceled", "revoked")]
)
async def test_a_mandate_that_is_not_confirmed_ends(
    lender: Lender, status: str, expected: str
) -> None:
    customer = await lender.customer()
    made = await create(lender, customer)
    await confirm(lender, made.json["id"], status)
    [listed] = await lender.ways(customer)
    assert listed["status"] == expected


async def test_a_revoked_mandate_is_canceled_at_the_provider(lender: Lender) -> None:
    customer = await lender.customer()
    way = await active(lender, customer)
    await lender.merchant.call("DELETE", f"/api/v1/customers/{customer}/ways/{way.id}")
    await lender.shop.simulator.run_jobs()
    listed = await lender.shop.simulator.read(f"monnify/mandates?reference={way.id}")
    assert [each["status"] for each in listed["mandates"]] == ["canceled"]
    assert (await way_of(lender, way.id)).token_sealed is None


@pytest.mark.parametrize("fault", ["5xx_after_accept", "garbage_after_accept"])
async def test_a_lost_answer_creates_one_mandate(lender: Lender, fault: str) -> None:
    customer = await lender.customer()
    await lender.shop.simulator.control(
        "monnify/faults", {"next": [{"call": "mandate", "fault": fault}]}
    )
    made = await create(lender, customer)
    assert (made.status, made.json["status"]) == (200, "pending")
    await lender.shop.simulator.run_job_now("saved_way", made.json["id"])
    await confirm(lender, made.json["id"])
    assert (await lender.charge(customer, made.json["id"])).status == 200
    assert len(await lender.requests("monnify", "/mandate/create")) == 1


@pytest.mark.parametrize("point", ["before_mandate_is_created", "after_mandate_is_created"])
async def test_a_crash_creates_at_most_one_mandate(lender: Lender, point: str) -> None:
    customer = await lender.customer()
    services = lender.shop.services
    caller = await services.directory.of(lender.merchant.environment, lender.merchant.new.id)
    with dying_at(point), contextlib.suppress(Killed):
        await lender.create_mandate(caller, customer)
    [way] = await store.ways_of(lender.db, lender.tenant, customer)
    await lender.db.execute(
        "UPDATE saved_way SET created_at = created_at - interval '2 hours' WHERE id = $1", way.id
    )
    await lender.shop.simulator.run_job_now("saved_way", way.id)
    sent = len(await lender.requests("monnify", "/mandate/create"))
    assert sent == (0 if point == "before_mandate_is_created" else 1)
    expected = WayStatus.PENDING if sent else WayStatus.FAILED
    assert (await way_of(lender, way.id)).status is expected


async def test_a_rejected_mandate_says_why(lender: Lender) -> None:
    customer = await lender.customer()
    reply = await create(lender, customer, account_number="0000000002")
    assert (reply.status, reply.code) == (422, "way_unusable")
    assert "account number" in reply.json["error"].lower()
    [listed] = await lender.ways(customer)
    assert listed["status"] == "failed"


@pytest.mark.parametrize(
    "changed",
    [
        {"end_date": "2020-01-01"},
        {"end_date": "2035-13-41"},
        {"account_number": "12345"},
        {"amount_max": 0},
        {"description": "x"},
        {"redirect_url": "javascript:alert(1)"},
    ],
)
async def test_bad_terms_are_named(lender: Lender, changed: dict[str, Any]) -> None:
    customer = await lender.customer()
    reply = await create(lender, customer, **changed)
    assert reply.status == 400
    assert set(reply.json["errors"]) == set(changed)


async def test_a_mandate_needs_the_customers_contact(lender: Lender) -> None:
    customer = await lender.customer(phone=None)
    reply = await create(lender, customer)
    assert (reply.status, reply.code) == (422, "way_unusable")
    assert await lender.ways(customer) == []


async def test_a_mandate_we_did_not_create_changes_nothing(lender: Lender) -> None:
    body = {
        "eventType": "MANDATE_UPDATE",
        "eventData": {"externalMandateReference": "someone-else", "mandateStatus": "ACTIVATED"},
    }
    await lender.shop.simulator.control("monnify/webhooks/send", {"body": body})
    await lender.shop.simulator.run_jobs()
    assert await lender.shop.cases() == []
