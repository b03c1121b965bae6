"""The names, statuses and codes of customers and accounts that merchants depend on."""

import json
from typing import Any

import pytest

from manilla.api import v1
from manilla.api.customers import CUSTOMERS
from manilla.customers.account import NEXT
from manilla.customers.tasks import SANDBOX_FAILING_BVN
from manilla.merchants.rights import Right
from manilla.notify.events.kinds import EVENT_TYPES
from manilla.services import Services
from tests.customers.steps import Customers
from tests.customers.test_customers import ADA
from tests.customers.test_sandbox import PUPIL, active, customers, post
from tests.payments.orders import VERIFY
from tests.support.client import Merchant

__all__ = ["customers"]

RIGHTS = {
    "POST /api/v1/customers": Right.MANAGE,
    "GET /api/v1/customers": Right.READ,
    "GET /api/v1/customers/{reference}": Right.READ,
    "PATCH /api/v1/customers/{reference}": Right.MANAGE,
    "POST /api/v1/customers/{reference}/disable": Right.MANAGE,
    "POST /api/v1/customers/{reference}/accounts": Right.MANAGE,
    "GET /api/v1/customers/{reference}/accounts": Right.READ,
    "DELETE /api/v1/customers/{reference}/accounts/{accountId}": Right.MANAGE,
    "GET /api/v1/customers/{reference}/ways": Right.READ,
    "DELETE /api/v1/customers/{reference}/ways/{wayId}": Right.CHARGE,
    "POST /api/v1/customers/{reference}/charges": Right.CHARGE,
}
ACCOUNT_FIELDS = {
    *("id", "status", "bank_name", "bank_code", "account_number", "account_name", "currency"),
}


def test_each_endpoint_needs_its_right(services: Services) -> None:
    offered = {f"{each.method} {each.path}": each for each in v1.endpoints(services)}
    for name, right in RIGHTS.items():
        assert offered[name].right is right, name


def test_the_statuses_and_events_of_accounts() -> None:
    assert set(NEXT) == {"pending", "active", "failed", "closed"}
    assert {"account.active", "account.failed", "account.closed"} <= set(EVENT_TYPES)


async def test_the_fields_of_customers(sandbox: Merchant) -> None:
    given = {"reference", "name", "email", "phone"}
    minimal = await sandbox.post(CUSTOMERS, {"reference": "pupil-18", "name": "Eve"})
    assert minimal.status == 200, minimal.body
    full = await sandbox.post(CUSTOMERS, ADA | {"nin": "12345678901"})
    assert full.status == 200, full.body
    assert given | {"bvn_given", "nin_given"} <= set(full.json)
    assert not {"bvn", "nin"} & set(full.json)
    assert (full.json["bvn_given"], full.json["nin_given"]) == (True, True)
    assert await got(sandbox, PUPIL) == full.json
    assert (await got(sandbox, CUSTOMERS))["data"] == [full.json, minimal.json]
    assert (await got(sandbox, CUSTOMERS))["next_cursor"] is None


async def test_one_key_creates_one_customer(sandbox: Merchant) -> None:
    async def create(body: dict[str, Any]) -> Any:
        raw = json.dumps(body).encode()
        return await sandbox.call("POST", CUSTOMERS, raw, Idempotency_Key="pupil 17")

    first, again = await create(ADA), await create(ADA)
    assert (again.status, again.body) == (200, first.body)
    assert again.headers["idempotent-replayed"] == "true"
    other = await create(ADA | {"reference": "pupil-18"})
    assert (other.status, other.code) == (422, "DUPLICATE_REFERENCE")
    assert [each["reference"] for each in (await got(sandbox, CUSTOMERS))["data"]] == ["pupil-17"]


async def test_the_fields_of_accounts_and_their_events(customers: Customers) -> None:
    account = await active(customers)
    merchant = customers.shop.merchant
    assert set(account) >= ACCOUNT_FIELDS
    assert not {"error", "error_code"} & set(account)
    assert account["id"].startswith("ACC")
    closed = await merchant.call("DELETE", f"{PUPIL}/accounts/{account['id']}")
    assert (closed.status, closed.json["id"]) == (200, account["id"])
    again = await merchant.call("DELETE", f"{PUPIL}/accounts/{account['id']}")
    assert (again.status, again.json["id"]) == (200, account["id"])
    await customers.make_due()
    await customers.shop.simulator.run_jobs()
    assert (await got(merchant, f"{PUPIL}/accounts"))["data"][0]["status"] == "closed"
    events = [json.loads(each["body"]) for each in await notices(customers)]
    assert [each["event"] for each in events] == ["account", "account"]
    assert [each["status"] for each in events] == ["active", "closed"]
    assert set(events[0]["data"]) >= ACCOUNT_FIELDS
    assert await customers.events() == ["account.active", "account.closed"]


async def test_a_failed_account_has_an_error(customers: Customers) -> None:
    await customers.customer(bvn=SANDBOX_FAILING_BVN)
    await post(customers, "accounts", {})
    await customers.make_due()
    await customers.shop.simulator.run_jobs()
    [failed] = (await got(customers.shop.merchant, f"{PUPIL}/accounts"))["data"]
    assert failed["status"] == "failed"
    assert {*ACCOUNT_FIELDS, "error_code", "error"} <= set(failed)
    assert await customers.events() == ["account.failed"]


@pytest.mark.parametrize("given", ["customer", "account", None])
async def test_a_transfer_is_notified_to_the_account_or_the_customer(
    customers: Customers, given: str | None
) -> None:
    addresses = {"customer": "https://shop.example/customer", "account": "https://shop.example/a"}
    await customers.customer(ipn_url="" if given is None else addresses["customer"])
    wanted = {"ipn_url": addresses["account"]} if given == "account" else {}
    await post(customers, "accounts", {"count": 1, **wanted})
    await customers.make_due()
    await customers.shop.simulator.run_jobs()
    merchant = customers.shop.merchant
    [account] = (await got(merchant, f"{PUPIL}/accounts"))["data"]
    sent = await post(customers, "test-transfer", {"account_id": account["id"], "amount": 100})
    trx_id = sent.json["trx_id"]
    verified = await got(merchant, VERIFY + trx_id)
    assert (verified["customer_reference"], verified["account_id"]) == ("pupil-17", account["id"])
    assert set(verified["payer"]) == {"name", "bank", "account_number", "session_id"}
    [listed] = (await got(merchant, "/api/v1/payments"))["data"]
    assert listed["payer"] == verified["payer"]
    notice = next(each for each in await notices(customers) if each["trx_id"] == trx_id)
    assert notice["url"] == addresses.get(given or "", "")
    data = json.loads(notice["body"])["data"]
    assert {name: data[name] for name in ("customer_reference", "account_id", "payer")} == {
        name: verified[name] for name in ("customer_reference", "account_id", "payer")
    }
    assert data["ref_trx"].startswith("ACC-")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", CUSTOMERS + "/unknown"),
        ("PATCH", CUSTOMERS + "/unknown"),
        ("POST", CUSTOMERS + "/unknown/disable"),
        ("POST", CUSTOMERS + "/unknown/accounts"),
        ("GET", CUSTOMERS + "/unknown/accounts"),
        ("GET", CUSTOMERS + "/unknown/ways"),
        ("DELETE", CUSTOMERS + "/unknown/accounts/ACC1"),
        ("DELETE", CUSTOMERS + "/unknown/ways/WAY1"),
        ("DELETE", PUPIL + "/accounts/ACC1"),
        ("DELETE", PUPIL + "/ways/WAY1"),
    ],
)
async def test_unknown_ids_are_404(sandbox: Merchant, method: str, path: str) -> None:
    await sandbox.post(CUSTOMERS, ADA)
    body = b"{}" if method in ("POST", "PATCH") else b""
    assert (await sandbox.call(method, path, body)).status == 404


async def got(merchant: Merchant, path: str) -> Any:
    reply = await merchant.get(path)
    assert reply.status == 200, reply.body
    return reply.json


async def notices(customers: Customers) -> list[Any]:
    return await customers.db.records(
        "SELECT trx_id, url, body FROM notification WHERE merchant_id = $1 ORDER BY id",
        customers.tenant.merchant_id,
    )
