"""Payment links that show a customer's account numbers."""

import json
from typing import Any
from urllib.parse import urlsplit

from manilla.api.customers import CUSTOMERS
from manilla.api.payment_links import LINKS
from manilla.services import Services
from tests.customers.steps import Customers
from tests.customers.test_sandbox import PUPIL, active, customers
from tests.support.client import Reply, Site, new_merchant

__all__ = ["customers"]

LINK = {"title": "School fees", "currency_code": "NGN", "customer_reference": "pupil-17"}


async def create(customers: Customers, **changed: Any) -> Reply:
    return await customers.shop.merchant.post(LINKS, LINK | changed)


async def page(customers: Customers, url: str) -> str:
    reply = await customers.shop.merchant.site.send("GET", urlsplit(url).path)
    assert reply.status == 200, reply.body
    return reply.body.decode()


async def test_a_link_shows_the_customers_numbers_and_its_payments_are_theirs(
    customers: Customers,
) -> None:
    account = await active(customers)
    created = (await create(customers)).json
    shown = await page(customers, created["url"])
    assert account["account_number"] in shown
    assert account["account_name"] in shown
    merchant = customers.shop.merchant
    listed = (await merchant.get(f"{LINKS}/{created['id']}")).json
    assert listed["customer_reference"] == "pupil-17"
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    path = urlsplit(created["url"]).path
    started = await merchant.site.send("POST", path, form, b"amount=1500")
    assert started.status == 303, started.body
    [payment] = await customers.payments()
    assert payment.customer_reference == "pupil-17"
    assert payment.account_id is None


async def test_a_number_that_credits_nothing_is_not_shown(customers: Customers) -> None:
    account = await active(customers)
    url = (await create(customers)).json["url"]
    merchant = customers.shop.merchant
    await merchant.post(f"{PUPIL}/disable", b"")
    assert account["account_number"] not in await page(customers, url)
    await merchant.post(f"{PUPIL}/enable", b"")
    assert account["account_number"] in await page(customers, url)
    await merchant.call("DELETE", f"{PUPIL}/accounts/{account['id']}")
    assert account["account_number"] not in await page(customers, url)


async def test_a_link_without_a_customer_shows_no_number(customers: Customers) -> None:
    account = await active(customers)
    created = (await create(customers, customer_reference=None)).json
    assert account["account_number"] not in await page(customers, created["url"])
    listed = (await customers.shop.merchant.get(f"{LINKS}/{created['id']}")).json
    assert "customer_reference" not in listed


async def test_only_an_own_customer_can_be_shown(
    customers: Customers, services: Services, site: Site
) -> None:
    other = await new_merchant(site, services.db, services.keyring)
    await other.post(CUSTOMERS, {"reference": "pupil-17", "name": "Eve"})
    reply = await create(customers)
    assert (reply.status, reply.code) == (404, "CUSTOMER_NOT_FOUND")
    assert (await customers.shop.merchant.get(LINKS)).json["data"] == []


async def test_a_single_payment_link_cannot_show_a_number(customers: Customers) -> None:
    await customers.customer()
    reply = await create(customers, single_use=True)
    assert (reply.status, set(json.loads(reply.body)["errors"])) == (400, {"customer_reference"})
