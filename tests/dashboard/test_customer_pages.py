"""Customers in the dashboard: creating them, their account numbers, and test transfers."""

import pytest

from manilla.customers import store
from manilla.customers.customer import CustomerRow
from manilla.ledger.scope import Tenant
from manilla.services import Services
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.support.client import Site

CUSTOMERS = "/sandbox/customers"
ADA = {"reference": "pupil-17", "name": "Ada Obi", "phone": "+2348012345678", "bvn": "22222222222"}


@pytest.fixture
async def dashboard(services: Services, site: Site) -> MerchantDashboard:
    return await new_dashboard(services, site)


async def find(dashboard: MerchantDashboard) -> CustomerRow:
    tenant = Tenant(dashboard.merchant.new.id, dashboard.merchant.environment)
    return await store.of_tenant(dashboard.services.db, tenant, "pupil-17")


async def test_a_customer_gets_a_number_and_a_test_transfer(dashboard: MerchantDashboard) -> None:
    await dashboard.owner.post(CUSTOMERS, ADA)
    customer = await find(dashboard)
    path = f"{CUSTOMERS}/{customer.id}"
    await dashboard.owner.post(f"{path}/accounts", {"method": "paystack_ngn_va"})
    await dashboard.run_jobs()
    page = (await dashboard.owner.get(path)).body.decode()
    number = await dashboard.services.db.value(
        "SELECT account_number FROM customer_account WHERE customer_id = $1", customer.id
    )
    assert f'data-copy="{number}"' in page
    assert "data:image/svg+xml" in page
    assert "22222222222" not in page
    account_id = await dashboard.services.db.value(
        "SELECT id FROM customer_account WHERE customer_id = $1", customer.id
    )
    sent = {"account": account_id, "amount": "1,500.50"}
    await dashboard.owner.post(f"{path}/test-transfer", sent)
    page = (await dashboard.owner.get(path)).body.decode()
    assert "₦1,500.50" in page
    await dashboard.owner.post(f"{path}/test-transfer", sent)
    page = (await dashboard.owner.get(path)).body.decode()
    assert 'Paid in total: <strong class="num">₦3,001.00</strong>' in page
    listed = (await dashboard.owner.get(f"{CUSTOMERS}?search={number}")).body.decode()
    assert "Ada Obi" in listed


@pytest.mark.parametrize(
    ("field", "value"),
    [("reference", "a b"), ("name", ""), ("email", "none"), ("bvn", "123"), ("phone", "x")],
)
async def test_an_invalid_field_is_named(
    dashboard: MerchantDashboard, field: str, value: str
) -> None:
    page = (await dashboard.owner.post(CUSTOMERS, ADA | {field: value})).body.decode()
    assert "has-error" in page
    assert "Create customer" in page


async def test_erased_data_is_gone_from_the_page(dashboard: MerchantDashboard) -> None:
    await dashboard.owner.post(CUSTOMERS, ADA)
    path = f"{CUSTOMERS}/{(await find(dashboard)).id}"
    exported = (await dashboard.owner.get(f"{path}/export")).body
    assert b"Ada Obi" in exported
    assert b"22222222222" not in exported
    await dashboard.owner.post(f"{path}/erase", {})
    page = (await dashboard.owner.get(path)).body.decode()
    assert "Ada Obi" not in page
    assert "Erased" in page
