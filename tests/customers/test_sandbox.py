"""Customers' accounts in the sandbox, through the API."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from manilla.api.customers import CUSTOMERS
from manilla.customers.account import AccountStatus
from manilla.customers.tasks import SANDBOX_FAILING_BVN
from tests.customers.steps import Customers
from tests.payments.orders import INITIATE, VERIFY, order
from tests.payments.shop import Shop
from tests.support.client import Reply

PUPIL = f"{CUSTOMERS}/pupil-17"


@pytest.fixture
async def customers(sandbox_shop: Shop) -> AsyncIterator[Customers]:
    steps = Customers(sandbox_shop)
    yield steps
    assert await steps.broken_rules() == []


async def post(customers: Customers, path: str, body: Any) -> Reply:
    return await customers.shop.merchant.post(f"{PUPIL}/{path}", body)


async def active(customers: Customers) -> dict[str, Any]:
    """Returns the active account of a new customer."""
    await customers.customer(ipn_url="https://shop.example/ipn")
    reply = await post(customers, "accounts", {"count": 1})
    assert reply.status == 200, reply.body
    [pending] = reply.json["data"]
    assert (pending["status"], pending["account_number"]) == ("pending", None)
    await customers.make_due()
    await customers.shop.simulator.run_jobs()
    listed = (await customers.shop.merchant.get(f"{PUPIL}/accounts")).json["data"]
    [account] = listed
    assert account["status"] == "active"
    return dict(account)


async def test_a_test_transfer_becomes_a_payment_with_its_payer(customers: Customers) -> None:
    account = await active(customers)
    sent = {"account_id": account["id"], "amount": 1500.50, "payer_name": "Chidi Eze"}
    reply = await post(customers, "test-transfer", sent)
    assert reply.status == 200, reply.body
    trx_id = reply.json["trx_id"]
    verified = (await customers.shop.merchant.get(VERIFY + trx_id)).json
    assert verified["status"] == "success"
    assert verified["amount"] == 1500.50
    assert verified["customer_reference"] == "pupil-17"
    assert verified["account_id"] == account["id"]
    assert verified["payer"]["name"] == "Chidi Eze"
    raw = await customers.db.value("SELECT body FROM notification WHERE trx_id = $1", trx_id)
    notice = json.loads(raw)
    assert (notice["event"], notice["message"]) == ("payment", "Payment Completed")
    assert notice["data"]["ipn_url"] == "https://shop.example/ipn"
    assert notice["data"]["payer"] == verified["payer"]
    assert notice["data"]["ref_trx"].startswith("ACC-")
    assert await customers.events() == ["account.active", "payment.success"]


async def test_two_accounts_are_at_two_providers(customers: Customers) -> None:
    await customers.customer()
    first = (await post(customers, "accounts", {"count": 2})).json["data"]
    again = (await post(customers, "accounts", {"count": 2})).json["data"]
    assert len({each["method_code"] for each in first}) == 2
    assert [each["id"] for each in again] == [each["id"] for each in first]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"method_codes": ["providera-ngn"]}, "no_account_method"),
        ({"method_codes": ["unknown"]}, "no_account_method"),
        ({"method_codes": []}, "VALIDATION_FAILED"),
        ({"count": 3}, "VALIDATION_FAILED"),
    ],
)
async def test_invalid_requests_create_no_account(
    customers: Customers, body: dict[str, Any], code: str
) -> None:
    await customers.customer()
    assert (await post(customers, "accounts", body)).code == code
    assert (await customers.shop.merchant.get(f"{PUPIL}/accounts")).json["data"] == []


async def test_a_failed_account_says_what_the_merchant_can_do(customers: Customers) -> None:
    await customers.customer(bvn=SANDBOX_FAILING_BVN)
    await post(customers, "accounts", {})
    await customers.make_due()
    await customers.shop.simulator.run_jobs()
    [account] = (await customers.shop.merchant.get(f"{PUPIL}/accounts")).json["data"]
    assert (account["status"], account["error_code"]) == ("failed", "account_details_rejected")
    assert "BVN" in account["error"]
    assert await customers.events() == ["account.failed"]


async def test_a_closed_account_accepts_no_test_transfer(customers: Customers) -> None:
    account = await active(customers)
    reply = await customers.shop.merchant.call("DELETE", f"{PUPIL}/accounts/{account['id']}")
    assert reply.status == 200, reply.body
    sent = {"account_id": account["id"], "amount": 10}
    assert (await post(customers, "test-transfer", sent)).code == "HELD_FOR_REVIEW"
    await customers.make_due()
    await customers.shop.simulator.run_jobs()
    [closed] = (await customers.shop.merchant.get(f"{PUPIL}/accounts")).json["data"]
    assert closed["status"] == AccountStatus.CLOSED
    assert await customers.payments() == []


async def test_payments_are_attached_only_explicitly(customers: Customers) -> None:
    await customers.customer(email="ada@example.com")
    merchant = customers.shop.merchant
    reply = await merchant.post(INITIATE, order(customer_email="ada@example.com"))
    trx_id = reply.json["payment_url"].partition("?")[0].rpartition("/")[2]
    [payment] = await customers.payments()
    assert payment.customer_reference is None
    assert (await post(customers, "attach", {"trx_ids": [trx_id]})).json == {"attached": 1}
    assert (await post(customers, "attach", {"trx_ids": [trx_id]})).json == {"attached": 0}
    [payment] = await customers.payments()
    assert payment.customer_reference == "pupil-17"
    await customers.customer("pupil-18")
    other = await merchant.post(f"{CUSTOMERS}/pupil-18/attach", {"trx_ids": [trx_id]})
    assert other.code == "payment_of_other_customer"


@pytest.mark.parametrize("amount", [0, 0.001, -5, "10", 10**16])
async def test_a_test_transfer_of_an_impossible_amount_is_rejected(
    customers: Customers, amount: Any
) -> None:
    account = await active(customers)
    reply = await post(customers, "test-transfer", {"account_id": account["id"], "amount": amount})
    assert reply.status in (400, 422), reply.body
    assert await customers.payments() == []


async def test_a_repeated_test_transfer_is_one_payment(customers: Customers) -> None:
    account = await active(customers)
    body = json.dumps({"account_id": account["id"], "amount": 10}).encode()
    path = f"{PUPIL}/test-transfer"
    merchant = customers.shop.merchant
    first = await merchant.call("POST", path, body, Idempotency_Key="transfer 1")
    again = await merchant.call("POST", path, body, Idempotency_Key="transfer 1")
    assert first.status == 200, first.body
    assert again.body == first.body
    assert len(await customers.payments()) == 1
