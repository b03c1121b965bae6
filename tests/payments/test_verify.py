"""verify-payment returns only the calling merchant's payments."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.ledger.scope import Tenant
from manilla.ledger.transactions import TransactionNotFound
from manilla.merchants.merchants import CommissionBearer, MerchantStatus
from manilla.payments import states
from manilla.payments.payment import PaymentErrorCode
from manilla.payments.states import PaymentEvent
from manilla.services import Services
from tests.payments import steps
from tests.payments.orders import order
from tests.support.client import Merchant, Site, new_merchant

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
CUSTOMER: dict[str, Any] = {
    "description": "Two tickets",
    "customer_name": "Ngozi Okafor",
    "customer_email": "ngozi@example.com",
}


@pytest.fixture
async def merchant(site: Site, db: Database, keyring: Keyring) -> Merchant:
    return await new_merchant(site, db, keyring)


@pytest.fixture
def live(merchant: Merchant) -> Merchant:
    return steps.in_environment(merchant, Environment.PRODUCTION)


async def settle(
    services: Services,
    merchant: Merchant,
    trx_id: str,
    event: PaymentEvent,
    code: PaymentErrorCode | None,
) -> None:
    """Settles a payment with the outcome that a customer chooses on the sandbox checkout."""
    await states.end_in_sandbox(services.db, merchant.new.id, trx_id, event, code)


def moment(text: str) -> datetime:
    assert TIMESTAMP.fullmatch(text)
    return datetime.fromisoformat(text)


@pytest.mark.parametrize("environment", Environment)
async def test_a_pending_payment_has_exactly_the_documented_fields(
    merchant: Merchant, environment: Environment
) -> None:
    caller, sent = steps.in_environment(merchant, environment), order(**CUSTOMER)
    trx_id = steps.trx_id_of(await steps.initiate(caller, sent))
    reply = await steps.verify(caller, trx_id)
    assert reply.status == 200
    assert reply.json == {
        "status": "pending",
        "event": "payment",
        "trx_id": trx_id,
        "ref_trx": sent["ref_trx"],
        "message": "Payment is still pending.",
    }


async def test_a_successful_payment_has_exactly_the_documented_fields(
    merchant: Merchant, services: Services
) -> None:
    sent = order(**CUSTOMER)
    trx_id = steps.trx_id_of(await steps.initiate(merchant, sent))
    await steps.complete(services, merchant, trx_id)
    reply = await steps.verify(merchant, trx_id)
    assert reply.status == 200
    answer = steps.exact(reply)
    assert answer.pop("ref_trx") == sent["ref_trx"]
    created, updated = moment(answer.pop("created_at")), moment(answer.pop("updated_at"))
    assert datetime.now(UTC) - timedelta(minutes=1) < created < updated < datetime.now(UTC)
    assert answer == {
        "status": "success",
        "trx_id": trx_id,
        "amount": 1000,
        "fee": 0,
        "currency": "NGN",
        "net_amount": 1000,
        "commission": {
            "base_amount": 1000,
            "commission_fee": 0,
            "commission_bearer": "customer",
            "customer_paid": 1000,
            "merchant_received": 1000,
            "commission_trx_id": None,
        },
        "customer": {"name": "Ngozi Okafor", "email": "ngozi@example.com"},
        "description": "Two tickets",
    }


async def test_fields_that_were_not_sent_are_null_in_a_successful_payment(
    merchant: Merchant, services: Services
) -> None:
    trx_id = await steps.new_payment(merchant)
    await steps.complete(services, merchant, trx_id)
    answer = (await steps.verify(merchant, trx_id)).json
    assert answer["customer"] == {"name": None, "email": None}
    assert answer["description"] is None


@pytest.mark.parametrize(
    ("bearer", "customer_paid"),
    [(CommissionBearer.CUSTOMER, "43.65"), (CommissionBearer.MERCHANT, "43.00")],
)
async def test_commission_in_the_sandbox_is_shown_but_moves_no_money(
    merchant: Merchant, services: Services, bearer: CommissionBearer, customer_paid: str
) -> None:
    await steps.set_commission(services, merchant, "1.5", bearer)
    before = await steps.balance(services, merchant)
    trx_id = await steps.new_payment(merchant, payment_amount=43)
    await steps.complete(services, merchant, trx_id)
    answer = steps.exact(await steps.verify(merchant, trx_id))
    assert (answer["amount"], answer["fee"], answer["net_amount"]) == (43, Decimal("0.65"), 43)
    assert answer["commission"] == {
        "base_amount": 43,
        "commission_fee": Decimal("0.65"),
        "commission_bearer": bearer.value,
        "customer_paid": Decimal(customer_paid),
        "merchant_received": 43,
        "commission_trx_id": None,
    }
    assert await steps.balance(services, merchant) - before == 43


async def test_no_digit_of_a_large_amount_is_lost(merchant: Merchant, services: Services) -> None:
    reply = await steps.initiate(merchant, steps.order_of("90071992547409.93"))
    trx_id = steps.trx_id_of(reply)
    await steps.complete(services, merchant, trx_id)
    body = (await steps.verify(merchant, trx_id)).body
    for field in (b"amount", b"net_amount", b"base_amount", b"customer_paid", b"merchant_received"):
        assert re.search(rb'"%b":90071992547409\.93[,}]' % field, body)


async def test_a_failed_payment_has_exactly_the_documented_fields(
    merchant: Merchant, services: Services
) -> None:
    sent = order(**CUSTOMER)
    reply = await steps.initiate(merchant, sent, X_Sandbox_Scenario="failed")
    trx_id = steps.trx_id_of(reply)
    await steps.complete(services, merchant, trx_id)
    reply = await steps.verify(merchant, trx_id)
    assert reply.status == 200
    assert reply.json == {
        "status": "failed",
        "event": "payment",
        "trx_id": trx_id,
        "ref_trx": sent["ref_trx"],
        "message": "Payment failed or was canceled.",
        "error_code": "PAYMENT_DECLINED",
    }


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (PaymentEvent.DECLINED, PaymentErrorCode.PAYMENT_DECLINED),
        (PaymentEvent.DECLINED, PaymentErrorCode.INSUFFICIENT_FUNDS),
        (PaymentEvent.CANCELED, PaymentErrorCode.PAYMENT_CANCELED),
        (PaymentEvent.EXPIRED, PaymentErrorCode.EXPIRED_SESSION),
    ],
)
async def test_a_failed_payment_has_a_reason(
    merchant: Merchant, services: Services, event: PaymentEvent, code: PaymentErrorCode
) -> None:
    before = await steps.balance(services, merchant)
    trx_id = await steps.new_payment(merchant)
    await settle(services, merchant, trx_id, event, code)
    answer = (await steps.verify(merchant, trx_id)).json
    assert (answer["status"], answer["error_code"]) == ("failed", code.value)
    assert await steps.balance(services, merchant) == before


@pytest.mark.parametrize("environment", Environment)
async def test_an_expired_payment_has_failed(
    merchant: Merchant, services: Services, environment: Environment
) -> None:
    caller = steps.in_environment(merchant, environment)
    trx_id = await steps.new_payment(caller)
    await steps.expire(services, caller, trx_id)
    answer = (await steps.verify(caller, trx_id)).json
    assert (answer["status"], answer["error_code"]) == ("failed", "EXPIRED_SESSION")


@pytest.mark.parametrize(
    ("event", "code", "status"),
    [
        (PaymentEvent.CANCELED, PaymentErrorCode.PAYMENT_CANCELED, "success"),
        (PaymentEvent.EXPIRED, PaymentErrorCode.EXPIRED_SESSION, "success"),
        (PaymentEvent.DECLINED, PaymentErrorCode.PAYMENT_DECLINED, "failed"),
    ],
)
async def test_a_canceled_payment_that_is_paid_later_is_a_success_unless_declined(
    merchant: Merchant, services: Services, event: PaymentEvent, code: PaymentErrorCode, status: str
) -> None:
    trx_id = await steps.new_payment(merchant)
    await settle(services, merchant, trx_id, event, code)
    await steps.complete(services, merchant, trx_id)
    answer = (await steps.verify(merchant, trx_id)).json
    assert answer["status"] == status
    assert ("error_code" in answer) == (status == "failed")


async def test_a_final_payment_does_not_change(merchant: Merchant, services: Services) -> None:
    trx_id = await steps.new_payment(merchant)
    await steps.complete(services, merchant, trx_id)
    first = await steps.verify(merchant, trx_id)
    wallet = await steps.balance(services, merchant)
    await steps.complete(services, merchant, trx_id)
    await settle(
        services, merchant, trx_id, PaymentEvent.CANCELED, PaymentErrorCode.PAYMENT_CANCELED
    )
    await steps.expire(services, merchant, trx_id)
    assert (await steps.verify(merchant, trx_id)).body == first.body
    assert await steps.balance(services, merchant) == wallet


async def test_another_merchants_payment_is_indistinguishable_from_an_unknown_one(
    merchant: Merchant,
    live: Merchant,
    services: Services,
    site: Site,
    db: Database,
    keyring: Keyring,
) -> None:
    """The response to an id of another merchant or environment is the same as for an unknown id."""
    neighbour = await new_merchant(site, db, keyring)
    mine, finished = await steps.new_payment(merchant), await steps.new_payment(merchant)
    await steps.complete(services, merchant, finished)
    unknown = mine[:-5] + ("00000" if mine[-5:] != "00000" else "11111")
    replies = [
        await steps.verify(merchant, unknown),
        await steps.verify(neighbour, mine),
        await steps.verify(neighbour, finished),
        await steps.verify(live, mine),
        await steps.verify(live, finished),
        await steps.verify(merchant, await steps.new_payment(live)),
        await steps.verify(merchant, "TXN1"),
    ]
    assert {(reply.status, reply.code) for reply in replies} == {(404, "TRANSACTION_NOT_FOUND")}
    assert len({reply.body for reply in replies}) == 1
    assert set(replies[0].json) == {"error", "error_code"}
    names = {tuple(sorted(reply.headers)) for reply in replies}
    assert len(names) == 1


@pytest.mark.parametrize(
    "malformed",
    [
        *("1", "null", "TXN", "TXN1", "undefined", "..", ".", "*", "%20", "%00", "%FF", "%C3%A9"),
        *("TXN" + "0" * 29, "TXN" + "0" * 31, "TXN" + "0" * 30, "TXN" + "Z" * 30),
        *("TXN" + "I" * 30, "txn" + "0" * 30, "TXN" + "%D9%A3" * 30, "TXN" + "0" * 29 + "%00"),
        *("'%20OR%20'1'='1", "TXN" + "0" * 5000),
    ],
    ids=lambda text: text[:12] + str(len(text)),
)
async def test_a_malformed_id_is_not_found(merchant: Merchant, malformed: str) -> None:
    reply = await steps.verify(merchant, malformed)
    unknown = await steps.verify(merchant, "TXN" + "0" * 30)
    assert (reply.status, reply.code) == (404, "TRANSACTION_NOT_FOUND")
    assert reply.body == unknown.body


@pytest.mark.parametrize("change", ["lower case", "charge", "space", "reference"])
async def test_only_the_exact_id_finds_a_payment(merchant: Merchant, change: str) -> None:
    sent = order()
    trx_id = steps.trx_id_of(await steps.initiate(merchant, sent))
    asked = {
        "lower case": trx_id.lower(),
        "charge": trx_id + "-1",
        "space": trx_id + "%20",
        "reference": sent["ref_trx"],
    }[change]
    assert (await steps.verify(merchant, asked)).code == "TRANSACTION_NOT_FOUND"
    assert (await steps.verify(merchant, trx_id)).status == 200


async def test_a_legacy_payment_can_be_verified(merchant: Merchant) -> None:
    reply = await steps.initiate_legacy(merchant, order())
    assert (await steps.verify(merchant, steps.trx_id_of(reply))).json["status"] == "pending"


async def test_an_unavailable_merchant_cannot_verify(
    site: Site, db: Database, keyring: Keyring
) -> None:
    pending = await new_merchant(site, db, keyring, MerchantStatus.PENDING)
    trx_id = await steps.new_payment(pending)
    assert (await steps.verify(pending, trx_id)).status == 200
    live = steps.in_environment(pending, Environment.PRODUCTION)
    assert (await steps.verify(live, trx_id)).code == "MERCHANT_PENDING_APPROVAL"


async def test_requests_at_the_same_time_each_get_their_own_payment(
    site: Site, db: Database, keyring: Keyring, services: Services
) -> None:
    """One SQL statement reads the payments of all concurrent requests, in both environments."""
    first, second = [await new_merchant(site, db, keyring) for _ in range(2)]
    ids = {
        (each.new.id, environment): await steps.new_payment(steps.in_environment(each, environment))
        for each in (first, second)
        for environment in Environment
    }
    asked = [
        (owner, environment, trx_id)
        for owner, environment in ids
        for trx_id in [*ids.values(), *ids.values()]
    ]
    reads = (
        services.reader.read("payment", "trx_id", Tenant(owner, environment), trx_id)
        for owner, environment, trx_id in asked
    )
    found = await asyncio.gather(*reads, return_exceptions=True)
    for (owner, environment, trx_id), row in zip(asked, found, strict=True):
        if ids[owner, environment] == trx_id:
            assert row == (trx_id,)
        else:
            assert isinstance(row, TransactionNotFound)
