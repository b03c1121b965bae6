"""Saved ways in the dashboard and in the command."""

import pytest

from manilla.saved_ways import store
from manilla.services import Services
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.payments.shop import Shop
from tests.saved_ways.steps import Lender
from tests.support.client import Site
from tests.support.provider_simulator import ProviderSimulator


@pytest.fixture
async def dashboard(services: Services, site: Site) -> MerchantDashboard:
    return await new_dashboard(services, site)


async def test_a_customers_ways_are_shown_and_revoked(
    dashboard: MerchantDashboard, providers: ProviderSimulator
) -> None:
    lender = Lender(Shop(dashboard.services, providers, dashboard.merchant))
    customer = await lender.customer()
    caller = await dashboard.services.directory.of(
        dashboard.merchant.environment, dashboard.merchant.new.id
    )
    way = await lender.create_mandate(caller, customer)
    found = await dashboard.services.db.value(
        "SELECT id FROM customer WHERE reference = $1", customer
    )
    path = f"/sandbox/customers/{found}"
    page = (await dashboard.owner.get(path)).body.decode()
    assert way.label in page
    await dashboard.owner.post(f"{path}/ways/{way.id}/revoke", {})
    page = (await dashboard.owner.get(path)).body.decode()
    assert f"/ways/{way.id}/revoke" not in page
    ended = await store.way(dashboard.services.db, way.merchant_id, way.id)
    assert ended is not None
    assert (ended.status, ended.ended_by) == ("revoked", "merchant")
