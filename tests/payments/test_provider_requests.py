"""The customer and merchant data in the requests to providers."""

import json
from typing import Any

import pytest

from manilla.platform import settings as platform
from tests.payments.shop import PROVIDERS, Shop
from tests.payouts.payout_merchant import PayoutMerchant, see_changes, setting
from tests.support.rows import first_short

HOSTED = ["providera-ngn", "providerb-ngn", "providerc-ngn"]


async def _charge_request(shop: Shop, method: str, **changed: Any) -> dict[str, Any]:
    charge = await shop.choose(await shop.start(**changed), method)
    path = f"{PROVIDERS[method]}/requests?reference={charge.reference}"
    [request] = (await shop.simulator.read(path))["requests"]
    body = request["body"]
    found: dict[str, Any] = json.loads(body) if isinstance(body, str) else body
    return found


def _email(body: dict[str, Any]) -> str:
    email: str = body["email"] if "email" in body else body["customer"]["email"]
    return email


@pytest.mark.parametrize("method", first_short(HOSTED))
async def test_a_customer_without_an_email_is_not_reported_as_the_merchants_owner(
    shop: Shop, method: str
) -> None:
    assert _email(await _charge_request(shop, method)) == "no-reply@127.0.0.1"
    async with setting(shop.services, "customer_email_fallback", "buyers@pay.example"):
        assert _email(await _charge_request(shop, method)) == "buyers@pay.example"
    given = await _charge_request(shop, method, customer_email="ngozi@example.com")
    assert _email(given) == "ngozi@example.com"


@pytest.mark.parametrize(
    "value", first_short(["nobody", "a@b", "x <x@example.com>", "a b@example.com"])
)
async def test_an_invalid_fallback_email_is_rejected(shop: Shop, value: str) -> None:
    with pytest.raises(platform.BadSetting, match="an email address"):
        await platform.change(shop.services.db, "customer_email_fallback", value)
    await see_changes(shop.services)


async def test_provider_c_shows_the_merchants_name(shop: Shop) -> None:
    body = await _charge_request(shop, "providerc-ngn", customer_name="Ngozi Obi")
    assert body["customizations"]["title"] == "Ada Stores"
    assert body["customer"]["name"] == "Ngozi Obi"


async def test_a_transfers_beneficiary_is_not_reported_as_the_merchants_owner(shop: Shop) -> None:
    payer = PayoutMerchant(shop.services, shop.simulator, shop.merchant)
    await shop.simulator.control("a/balance", {"available": 100_000_000})
    await payer.fund("10000")
    trx_id = await payer.pay_out("a")
    await payer.simulator.run_jobs()
    listed = (await shop.simulator.read(f"a/requests?reference={trx_id}"))["requests"]
    [sent] = [request for request in listed if request["call"] == "transfer"]
    body = sent["body"] if isinstance(sent["body"], dict) else json.loads(sent["body"])
    assert body["destination"]["customer"]["email"] == "no-reply@127.0.0.1"
