"""GET /api/v1/account, with which a shop checks its settings."""

from decimal import Decimal
from typing import Any

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.merchants import checkout_origins
from manilla.merchants.merchants import CommissionBearer
from manilla.merchants.rights import GRANTABLE, Right
from manilla.services import Services
from tests.api.test_keys import new_key
from tests.payments.orders import order
from tests.payments.steps import ALL_PROVIDERS, configure, initiate, set_commission, setting
from tests.support.client import Merchant, Site, new_merchant
from tests.support.freshness import outdate

PATH = "/api/v1/account"


async def account(merchant: Merchant) -> Any:
    reply = await merchant.get(PATH)
    assert reply.status == 200, reply.body
    return reply.json


async def test_the_main_key_sees_the_whole_account(merchant: Merchant) -> None:
    found = await account(merchant)
    [currency] = found["currencies"]
    assert {**found, "currencies": []} == {
        "merchant_id": merchant.new.id,
        "name": found["name"],
        "environment": "sandbox",
        "status": "approved",
        "api_key": {
            "name": None,
            "rights": [str(right) for right in GRANTABLE],
            "expires_at": None,
        },
        "checkout_minutes": 30,
        "checkout_origins": [],
        "commission_bearer": "customer",
        "currencies": [],
    }
    assert (currency["code"], currency["decimals"], currency["minimum"]) == ("NGN", 2, 1)
    assert currency["daily_maximum"] is None
    created = await initiate(merchant, order())
    assert found["name"] == created.json["info"]["merchant_name"]


async def test_an_additional_key_sees_its_own_rights(
    services: Services, merchant: Merchant
) -> None:
    key = await new_key(services, merchant, Right.PAYMENTS, name="Shop")
    assert (await account(key))["api_key"] == {
        "name": "Shop",
        "rights": ["payments"],
        "expires_at": None,
    }


async def test_the_listed_methods_are_those_that_checkout_offers(
    services: Services, site: Site, db: Database, keyring: Keyring
) -> None:
    merchant = await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)
    for given in ({}, ALL_PROVIDERS):
        await configure(services, given)
        [currency] = (await account(merchant))["currencies"]
        info = (await initiate(merchant, order(payment_amount=1000))).json["info"]
        codes = {method["code"] for method in currency["methods"]}
        assert codes == set(info["merchant_payment_method_codes"])
    ways = {method["code"]: method["ways"] for method in currency["methods"]}
    assert ways["providerb_ngn_va"] == ["bank_transfer"]
    assert "card" in ways["providera-ngn"]


async def test_the_sandbox_lists_methods_without_a_provider(
    services: Services, merchant: Merchant
) -> None:
    await configure(services, {})
    [currency] = (await account(merchant))["currencies"]
    assert currency["methods"]


async def test_the_commission_and_its_bearer_are_those_of_the_next_payment(
    services: Services, merchant: Merchant
) -> None:
    await set_commission(services, merchant, "1.5", CommissionBearer.MERCHANT)
    await outdate(services)
    found = await account(merchant)
    [currency] = found["currencies"]
    info = (await initiate(merchant, order())).json["info"]
    assert found["commission_bearer"] == info["commission_bearer"] == "merchant"
    assert currency["commission"]["percent"] == info["api_fee_percent"] == 1.5


@pytest.mark.parametrize("amount", ["5000", "5000.01"])
async def test_the_maximum_is_the_largest_amount_that_is_accepted(
    services: Services, site: Site, db: Database, keyring: Keyring, amount: str
) -> None:
    merchant = await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)
    async with setting(services, "payment_limits_unverified", "NGN:5000"):
        [currency] = (await account(merchant))["currencies"]
        assert currency["maximum"] == 5000
        reply = await initiate(merchant, order(payment_amount=float(amount)))
        assert (reply.status == 200) == (Decimal(amount) <= currency["maximum"])


async def test_the_origins_for_the_dialog_are_listed(
    services: Services, merchant: Merchant, db: Database
) -> None:
    origins = ["https://shop.example"]
    await checkout_origins.change(db, merchant.new.id, merchant.environment, origins)
    await outdate(services)
    assert (await account(merchant))["checkout_origins"] == origins
