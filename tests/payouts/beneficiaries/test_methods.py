"""payout-methods: a merchant's withdrawal methods and their fields."""

from typing import Any

import pytest

from manilla.merchants.merchants import MerchantUpdate
from manilla.services import Services
from tests.payouts.payout_merchant import (
    MANUAL,
    RAILS,
    PayoutMerchant,
    clear_credentials,
    method,
    set_credentials,
    setting,
)
from tests.support.client import Merchant, Reply
from tests.support.rows import first_short

METHODS = "/api/v1/payout-methods"
AUTO = "auto_ngn"
AUTOMATIC_FIELDS = [
    {"name": "bank_code", "type": "select", "validation": "required", "label": "Bank"},
    {"name": "account_number", "type": "text", "validation": "required", "label": "Account Number"},
    {
        "name": "account_name",
        "type": "text",
        "validation": "nullable",
        "label": "Account Name",
        "api_auto_resolved": True,
    },
]
MANUAL_FIELDS = [
    {"name": "Bank Name", "type": "text", "validation": "required"},
    {"name": "Account Number", "type": "text", "validation": "required"},
]
LIMITS = {"a": (100, 5_000_000), "b": (100, 5_000_000), "c": (500, 5_000_000)}
CODES = [*RAILS.values(), MANUAL, AUTO]


async def ask(merchant: Merchant, query: str = "?currency=NGN") -> Reply:
    return await merchant.get(METHODS + query)


async def codes(payer: PayoutMerchant) -> list[str]:
    reply = await ask(payer.merchant)
    assert reply.status == 200, reply.body
    return [each["method_code"] for each in reply.json["methods"]]


async def _described(payer: PayoutMerchant) -> list[dict[str, Any]]:
    automatic = [
        {
            "id": await payer.method_id(rail),
            "name": f"Provider {rail.upper()} bank transfer",
            "method_code": RAILS[rail],
            "type": "auto",
            "currency": "NGN",
            "min_withdraw": lowest,
            "max_withdraw": highest,
            "fields": AUTOMATIC_FIELDS,
        }
        for rail, (lowest, highest) in LIMITS.items()
    ]
    manual = {
        "id": await payer.method_id(MANUAL),
        "name": "Manual bank transfer",
        "method_code": MANUAL,
        "type": "manual",
        "currency": "NGN",
        "min_withdraw": 500,
        "max_withdraw": 1_000_000,
        "fields": MANUAL_FIELDS,
    }
    chosen = {
        **automatic[0],
        "id": await payer.method_id(AUTO),
        "name": "Automatic bank transfer",
        "method_code": AUTO,
    }
    return [*automatic, manual, chosen]


async def test_methods_have_exactly_the_documented_fields(
    payer: PayoutMerchant, sandbox_payer: PayoutMerchant
) -> None:
    for caller in (payer, sandbox_payer):
        reply = await ask(caller.merchant)
        assert reply.status == 200
        assert reply.json == {"currency_code": "NGN", "methods": await _described(caller)}
        assert all(type(each["id"]) is int for each in reply.json["methods"])


@pytest.mark.parametrize("rail", first_short(RAILS))
async def test_a_rail_without_credentials_is_not_listed(
    payer: PayoutMerchant, sandbox_payer: PayoutMerchant, services: Services, rail: str
) -> None:
    await clear_credentials(services, rail)
    for caller in (payer, sandbox_payer):
        assert await codes(caller) == [code for code in CODES if code != RAILS[rail]]


@pytest.mark.parametrize(
    ("rail", "missing"),
    first_short(
        [("a", "secret_key"), ("a", "webhook_secret"), ("b", "api_key"), ("b", "secret_key")]
        + [("b", "business_id"), ("c", "secret_key"), ("c", "webhook_secret")],
    ),
)
async def test_a_rail_with_incomplete_credentials_is_not_listed(
    payer: PayoutMerchant, services: Services, rail: str, missing: str
) -> None:
    await set_credentials(services, rail, **{missing: ""})
    assert await codes(payer) == [code for code in CODES if code != RAILS[rail]]


@pytest.mark.parametrize("rail", ["b", "c"])
async def test_a_rail_can_be_disabled_for_payouts_alone(
    payer: PayoutMerchant, services: Services, rail: str
) -> None:
    await set_credentials(services, rail, pay_in_enabled="false")
    assert await codes(payer) == CODES
    await set_credentials(services, rail, pay_in_enabled="true", pay_out_enabled="false")
    assert await codes(payer) == [code for code in CODES if code != RAILS[rail]]


async def test_without_a_provider_only_the_manual_method_is_listed(
    payer: PayoutMerchant, services: Services
) -> None:
    for rail in RAILS:
        await clear_credentials(services, rail)
    assert await codes(payer) == [MANUAL]


@pytest.mark.parametrize("rail", [*first_short(RAILS), MANUAL])
async def test_an_inactive_method_is_not_listed(
    payer: PayoutMerchant, services: Services, rail: str
) -> None:
    async with method(services, rail, active=False):
        assert await codes(payer) == [code for code in CODES if code != RAILS.get(rail, rail)]


async def test_limits_are_returned_as_configured(payer: PayoutMerchant, services: Services) -> None:
    async with method(services, "c", name="Fast", minimum="750.25", maximum="90071992547409.93"):
        reply = await ask(payer.merchant)
    assert b'"min_withdraw":750.25,"max_withdraw":90071992547409.93' in reply.body
    assert reply.json["methods"][2]["name"] == "Fast"


@pytest.mark.parametrize(
    ("key", "text"),
    [("withdrawals_enabled", "false"), ("kyc_required", "true"), ("payout_days", "")],
)
async def test_methods_are_listed_even_while_payouts_are_disabled(
    payer: PayoutMerchant, services: Services, key: str, text: str
) -> None:
    """The list shows all existing methods, even while payouts are disabled."""
    async with setting(services, key, text):
        assert await codes(payer) == CODES


@pytest.mark.parametrize(
    "query",
    first_short(
        ["", "?", "?currency=", "?currency=NG", "?currency=NGNN", "?currency=N1N", "?Currency=NGN"]
        + [
            "?currency=%20NGN",
            "?currency=NGN&currency=NGN",
            "?currency=%E2%82%A6%E2%82%A6%E2%82%A6",
        ]
    ),
)
async def test_a_missing_or_malformed_currency_is_reported(
    payer: PayoutMerchant, query: str
) -> None:
    reply = await ask(payer.merchant, query)
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert set(reply.json) == {"error", "error_code", "errors"}
    assert list(reply.json["errors"]) == ["currency"]


@pytest.mark.parametrize("currency", first_short(["USD", "ngn", "ZZZ"]))
async def test_a_currency_the_merchant_does_not_have_is_rejected(
    payer: PayoutMerchant, currency: str
) -> None:
    reply = await ask(payer.merchant, f"?currency={currency}")
    assert reply.status == 422
    assert reply.json == {
        "error": "Currency is not enabled for this merchant.",
        "error_code": "INVALID_CURRENCY",
    }


async def test_a_method_serves_only_its_own_currency(payer: PayoutMerchant) -> None:
    await payer.change(MerchantUpdate(currencies=["NGN", "USD"]))
    reply = await ask(payer.merchant, "?currency=USD")
    assert reply.json == {"currency_code": "USD", "methods": []}
    assert await codes(payer) == CODES


async def test_unknown_query_parameters_are_ignored(payer: PayoutMerchant) -> None:
    assert (await ask(payer.merchant, "?page=2&currency=NGN&x=")).status == 200
