"""Customers in the console: the list, one customer, the accounts by provider, and the search."""

import secrets
from collections.abc import AsyncIterator
from urllib.parse import urlencode

import pytest

from manilla.console import lookup
from manilla.customers.account import AccountStatus
from manilla.customers.account_store import last_failures
from manilla.customers.tasks import SANDBOX_FAILING_BVN
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.lookup.find import find
from manilla.services import Services
from tests.console.conftest import PopulatedConsole
from tests.customers.steps import Customers
from tests.payments.shop import Shop
from tests.saved_ways.steps import Lender
from tests.saved_ways.test_mandates import create
from tests.support.client import Merchant, Site, new_merchant
from tests.support.provider_simulator import ProviderSimulator, running_simulator


@pytest.fixture(scope="module")
async def providers(services: Services) -> AsyncIterator[ProviderSimulator]:
    async with running_simulator(services, ("monnify",)) as running:
        yield running


@pytest.fixture
async def merchant(services: Services, site: Site) -> Merchant:
    return await new_merchant(site, services.db, services.keyring, environment=Environment.SANDBOX)


@pytest.fixture
async def customers(
    services: Services, providers: ProviderSimulator, merchant: Merchant
) -> Customers:
    return Customers(Shop(services, providers, merchant))


async def opened(populated: PopulatedConsole, path: str) -> str:
    reply = await populated.administrator.get(path)
    assert reply.status == 200, reply.body
    return reply.body.decode()


async def test_a_customer_is_found_by_any_id_and_by_what_a_person_knows(
    customers: Customers, populated: PopulatedConsole
) -> None:
    own = secrets.token_hex(4)
    reference, email = f"pupil-{own}", f"{own}@example.com"
    account = await customers.account(
        "monnify",
        reference,
        name=f"Ngozi {own}",
        email=email,
        phone=f"+234{secrets.randbelow(10**9)}",
    )
    customer = await customers.customer_of(account)
    lender = Lender(customers.shop)
    way = (await create(lender, reference)).json
    trx_id = await customers.services.receiving.simulate(
        await customers.caller(), account, Money.of("1500.50", "NGN"), "Chidi Eze"
    )
    session = f"0000152601{secrets.randbelow(10**12):012}"
    await customers.db.execute(
        "UPDATE payment SET payer = payer || jsonb_build_object('session_id', $2::text)"
        " WHERE trx_id = $1",
        *(trx_id, session),
    )
    assert account.account_number is not None
    assert customer.phone is not None
    searches = {
        customer.id: "Customer ID",
        account.id: "Account ID",
        way["id"]: "Saved way ID",
        account.account_number: "Account number",
        session: "Session ID",
        reference: "Reference",
        email.upper(): "Email",
        own[:6]: "Name",
        customer.phone: "Phone",
    }
    for text, field in searches.items():
        page = await opened(populated, f"/search/results?{urlencode({'q': text})}")
        assert f"/console/customers/{customer.id}" in page, text
        assert f"{field}: " in page, text
    for text in (customer.id, account.id, way["id"]):
        found = await find(customers.db, text)
        assert found is not None
        assert (found.kind, found.id) == ("customer", customer.id)
        assert await lookup.path_of(customers.db, text) == f"/customers/{customer.id}"
    assert await find(customers.db, customer.id[:-1] + "0") is None


async def test_a_customers_page_has_accounts_ways_and_payments(
    customers: Customers, populated: PopulatedConsole
) -> None:
    account = await customers.account("monnify", name="Ngozi Bello", email="ngozi@example.com")
    way = (await create(Lender(customers.shop), "pupil-17")).json
    await customers.services.receiving.simulate(
        await customers.caller(), account, Money.of("1500.50", "NGN"), "Chidi Eze"
    )
    [payment] = await customers.payments()
    page = await opened(populated, f"/customers/{account.customer_id}")
    for shown in ("Ngozi Bello", account.account_number, way["id"], payment.ref_trx, "1,500.50"):
        assert shown is not None
        assert shown in page
    assert "22222222222" not in page
    listed = await opened(populated, f"/customers?merchant={account.merchant_id}")
    assert account.customer_id in listed
    for text in ("CUS1", account.id):
        assert (await populated.administrator.get(f"/customers/{text}")).status == 404


async def test_accounts_are_counted_by_provider_with_the_last_failure(
    customers: Customers, populated: PopulatedConsole
) -> None:
    requested = await customers.request(
        await customers.customer(bvn=SANDBOX_FAILING_BVN), "monnify"
    )
    account = await customers.until(requested, AccountStatus.FAILED)
    page = await opened(populated, "/customers/providers")
    assert account.id in page
    assert account.error is not None
    assert account.error[:40] in page
    assert account.id in {each.id for each in await last_failures(customers.db, 50)}
