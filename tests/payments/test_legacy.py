"""The legacy API with a bearer token and fewer fields, and the notifications of the two APIs."""

import json
import time
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.merchants import merchants, wallets
from manilla.merchants.merchants import CommissionBearer, MerchantStatus
from manilla.merchants.wallets import WalletStatus
from manilla.payments import states
from manilla.payments.payment import PaymentErrorCode
from manilla.payments.states import PaymentEvent
from manilla.services import Services
from tests.payments import steps
from tests.payments.orders import new_reference, order
from tests.support.client import Merchant, Reply, Site, new_merchant
from tests.support.rows import pairs

FAILURES = [
    (PaymentEvent.DECLINED, PaymentErrorCode.PAYMENT_DECLINED, "failed", "Payment Failed"),
    (PaymentEvent.DECLINED, PaymentErrorCode.INSUFFICIENT_FUNDS, "failed", "Payment Failed"),
    (PaymentEvent.EXPIRED, PaymentErrorCode.EXPIRED_SESSION, "failed", "Payment Failed"),
    (PaymentEvent.CANCELED, PaymentErrorCode.PAYMENT_CANCELED, "canceled", "Payment Canceled"),
]


@pytest.fixture
async def merchant(site: Site, db: Database, keyring: Keyring) -> Merchant:
    return await new_merchant(site, db, keyring)


@pytest.fixture
def live(merchant: Merchant) -> Merchant:
    return steps.in_environment(merchant, Environment.PRODUCTION)


def small_order(**changed: Any) -> dict[str, Any]:
    """Returns a request with only the fields that the legacy API requires."""
    fields = {
        "payment_amount": 1000,
        "currency_code": "NGN",
        "ref_trx": new_reference(),
        "ipn_url": "https://shop.example/ipn",
        **changed,
    }
    return {name: value for name, value in fields.items() if value is not None}


def assert_unknown(reply: Reply) -> None:
    assert reply.status == 401
    assert reply.json == {
        "error": "Invalid API credentials.",
        "error_code": "INVALID_CREDENTIALS",
    }


@pytest.mark.parametrize("environment", Environment)
async def test_the_response_matches_version_1(
    merchant: Merchant, services: Services, environment: Environment
) -> None:
    caller = steps.in_environment(merchant, environment)
    await steps.set_commission(services, merchant, "1.5", CommissionBearer.CUSTOMER)
    sent = order(
        description="Two tickets",
        customer_name="Ngozi",
        customer_email="ngozi@example.com",
        allow_payment_methods="Card, bank",
    )
    old = await steps.initiate_legacy(caller, sent)
    new = await steps.initiate(caller, sent | {"ref_trx": "other"})
    assert old.status == new.status == 200
    assert set(old.json) == set(new.json)
    assert steps.exact(old)["info"] | {"ref_trx": "other"} == steps.exact(new)["info"]
    assert old.json["info"]["ref_trx"] == sent["ref_trx"]


async def test_redirect_urls_are_optional_and_returned_as_null(merchant: Merchant) -> None:
    info = (await steps.initiate_legacy(merchant, small_order())).json["info"]
    for field in ("success_redirect", "cancel_redirect", "description", "customer_email"):
        assert info[field] is None


@pytest.mark.parametrize("field", ["success_redirect", "cancel_redirect"])
async def test_a_redirect_url_must_be_valid(merchant: Merchant, field: str) -> None:
    good = await steps.initiate_legacy(merchant, small_order(**{field: "https://shop.example/"}))
    assert good.json["info"][field] == "https://shop.example/"
    bad = await steps.initiate_legacy(merchant, small_order(**{field: "javascript:alert(1)"}))
    assert (bad.status, bad.code) == (400, "VALIDATION_FAILED")
    assert list(bad.json["errors"]) == [field]


@pytest.mark.parametrize("field", ["payment_amount", "currency_code", "ref_trx", "ipn_url"])
async def test_missing_required_fields_are_reported(merchant: Merchant, field: str) -> None:
    expected = "INVALID_AMOUNT" if field == "payment_amount" else "VALIDATION_FAILED"
    for body in (small_order(**{field: None}), small_order() | {field: None}):
        reply = await steps.initiate_legacy(merchant, body)
        assert (reply.status, reply.code) == (400, expected)
        assert list(reply.json["errors"]) == [field]


async def test_an_empty_body_reports_all_four_required_fields(merchant: Merchant) -> None:
    reply = await steps.initiate_legacy(merchant, {})
    assert set(reply.json["errors"]) == {"payment_amount", "currency_code", "ref_trx", "ipn_url"}


@pytest.mark.parametrize(
    ("scheme", "environment"), pairs(["Bearer", "bearer", "BEARER"], list(Environment))
)
async def test_the_api_key_alone_selects_the_environment(
    merchant: Merchant, scheme: str, environment: Environment
) -> None:
    caller = steps.in_environment(merchant, environment)
    token = f"{scheme} {caller.credentials.api_key}"
    reply = await steps.initiate_legacy(caller, small_order(), Authorization=token)
    assert reply.status == 200
    assert reply.json["info"]["environment"] == environment.value


async def test_the_environment_defaults_to_production(live: Merchant) -> None:
    reply = await steps.initiate_legacy(live, small_order(), X_Environment=None)
    assert reply.json["info"]["environment"] == "production"


async def test_an_unknown_environment_is_rejected(merchant: Merchant) -> None:
    reply = await steps.initiate_legacy(merchant, small_order(), X_Environment="mars")
    assert (reply.status, reply.code) == (400, "INVALID_ENVIRONMENT")


NOT_AUTHORIZED = [
    *(None, "", "Bearer", "Bearer ", "{key}", "Basic {key}", "Token {key}", "Bearer{key}"),
    *("Bearer {key}x", "Bearer x{key}", "Bearer {key} {key}", "Bearer guess"),
    *("Bearer {upper}", "Bearer {merchant_key}", "Bearer {secret}", "Bearer {other}"),
]


@pytest.mark.parametrize(("environment", "authorization"), pairs(list(Environment), NOT_AUTHORIZED))
async def test_only_the_environments_own_api_key_is_accepted(
    merchant: Merchant, environment: Environment, authorization: str | None
) -> None:
    caller = steps.in_environment(merchant, environment)
    [other] = set(Environment) - {environment}
    keys = {
        "key": caller.credentials.api_key,
        "upper": caller.credentials.api_key.upper(),
        "merchant_key": caller.credentials.merchant_key,
        "secret": caller.credentials.api_secret,
        "other": steps.in_environment(merchant, other).credentials.api_key,
    }
    given = None if authorization is None else authorization.format(**keys)
    assert_unknown(await steps.initiate_legacy(caller, small_order(), Authorization=given))


async def test_version_1_headers_do_not_authenticate_legacy_calls(merchant: Merchant) -> None:
    body = steps.encoded(small_order())
    signed = merchant.headers("POST", "/api/initiate-payment", body)
    assert_unknown(await merchant.site.send("POST", "/api/initiate-payment", signed, body))


async def test_a_bearer_token_does_not_authenticate_version_1_calls(merchant: Merchant) -> None:
    headers = {
        "Authorization": f"Bearer {merchant.credentials.api_key}",
        "X-Environment": "sandbox",
    }
    body = steps.encoded(order())
    assert_unknown(await merchant.site.send("POST", "/api/v1/initiate-payment", headers, body))


async def test_a_rotated_key_is_rejected(merchant: Merchant, services: Services) -> None:
    new = await merchants.rotate(
        services.db, services.keyring, merchant.new.id, merchant.environment
    )
    assert_unknown(await steps.initiate_legacy(merchant, small_order()))
    reply = await steps.initiate_legacy(
        merchant, small_order(), Authorization=f"Bearer {new.api_key}"
    )
    assert reply.status == 200


async def test_credentials_are_checked_before_the_body(merchant: Merchant) -> None:
    assert_unknown(await steps.initiate_legacy(merchant, b"not json", Authorization="Bearer x"))


async def test_a_pending_merchant_can_use_only_the_sandbox(
    site: Site, db: Database, keyring: Keyring
) -> None:
    pending = await new_merchant(site, db, keyring, MerchantStatus.PENDING)
    assert (await steps.initiate_legacy(pending, small_order())).status == 200
    live = steps.in_environment(pending, Environment.PRODUCTION)
    reply = await steps.initiate_legacy(live, small_order())
    assert (reply.status, reply.json["error"]) == (403, "Merchant Pending Approval")
    assert reply.code == "MERCHANT_PENDING_APPROVAL"


@pytest.mark.parametrize(
    ("status", "environment"),
    pairs([MerchantStatus.REJECTED, MerchantStatus.DISABLED], list(Environment)),
)
async def test_a_suspended_merchant_is_rejected(
    merchant: Merchant, services: Services, status: MerchantStatus, environment: Environment
) -> None:
    await steps.change(services, merchant, status=status)
    caller = steps.in_environment(merchant, environment)
    reply = await steps.initiate_legacy(caller, small_order())
    assert (reply.status, reply.code) == (403, "MERCHANT_SUSPENDED")


async def test_currency_wallet_and_balance_are_checked_as_in_version_1(
    live: Merchant, services: Services
) -> None:
    await steps.set_commission(services, live, "1.5", CommissionBearer.MERCHANT)
    await steps.change(services, live, currencies=["NGN", "USD"])
    await wallets.set_status(
        services.db, live.new.id, live.environment, "USD", WalletStatus.INACTIVE
    )
    expected = {
        "GHS": "Currency is not enabled for this merchant.",
        "USD": "Receiver wallet for this currency is not available.",
        "NGN": "Insufficient merchant balance to cover the API commission fee.",
    }
    for currency, error in expected.items():
        reply = await steps.initiate_legacy(live, small_order(currency_code=currency))
        assert (reply.status, reply.json["error"]) == (422, error)


async def test_references_are_shared_with_version_1(merchant: Merchant) -> None:
    old, new = order(), order()
    first_old = await steps.initiate_legacy(merchant, old)
    first_new = await steps.initiate(merchant, new)
    second_old = await steps.initiate(merchant, old)
    second_new = await steps.initiate_legacy(merchant, new)
    for first, second in ((first_old, second_old), (first_new, second_new)):
        assert (second.status, second.code) == (422, "DUPLICATE_REFERENCE")
        assert second.json["trx_id"] == steps.trx_id_of(first)
        assert second.json["status"] == "pending"


async def test_an_idempotency_key_works_as_in_version_1(merchant: Merchant) -> None:
    sent = small_order()
    first = await steps.initiate_legacy(merchant, sent, Idempotency_Key="k")
    again = await steps.initiate_legacy(merchant, sent, Idempotency_Key="k")
    assert (again.body, again.headers.get("idempotent-replayed")) == (first.body, "true")
    other = await steps.initiate_legacy(merchant, small_order(), Idempotency_Key="k")
    assert (other.status, other.code) == (422, "DUPLICATE_REFERENCE")


async def test_every_response_has_the_rate_limit_and_a_request_id(merchant: Merchant) -> None:
    replies = [
        await steps.initiate_legacy(merchant, small_order()),
        await steps.initiate_legacy(merchant, {}),
        await steps.initiate(merchant, order()),
        await steps.initiate_legacy(merchant, small_order(), Authorization="Bearer guess"),
    ]
    assert [reply.headers["ratelimit"].split(";t=")[0] for reply in replies] == [
        *('"merchant";r=119', '"merchant";r=118', '"merchant";r=117', '"address";r=119')
    ]
    assert {reply.headers["ratelimit-policy"].split(";", 1)[1] for reply in replies} == {
        "q=120;w=60"
    }
    assert len({reply.headers["x-request-id"] for reply in replies}) == len(replies)


async def test_the_rate_limit_applies_to_legacy_calls(
    merchant: Merchant, services: Services
) -> None:
    async with steps.setting(services, "rate_limit_per_minute", 1):
        sent = small_order()
        assert (await steps.initiate_legacy(merchant, {})).status == 400
        for body in (sent, b"not json"):
            reply = await steps.initiate_legacy(merchant, body)
            assert (reply.status, reply.code) == (429, "RATE_LIMIT_EXCEEDED")
            assert 1 <= int(reply.headers["retry-after"]) <= 60
        elsewhere = msgspec.structs.replace(merchant, site=merchant.site.from_new_ip())
        assert (await steps.initiate_legacy(elsewhere, sent)).status == 200


class StoredNotification(msgspec.Struct, frozen=True):
    environment: str
    event: str
    status: str
    url: str
    body: bytes

    @property
    def payload(self) -> Any:
        return json.loads(self.body, parse_float=Decimal)


async def stored_notifications(
    services: Services, merchant: Merchant, trx_id: str
) -> list[StoredNotification]:
    return await services.db.rows(
        StoredNotification,
        """
        SELECT environment, event, status, url, body FROM notification
         WHERE merchant_id = $1 AND trx_id = $2 ORDER BY id""",
        merchant.new.id,
        trx_id,
    )


async def settle(
    services: Services, merchant: Merchant, trx_id: str, event: PaymentEvent, code: PaymentErrorCode
) -> None:
    await states.end_in_sandbox(services.db, merchant.new.id, trx_id, event, code)


async def test_a_legacy_success_notification_has_the_legacy_fields(
    merchant: Merchant, services: Services
) -> None:
    await steps.set_commission(services, merchant, "1.5", CommissionBearer.CUSTOMER)
    reply = await steps.initiate_legacy(merchant, small_order(payment_amount=1000.25))
    trx_id = steps.trx_id_of(reply)
    assert await stored_notifications(services, merchant, trx_id) == []
    await steps.complete(services, merchant, trx_id)
    [message] = await stored_notifications(services, merchant, trx_id)
    assert message.payload == {
        "event": "payment.success",
        "trx_id": trx_id,
        "amount": Decimal("1000.25"),
        "currency": "NGN",
        "status": "completed",
    }
    assert (message.url, message.environment) == ("https://shop.example/ipn", "sandbox")


@pytest.mark.parametrize(("event", "code"), [(event, code) for event, code, *_ in FAILURES])
async def test_a_legacy_failure_notification_has_the_legacy_fields(
    merchant: Merchant, services: Services, event: PaymentEvent, code: PaymentErrorCode
) -> None:
    trx_id = steps.trx_id_of(await steps.initiate_legacy(merchant, small_order()))
    await settle(services, merchant, trx_id, event, code)
    [message] = await stored_notifications(services, merchant, trx_id)
    assert message.payload == {
        "event": "payment.failed",
        "trx_id": trx_id,
        "amount": 1000,
        "currency": "NGN",
        "status": "failed",
    }


def version_1_data(merchant: Merchant, sent: dict[str, Any], trx_id: str) -> dict[str, Any]:
    """Returns the notification's `data` without the commission fields, as in version 1."""
    return {
        "ref_trx": sent["ref_trx"],
        "trx_id": trx_id,
        "description": sent.get("description"),
        "ipn_url": "https://shop.example/ipn",
        "customer_name": sent.get("customer_name"),
        "customer_email": sent.get("customer_email"),
        "merchant_name": "Ada Stores",
        "amount": 43,
        "base_amount": 43,
        "currency_code": "NGN",
        "environment": "sandbox",
        "is_sandbox": True,
    }


def commission_of(data: dict[str, Any]) -> dict[str, Any]:
    """Removes the commission from the data and returns it. A sandbox commission has no id."""
    commission: dict[str, Any] = data.pop("commission")
    assert commission.pop("commission_trx_id", None) is None
    return commission


@pytest.mark.parametrize("sends_all", [True, False])
@pytest.mark.parametrize(
    ("bearer", "customer_paid"),
    [(CommissionBearer.CUSTOMER, "43.65"), (CommissionBearer.MERCHANT, "43.00")],
)
async def test_a_success_notification_has_exactly_the_documented_fields(
    merchant: Merchant,
    services: Services,
    bearer: CommissionBearer,
    customer_paid: str,
    sends_all: bool,
) -> None:
    await steps.set_commission(services, merchant, "1.5", bearer)
    more = {"description": "Zoë 😀", "customer_name": "Ngozi", "customer_email": "n@example.com"}
    sent = order(payment_amount=43, **(more if sends_all else {}))
    trx_id = steps.trx_id_of(await steps.initiate(merchant, sent))
    assert await stored_notifications(services, merchant, trx_id) == []
    await steps.complete(services, merchant, trx_id)
    [message] = await stored_notifications(services, merchant, trx_id)
    payload = message.payload
    data, moment = payload.pop("data"), payload.pop("timestamp")
    assert payload == {"event": "payment", "message": "Payment Completed", "status": "completed"}
    assert type(moment) is int
    assert abs(time.time() - moment) < 10
    assert commission_of(data) == {
        "base_amount": 43,
        "commission_fee": Decimal("0.65"),
        "commission_bearer": bearer.value,
        "customer_paid": Decimal(customer_paid),
        "merchant_received": 43,
    }
    assert data == version_1_data(merchant, sent, trx_id)
    assert (message.url, message.environment) == ("https://shop.example/ipn", "sandbox")


@pytest.mark.parametrize(("event", "code", "status", "text"), FAILURES)
async def test_a_failure_notification_has_exactly_the_documented_fields(
    merchant: Merchant,
    services: Services,
    event: PaymentEvent,
    code: PaymentErrorCode,
    status: str,
    text: str,
) -> None:
    sent = order(payment_amount=43)
    trx_id = steps.trx_id_of(await steps.initiate(merchant, sent))
    await settle(services, merchant, trx_id, event, code)
    [message] = await stored_notifications(services, merchant, trx_id)
    payload = message.payload
    data = payload.pop("data")
    assert type(payload.pop("timestamp")) is int
    assert payload == {
        "event": "payment",
        "message": text,
        "status": status,
        "error_code": code.value,
    }
    commission = commission_of(data)
    assert (commission["base_amount"], commission["commission_bearer"]) == (43, "customer")
    assert (commission["customer_paid"], commission["merchant_received"]) == (0, 0)
    assert data == version_1_data(merchant, sent, trx_id)


@pytest.mark.parametrize("is_legacy", [True, False])
async def test_an_event_is_notified_once(
    merchant: Merchant, services: Services, is_legacy: bool
) -> None:
    call = steps.initiate_legacy if is_legacy else steps.initiate
    trx_id = steps.trx_id_of(await call(merchant, order()))
    for _ in range(3):
        await steps.complete(services, merchant, trx_id)
    await settle(
        services, merchant, trx_id, PaymentEvent.CANCELED, PaymentErrorCode.PAYMENT_CANCELED
    )
    [message] = await stored_notifications(services, merchant, trx_id)
    assert message.status == "completed"


async def test_a_large_amount_is_notified_with_all_digits(
    merchant: Merchant, services: Services
) -> None:
    for call in (steps.initiate, steps.initiate_legacy):
        trx_id = steps.trx_id_of(await call(merchant, steps.order_of("90071992547409.93")))
        await steps.complete(services, merchant, trx_id)
        [message] = await stored_notifications(services, merchant, trx_id)
        assert b'"amount":90071992547409.93' in message.body


@pytest.mark.parametrize("given", ["not an address", "ada@", "ada obi <ada@example.com>"])
async def test_the_customers_email_may_be_any_text(merchant: Merchant, given: str) -> None:
    sent = order(customer_email=given, success_redirect=None, cancel_redirect=None)
    reply = await steps.initiate_legacy(merchant, sent)
    assert (reply.status, reply.json["info"]["customer_email"]) == (200, given)


@pytest.mark.parametrize(
    "field",
    ["customer_email", "customer_name", "description", "success_redirect", "cancel_redirect"],
)
async def test_empty_optional_text_counts_as_absent(merchant: Merchant, field: str) -> None:
    reply = await steps.initiate_legacy(merchant, order(**{field: ""}))
    assert (reply.status, reply.json["info"][field]) == (200, None)


async def test_the_customers_email_has_at_most_100_characters(merchant: Merchant) -> None:
    reply = await steps.initiate_legacy(merchant, order(customer_email="x" * 101))
    assert (reply.status, list(reply.json["errors"])) == (400, ["customer_email"])
