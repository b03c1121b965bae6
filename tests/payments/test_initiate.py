"""initiate-payment: the complete response, who pays the commission, and rejected requests."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.merchants import wallets
from manilla.merchants.merchants import CommissionBearer, MerchantStatus
from manilla.merchants.wallets import WalletStatus
from manilla.methods import catalogue
from manilla.payments.initiate import COMPLETE_IN_SANDBOX, EXPIRE
from manilla.services import Services
from tests.payments import steps
from tests.payments.orders import order
from tests.support.client import Merchant, Site, new_merchant
from tests.support.freshness import outdate

PAYMENT_URL = r"{base}/checkout/TXN[0-9A-Z]{{30}}\?expires=([0-9]+)&signature=[0-9a-f]{{64}}"
METHOD_CODES = ["providera-ngn", "providerb-ngn", "providerb_ngn_va", "providerc-ngn"]


@pytest.fixture(scope="module", autouse=True)
async def _providers(services: Services) -> AsyncIterator[None]:
    await steps.configure(services, steps.ALL_PROVIDERS)
    yield
    await steps.configure(services, {})


@pytest.fixture
async def merchant(site: Site, db: Database, keyring: Keyring) -> Merchant:
    return await new_merchant(site, db, keyring)


@pytest.fixture
def live(merchant: Merchant) -> Merchant:
    return steps.in_environment(merchant, Environment.PRODUCTION)


@pytest.mark.parametrize("environment", Environment)
async def test_the_response_has_exactly_the_documented_fields(
    merchant: Merchant, db: Database, environment: Environment
) -> None:
    sent = order(
        payment_amount=1000.5,
        description="Two tickets",
        customer_name="Ngozi Okafor",
        customer_email="ngozi@example.com",
        allow_payment_methods=["checkout", "Transfer"],
    )
    reply = await steps.initiate(steps.in_environment(merchant, environment), sent)
    assert reply.status == 200
    answer = steps.exact(reply)
    assert answer.pop("trx_id") == steps.trx_id_of(reply)
    expires_at = datetime.fromisoformat(answer.pop("expires_at"))
    assert f"expires={int(expires_at.timestamp())}&" in answer.pop("payment_url")
    ids = {method.code: method.id for method in await catalogue.load(db)}
    assert answer == {
        "info": {
            "ref_trx": sent["ref_trx"],
            "description": "Two tickets",
            "ipn_url": "https://shop.example/ipn",
            "cancel_redirect": "https://shop.example/cart",
            "success_redirect": "https://shop.example/thanks?order=7",
            "customer_name": "Ngozi Okafor",
            "customer_email": "ngozi@example.com",
            "merchant_id": merchant.new.id,
            "merchant_name": "Ada Stores",
            "amount": Decimal("1000.5"),
            "currency_code": "NGN",
            "environment": environment.value,
            "is_sandbox": environment is Environment.SANDBOX,
            "allow_payment_methods": ["checkout", "Transfer"],
            "merchant_payment_methods_restricted": False,
            "merchant_payment_method_ids": [ids[code] for code in METHOD_CODES],
            "merchant_payment_method_codes": METHOD_CODES,
            "base_amount": Decimal("1000.5"),
            "api_fee_bearer": "customer",
            "commission_bearer": "customer",
            "api_fee_percent": 0,
            "api_commission_fee": 0,
            "commission_fee": 0,
            "customer_pays": Decimal("1000.5"),
            "merchant_receives": Decimal("1000.5"),
        }
    }
    assert type(answer["info"]["is_sandbox"]) is bool
    assert type(answer["info"]["merchant_payment_methods_restricted"]) is bool


async def test_the_payment_url_is_signed_and_valid_for_thirty_minutes(
    merchant: Merchant, services: Services
) -> None:
    reply = await steps.initiate(merchant, order())
    pattern = PAYMENT_URL.format(base=re.escape(services.base_url))
    match = re.fullmatch(pattern, reply.json["payment_url"])
    assert match is not None
    assert 30 * 60 - 10 <= int(match[1]) - time.time() <= 30 * 60


async def test_the_payment_urls_lifetime_is_configurable(
    merchant: Merchant, services: Services
) -> None:
    async with steps.setting(services, "checkout_minutes", 2):
        reply = await steps.initiate(merchant, order())
    expires = int(reply.json["payment_url"].split("expires=")[1].split("&")[0])
    assert 110 <= expires - time.time() <= 120


async def test_later_payments_have_larger_ids(merchant: Merchant) -> None:
    ids = []
    for _ in range(5):
        ids.append(await steps.new_payment(merchant))
        await asyncio.sleep(0.002)
    assert ids == sorted(ids)


@pytest.mark.parametrize("environment", Environment)
async def test_no_digit_of_a_large_amount_is_lost(
    merchant: Merchant, environment: Environment
) -> None:
    caller = steps.in_environment(merchant, environment)
    reply = await steps.initiate(caller, steps.order_of("90071992547409.93"))
    assert reply.status == 200
    for field in (b"amount", b"base_amount", b"customer_pays", b"merchant_receives"):
        assert re.search(rb'"%b":90071992547409\.93[,}]' % field, reply.body)


@pytest.mark.parametrize("amount", ["1", "1.00", "1.0", "1.01", "10.10", "1e3", "1.5E1"])
async def test_an_amount_is_returned_as_the_same_number(merchant: Merchant, amount: str) -> None:
    reply = await steps.initiate(merchant, steps.order_of(amount))
    assert reply.status == 200
    assert steps.exact(reply)["info"]["amount"] == Decimal(amount)


@pytest.mark.parametrize("left_out", ["missing", "null"])
async def test_optional_fields_that_were_not_sent_are_null(
    merchant: Merchant, left_out: str
) -> None:
    optional = ("description", "customer_name", "customer_email", "allow_payment_methods")
    sent = order() | (dict.fromkeys(optional) if left_out == "null" else {})
    info = (await steps.initiate(merchant, sent)).json["info"]
    assert [info[field] for field in optional] == [None, None, None, []]


@pytest.mark.parametrize(
    ("sent", "echoed"),
    [
        ("providerb", ["providerb"]),
        ("Checkout, PROVIDERB ,transfer", ["Checkout", "PROVIDERB", "transfer"]),
        (" a , b,", ["a", "b"]),
        ("", []),
        (["Checkout", "PROVIDERB"], ["Checkout", "PROVIDERB"]),
        (["bank transfer"], ["bank transfer"]),
        ([], []),
    ],
)
async def test_keywords_are_returned_as_an_array_in_their_original_case(
    merchant: Merchant, sent: Any, echoed: list[str]
) -> None:
    info = (await steps.initiate(merchant, order(allow_payment_methods=sent))).json["info"]
    assert info["allow_payment_methods"] == echoed


@pytest.mark.parametrize("environment", Environment)
@pytest.mark.parametrize(
    ("bearer", "customer_pays"),
    [(CommissionBearer.CUSTOMER, "43.65"), (CommissionBearer.MERCHANT, "43")],
)
async def test_commission_is_added_for_the_customer_or_charged_to_the_merchant(
    merchant: Merchant,
    services: Services,
    environment: Environment,
    bearer: CommissionBearer,
    customer_pays: str,
) -> None:
    caller = steps.in_environment(merchant, environment)
    await steps.set_commission(services, caller, "1.5", bearer)
    await steps.fund(services, caller, "1000.00")
    reply = await steps.initiate(caller, steps.order_of("43.00"))
    info = steps.exact(reply)["info"]
    assert (info["amount"], info["base_amount"]) == (43, 43)
    assert (info["api_fee_bearer"], info["commission_bearer"]) == (bearer.value, bearer.value)
    assert (info["customer_pays"], info["merchant_receives"]) == (Decimal(customer_pays), 43)
    assert re.search(rb'"api_fee_percent":1\.5[,}]', reply.body)
    assert re.search(rb'"api_commission_fee":0\.65[,}]', reply.body)
    assert re.search(rb'"commission_fee":0\.65[,}]', reply.body)


@pytest.mark.parametrize(
    ("percent", "amount", "fee", "customer_pays"),
    [
        ("1.5", "43.00", "0.65", "43.65"),
        ("1.5", "42.99", "0.64", "43.63"),
        ("1.5", "43.01", "0.65", "43.66"),
        ("2.5", "1.00", "0.03", "1.03"),
        ("0.5", "1.00", "0.01", "1.01"),
        ("0.4999", "1.00", "0", "1.00"),
        ("0.0001", "5000.00", "0.01", "5000.01"),
        ("100", "1.00", "1.00", "2.00"),
        ("1.5", "90071992547409.93", "1351079888211.15", "91423072435621.08"),
    ],
)
async def test_commission_rounds_half_up_to_the_kobo(
    merchant: Merchant, services: Services, percent: str, amount: str, fee: str, customer_pays: str
) -> None:
    await steps.set_commission(services, merchant, percent, CommissionBearer.CUSTOMER)
    info = steps.exact(await steps.initiate(merchant, steps.order_of(amount)))["info"]
    assert info["api_fee_percent"] == Decimal(percent)
    assert info["commission_fee"] == info["api_commission_fee"] == Decimal(fee)
    assert info["customer_pays"] == Decimal(customer_pays)


@pytest.mark.parametrize(
    ("amount", "covered", "one_kobo_less"),
    [("43.00", "0.65", "0.64"), ("1000.00", "15.00", "14.99"), ("1.00", "0.02", "0.01")],
)
async def test_commission_paid_by_the_merchant_must_be_covered_exactly_in_production(
    live: Merchant, services: Services, amount: str, covered: str, one_kobo_less: str
) -> None:
    await steps.set_commission(services, live, "1.5", CommissionBearer.MERCHANT)
    await steps.fund(services, live, one_kobo_less)
    body = steps.order_of(amount)
    refused = await steps.initiate(live, body)
    assert refused.status == 422
    assert refused.json == {
        "error": "Insufficient merchant balance to cover the API commission fee.",
        "error_code": "insufficient_balance",
    }
    await steps.fund(services, live, "0.01")
    assert await steps.balance(services, live) == Decimal(covered)
    assert (await steps.initiate(live, body)).status == 200


@pytest.mark.parametrize(("percent", "bearer"), [("0", "merchant"), ("100", "customer")])
async def test_an_empty_wallet_accepts_payments_whose_commission_the_customer_pays(
    live: Merchant, services: Services, percent: str, bearer: str
) -> None:
    await steps.set_commission(services, live, percent, CommissionBearer(bearer))
    assert (await steps.initiate(live, order())).status == 200


async def test_the_sandbox_does_not_require_the_wallet_to_cover_commission(
    merchant: Merchant, services: Services
) -> None:
    await steps.set_commission(services, merchant, "100", CommissionBearer.MERCHANT)
    reply = await steps.initiate(merchant, order(payment_amount=1_000_000.01))
    assert reply.status == 200


@pytest.mark.parametrize("environment", Environment)
async def test_a_currency_that_is_not_enabled_is_rejected(
    merchant: Merchant, environment: Environment
) -> None:
    caller = steps.in_environment(merchant, environment)
    reply = await steps.initiate(caller, order(currency_code="USD"))
    assert reply.status == 422
    assert reply.json == {
        "error": "Currency is not enabled for this merchant.",
        "error_code": "INVALID_CURRENCY",
    }


async def test_a_currency_can_be_enabled_and_disabled(
    merchant: Merchant, services: Services
) -> None:
    await steps.change(services, merchant, currencies=["USD"])
    assert (await steps.initiate(merchant, order(currency_code="USD"))).status == 200
    reply = await steps.initiate(merchant, order(currency_code="NGN"))
    assert (reply.status, reply.code) == (422, "INVALID_CURRENCY")


@pytest.mark.parametrize("environment", Environment)
async def test_a_disabled_wallet_is_rejected_only_in_its_environment(
    merchant: Merchant, db: Database, environment: Environment
) -> None:
    closed = steps.in_environment(merchant, environment)
    [other] = set(Environment) - {environment}
    await wallets.set_status(db, merchant.new.id, environment, "NGN", WalletStatus.INACTIVE)
    reply = await steps.initiate(closed, order())
    assert reply.status == 422
    assert reply.json == {
        "error": "Receiver wallet for this currency is not available.",
        "error_code": "WALLET_NOT_AVAILABLE",
    }
    assert (await steps.initiate(steps.in_environment(merchant, other), order())).status == 200


async def test_a_pending_merchant_accepts_payments_only_in_the_sandbox(
    site: Site, db: Database, keyring: Keyring
) -> None:
    pending = await new_merchant(site, db, keyring, MerchantStatus.PENDING)
    assert (await steps.initiate(pending, order())).status == 200
    live = steps.in_environment(pending, Environment.PRODUCTION)
    for body in (order(), b"not json"):
        reply = await steps.initiate(live, body)
        assert reply.status == 403
        assert reply.json == {
            "error": "Merchant Pending Approval",
            "error_code": "MERCHANT_PENDING_APPROVAL",
        }


@pytest.mark.parametrize("environment", Environment)
@pytest.mark.parametrize("status", [MerchantStatus.REJECTED, MerchantStatus.DISABLED])
async def test_a_suspended_merchant_accepts_no_payments(
    merchant: Merchant, services: Services, status: MerchantStatus, environment: Environment
) -> None:
    caller = steps.in_environment(merchant, environment)
    await steps.change(services, merchant, status=status)
    for body in (order(), b"not json"):
        reply = await steps.initiate(caller, body)
        assert (reply.status, reply.code) == (403, "MERCHANT_SUSPENDED")


async def test_a_suspension_takes_effect_within_a_second(
    merchant: Merchant, services: Services
) -> None:
    assert (await steps.initiate(merchant, order())).status == 200
    await steps.change(services, merchant, status=MerchantStatus.DISABLED)
    await outdate(services)
    assert (await steps.initiate(merchant, order())).code == "MERCHANT_SUSPENDED"


async def test_a_used_reference_returns_the_outcome_of_its_payment(
    merchant: Merchant, services: Services
) -> None:
    sent = order()
    first = (await steps.initiate(merchant, sent)).json
    trx_id, other = first["trx_id"], sent | {"payment_amount": 5}
    for body, status, link in (
        *((sent, "pending", {"payment_url": first["payment_url"]}), (other, "pending", {})),
        *((sent, "success", {}), (other, "success", {})),
    ):
        if status == "success":
            await steps.complete(services, merchant, trx_id)
        reply = await steps.initiate(merchant, body)
        assert reply.status == 422
        assert reply.json == {
            "error": "This ref_trx was used before.",
            "error_code": "DUPLICATE_REFERENCE",
            "trx_id": trx_id,
            "status": status,
            "duplicate_of": "ref_trx",
            **link,
        }


async def test_a_canceled_or_expired_link_is_not_returned_for_a_used_reference(
    merchant: Merchant, db: Database
) -> None:
    canceled, expired = order(), order()
    trx_id = (await steps.initiate(merchant, canceled)).json["trx_id"]
    await merchant.call("POST", f"/api/v1/payments/{trx_id}/cancel", b"")
    trx_id = (await steps.initiate(merchant, expired)).json["trx_id"]
    change = "UPDATE payment SET expires_at = now() - interval '1 second' WHERE trx_id = $1"
    await db.execute(change, trx_id)
    for body in (canceled, expired):
        assert "payment_url" not in (await steps.initiate(merchant, body)).json


async def test_a_used_key_is_distinguished_from_a_used_reference(merchant: Merchant) -> None:
    assert (await steps.initiate(merchant, order(), Idempotency_Key="one")).status == 200
    reply = await steps.initiate(merchant, order(), Idempotency_Key="one")
    assert (reply.code, reply.json["duplicate_of"]) == ("DUPLICATE_REFERENCE", "idempotency_key")


async def test_of_64_concurrent_requests_with_one_reference_one_succeeds(
    merchant: Merchant,
) -> None:
    sent = order()
    replies = await asyncio.gather(*(steps.initiate(merchant, sent) for _ in range(64)))
    assert Counter((r.status, r.code) for r in replies) == {
        (200, None): 1,
        (422, "DUPLICATE_REFERENCE"): 63,
    }
    [first] = [reply for reply in replies if reply.status == 200]
    named = {reply.json["trx_id"] for reply in replies if reply.status == 422}
    assert named == {steps.trx_id_of(first)}


async def test_one_reference_succeeds_once_across_api_processes(
    merchant: Merchant, services: Services
) -> None:
    async with steps.second_program(services, merchant) as other:
        for _ in range(5):
            callers, sent = [merchant, other] * 8, order()
            replies = await asyncio.gather(*(steps.initiate(caller, sent) for caller in callers))
            assert Counter(reply.status for reply in replies) == {200: 1, 422: 15}
            [first] = [reply for reply in replies if reply.status == 200]
            named = {reply.json["trx_id"] for reply in replies if reply.status == 422}
            assert named == {steps.trx_id_of(first)}


async def test_64_concurrent_requests_with_different_references_all_succeed(
    merchant: Merchant,
) -> None:
    sent = [order() for _ in range(64)]
    replies = await asyncio.gather(*(steps.initiate(merchant, body) for body in sent))
    assert [reply.json["info"]["ref_trx"] for reply in replies] == [b["ref_trx"] for b in sent]
    assert len({steps.trx_id_of(reply) for reply in replies}) == 64


async def test_a_reference_can_be_used_in_the_other_environment_and_by_other_merchants(
    merchant: Merchant, live: Merchant, site: Site, db: Database, keyring: Keyring
) -> None:
    sent = order()
    neighbour = await new_merchant(site, db, keyring)
    callers = (merchant, live, neighbour)
    replies = await asyncio.gather(*(steps.initiate(caller, sent) for caller in callers))
    assert [reply.status for reply in replies] == [200, 200, 200]
    assert len({steps.trx_id_of(reply) for reply in replies}) == 3


@pytest.mark.parametrize(
    ("scenario", "status"), [(None, "success"), ("success", "success"), ("failed", "failed")]
)
async def test_a_sandbox_payment_ends_as_its_scenario_says(
    merchant: Merchant, services: Services, scenario: str | None, status: str
) -> None:
    trx_id = await steps.new_payment(merchant, scenario)
    assert await _jobs(services, trx_id) == [COMPLETE_IN_SANDBOX]
    await steps.complete(services, merchant, trx_id)
    assert (await steps.verify(merchant, trx_id)).json["status"] == status


async def test_a_sandbox_payment_with_the_pending_scenario_has_no_completion_job(
    merchant: Merchant, services: Services
) -> None:
    trx_id = await steps.new_payment(merchant, "pending")
    assert await _jobs(services, trx_id) == [EXPIRE]


async def _jobs(services: Services, trx_id: str) -> list[str]:
    records = await services.db.records("SELECT kind FROM job WHERE subject = $1", trx_id)
    return [record["kind"] for record in records]


@pytest.mark.parametrize("scenario", ["", "SUCCESS", "declined", "success,failed", "0"])
async def test_an_unknown_scenario_is_rejected(merchant: Merchant, scenario: str) -> None:
    sent = order()
    reply = await steps.initiate(merchant, sent, X_Sandbox_Scenario=scenario)
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert list(reply.json["errors"]) == ["X-Sandbox-Scenario"]
    assert (await steps.initiate(merchant, sent)).status == 200


@pytest.mark.parametrize("scenario", ["success", "failed", "pending", "unknown"])
async def test_production_rejects_scenarios(live: Merchant, scenario: str) -> None:
    reply = await steps.initiate(live, order(), X_Sandbox_Scenario=scenario)
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert list(reply.json["errors"]) == ["X-Sandbox-Scenario"]


async def test_a_response_reveals_nothing_about_other_merchants(
    merchant: Merchant, site: Site, db: Database, keyring: Keyring
) -> None:
    """Concurrent requests of two merchants share a batch, but each gets its own payment."""
    neighbour = await new_merchant(site, db, keyring)
    callers = [merchant, neighbour] * 20
    replies = await asyncio.gather(*(steps.initiate(caller, order()) for caller in callers))
    notified = [reply.json["info"]["merchant_id"] for reply in replies]
    assert notified == [caller.new.id for caller in callers]


async def test_the_commission_at_initiation_applies(merchant: Merchant, services: Services) -> None:
    await steps.set_commission(services, merchant, "10", CommissionBearer.CUSTOMER)
    trx_id = await steps.new_payment(merchant)
    await steps.set_commission(services, merchant, "50", CommissionBearer.MERCHANT)
    await steps.complete(services, merchant, trx_id)
    commission = (await steps.verify(merchant, trx_id)).json["commission"]
    assert (commission["commission_fee"], commission["commission_bearer"]) == (100, "customer")


async def test_the_transaction_header_is_sent_on_replays_too(merchant: Merchant) -> None:
    sent = order(description="TXN" + "0" * 30)
    first = await steps.initiate(merchant, sent, Idempotency_Key="header")
    again = await steps.initiate(merchant, sent, Idempotency_Key="header")
    assert again.headers["idempotent-replayed"] == "true"
    legacy = await steps.initiate_legacy(merchant, order())
    for reply in (first, again, legacy):
        # The test client converts header names to lower case.
        assert reply.headers["x-transaction-id"] == steps.trx_id_of(reply).lower()
    duplicate = await steps.initiate(merchant, sent)
    assert "x-transaction-id" not in duplicate.headers
