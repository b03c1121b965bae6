"""Additional API keys: permissions, allowed networks, expiry and revocation."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from manilla.api import v1
from manilla.api.endpoint import PARAMETER, Endpoint
from manilla.app import WebApplication
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.merchants import api_keys, limits, merchants
from manilla.merchants.api_keys import LIVE_MAX, ApiKeyRow, ApiKeyTerms
from manilla.merchants.credentials import InvalidCredentials
from manilla.merchants.rights import GRANTABLE, Right
from manilla.payouts.initiate import PayoutOrder
from manilla.refunds import order as refunds
from manilla.refunds.order import OrderedRefund
from manilla.services import Services
from manilla.settings import Settings
from manilla.wiring import open_services
from tests.conftest import serving
from tests.dashboard.merchant_dashboard import new_dashboard
from tests.payments.orders import INITIATE, order
from tests.payouts.payout_merchant import ACCOUNT, new_reference
from tests.support.client import Merchant, Reply, Site, new_merchant
from tests.support.freshness import outdate
from tests.support.waiting import until

PATH = "/api/v1/site-info"
UNKNOWN = {"error": "Invalid API credentials.", "error_code": "INVALID_CREDENTIALS"}
COMBINATIONS = [
    rights
    for length in range(1, len(GRANTABLE) + 1)
    for rights in itertools.combinations(GRANTABLE, length)
]


async def new_key(
    services: Services,
    merchant: Merchant,
    *rights: Right,
    name: str = "Shop",
    networks: tuple[str, ...] = (),
    expires_at: datetime | None = None,
) -> Merchant:
    """Returns a client for the same merchant that uses a new additional API key."""
    terms = ApiKeyTerms(
        name=name, rights=rights or GRANTABLE, networks=networks, expires_at=expires_at
    )
    environment = merchant.environment
    new = await api_keys.create(services.db, services.keyring, merchant.new.id, environment, terms)
    await services.directory._refresh(0)
    keys = msgspec.structs.replace(merchant.new, **{environment.value: new})
    return Merchant(merchant.site.from_new_ip(), keys, environment)


async def shown(services: Services, merchant: Merchant) -> list[ApiKeyRow]:
    return await api_keys.list_keys(services.db, merchant.new.id, merchant.environment)


def coming_from(merchant: Merchant, address: str) -> Merchant:
    return msgspec.structs.replace(merchant, site=Site(merchant.site.port, address))


def assert_unknown(reply: Reply) -> None:
    assert (reply.status, reply.json) == (401, UNKNOWN)


async def call(merchant: Merchant, endpoint: Endpoint) -> Reply:
    target = PARAMETER.sub("x", endpoint.path)
    body = b"{}" if endpoint.method in ("POST", "PATCH") else b""
    if endpoint.is_signed:
        return await merchant.call(endpoint.method, target, body)
    headers = {
        "Authorization": f"Bearer {merchant.credentials.api_key}",
        "X-Environment": merchant.environment,
    }
    return await merchant.site.send(endpoint.method, target, headers, body)


@pytest.mark.parametrize(
    "rights",
    [
        pytest.param(rights, marks=pytest.mark.long if 1 < len(rights) < len(GRANTABLE) else [])
        for rights in COMBINATIONS
    ],
    ids="+".join,
)
async def test_a_key_may_call_exactly_the_endpoints_of_its_rights(
    services: Services, merchant: Merchant, rights: tuple[Right, ...]
) -> None:
    key = await new_key(services, merchant, *rights)
    for endpoint in v1.endpoints(services):
        reply = await call(key, endpoint)
        if not endpoint.is_signed:
            assert_unknown(reply)
        elif endpoint.right is None or endpoint.right in rights:
            assert reply.status not in (401, 403), (endpoint.path, reply.body)
        else:
            assert (reply.status, reply.json) == (
                403,
                {
                    "error": f"This API key does not have the right `{endpoint.right}`.",
                    "error_code": "INSUFFICIENT_PERMISSION",
                    "required_right": endpoint.right,
                },
            )


async def test_the_merchants_own_key_may_call_every_endpoint(
    services: Services, merchant: Merchant
) -> None:
    await new_key(services, merchant, Right.READ)
    for endpoint in v1.endpoints(services):
        reply = await call(merchant, endpoint)
        assert reply.status not in (401, 403), (endpoint.path, reply.body)


async def test_a_key_without_the_right_does_not_get_the_response_to_a_repeated_request(
    services: Services, merchant: Merchant
) -> None:
    body = msgspec.json.encode(order())
    repeat = {"Idempotency_Key": f"key-{new_reference()}"}
    assert (await merchant.call("POST", INITIATE, body, **repeat)).status == 200
    reader = await new_key(services, merchant, Right.READ)
    reply = await reader.call("POST", INITIATE, body, **repeat)
    assert (reply.status, reply.code) == (403, "INSUFFICIENT_PERMISSION")
    assert "trx_id" not in reply.json


async def test_a_key_is_signed_with_its_own_secret_only(
    services: Services, merchant: Merchant
) -> None:
    key = await new_key(services, merchant)
    mine, own = key.credentials, merchant.credentials
    assert (await key.get(PATH)).status == 200
    assert (await key.get(PATH, X_API_Key=own.api_key)).status == 401
    assert (await merchant.get(PATH, X_API_Key=mine.api_key)).status == 401
    other = await new_key(services, merchant, name="Other")
    assert (await other.get(PATH, X_API_Key=mine.api_key)).status == 401


async def test_a_key_of_another_merchant_or_environment_is_rejected(
    services: Services, merchant: Merchant, site: Site, db: Database, keyring: Keyring
) -> None:
    key = await new_key(services, merchant)
    other = await new_merchant(site, db, keyring)
    assert_unknown(await key.get(PATH, X_Merchant_Key=other.credentials.merchant_key))
    live = msgspec.structs.replace(merchant, environment=Environment.PRODUCTION)
    live_key = await new_key(services, live)
    assert (await live_key.get(PATH)).status == 200
    merchant_key = {
        environment: getattr(merchant.new, environment).merchant_key
        for environment in ("sandbox", "production")
    }
    for mine, environment in ((key, "production"), (live_key, "sandbox")):
        for sent in ({}, {"X_Merchant_Key": merchant_key[environment]}):
            assert_unknown(await mine.get(PATH, X_Environment=environment, **sent))


@pytest.mark.parametrize(
    ("networks", "allowed", "refused"),
    [
        (("203.0.113.7",), ["203.0.113.7", "::ffff:203.0.113.7"], ["203.0.113.8", "::1"]),
        (("203.0.113.0/24",), ["203.0.113.1", "::ffff:203.0.113.255"], ["203.0.114.1"]),
        (("::ffff:203.0.113.0/120",), ["203.0.113.1", "::ffff:203.0.113.1"], ["203.0.114.1"]),
        (("2001:db8::/32",), ["2001:db8::1", "2001:DB8:1::"], ["2001:db9::1", "203.0.113.1"]),
        (("2001:db8::5", "198.51.100.0/30"), ["2001:db8::5", "198.51.100.3"], ["198.51.100.4"]),
        ((), ["203.0.113.7", "2001:db8::1"], []),
    ],
)
async def test_a_key_works_only_from_its_addresses(
    services: Services,
    merchant: Merchant,
    networks: tuple[str, ...],
    allowed: list[str],
    refused: list[str],
) -> None:
    key = await new_key(services, merchant, networks=networks)
    for address in allowed:
        assert (await coming_from(key, address).get(PATH)).status == 200, address
    for address in refused:
        assert_unknown(await coming_from(key, address).get(PATH))
        assert (await coming_from(merchant, address).get(PATH)).status == 200


async def test_the_address_is_the_nearest_one_that_is_not_a_trusted_proxy(
    services: Services, merchant: Merchant
) -> None:
    key = await new_key(services, merchant, networks=("203.0.113.7",))
    assert (await coming_from(key, "198.51.100.9, 203.0.113.7").get(PATH)).status == 200
    assert (await coming_from(key, "203.0.113.7, 127.0.0.9").get(PATH)).status == 200
    # A sender cannot gain access by writing an allowed IP address into the X-Forwarded-For header.
    assert_unknown(await coming_from(key, "203.0.113.7, 198.51.100.9").get(PATH))
    no_proxies = msgspec.structs.replace(services, trusted_proxies=())
    async with serving(WebApplication(no_proxies)) as port:
        untrusted = msgspec.structs.replace(key, site=Site(port, "203.0.113.7"))
        assert_unknown(await untrusted.get(PATH))


async def test_the_request_log_shows_the_key_and_why_it_was_rejected(
    services: Services, merchant: Merchant
) -> None:
    key = await new_key(services, merchant, name="Shop", networks=("203.0.113.7",))
    await merchant.get(PATH)
    await coming_from(key, "203.0.113.7").get(PATH)
    await coming_from(key, "203.0.113.8").get(PATH)
    await services.requests.flush()
    rows = await services.db.records(
        "SELECT status, api_key, error FROM api_request WHERE merchant_id = $1 ORDER BY at",
        merchant.new.id,
    )
    assert [tuple(row) for row in rows] == [
        (200, "Main key No. 1", None),
        (200, "Shop", None),
        (401, None, "The API key Shop does not allow 203.0.113.8."),
    ]
    [row] = await shown(services, merchant)
    assert row.last_used_at is not None


async def test_a_key_stops_working_when_it_expires(services: Services, merchant: Merchant) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    key = await new_key(services, merchant, expires_at=soon)
    assert (await key.get(PATH)).status == 200
    caller = await services.directory.of(merchant.environment, merchant.new.id)
    [cached] = caller.keys
    assert cached.is_live(soon - timedelta(seconds=1))
    assert not cached.is_live(soon)
    await services.db.execute(
        "UPDATE api_key SET expires_at = now() - interval '2 days' WHERE merchant_id = $1",
        merchant.new.id,
    )
    await services.directory._refresh(0)
    assert_unknown(await key.get(PATH))
    assert [row.status for row in await shown(services, merchant)] == ["expired"]
    await api_keys.delete_expired(services.db)
    sealed = "SELECT secret_sealed FROM api_key WHERE merchant_id = $1"
    assert await services.db.value(sealed, merchant.new.id) is None


async def test_every_process_rejects_a_revoked_key_within_a_second(
    services: Services, merchant: Merchant, settings: Settings
) -> None:
    key = await new_key(services, merchant)
    async with (
        open_services(settings, name="second process", connections=4) as others,
        serving(WebApplication(others)) as port,
    ):
        elsewhere = msgspec.structs.replace(key, site=Site(port))
        assert [(await one.get(PATH)).status for one in (key, elsewhere)] == [200, 200]
        await api_keys.revoke(services.db, merchant.new.id, merchant.environment, 1)
        for each in (services, others):
            await outdate(each)
        for one in (key, elsewhere):
            assert_unknown(await one.get(PATH))
    [row] = await shown(services, merchant)
    assert (row.status, row.revoked_by) == ("revoked", "The platform's operator (system)")
    sealed = "SELECT secret_sealed FROM api_key WHERE merchant_id = $1"
    assert await services.db.value(sealed, merchant.new.id) is None
    with pytest.raises(api_keys.ApiKeyNotFound):
        await api_keys.revoke(services.db, merchant.new.id, merchant.environment, 1)


@pytest.mark.parametrize("end", ["revoked_at = now(), revoked_by = 'Ada'", "expires_at = now()"])
async def test_a_payout_is_rejected_at_once_if_the_cached_key_has_ended(
    services: Services, merchant: Merchant, end: str
) -> None:
    db = services.db
    await new_key(services, merchant, Right.PAYOUTS)
    cached = await services.directory.of(merchant.environment, merchant.new.id)
    method_id = await db.value("SELECT id FROM method WHERE code = 'platform'")

    async def pay() -> Any:
        made = PayoutOrder(
            payout_amount=Decimal(1000),
            currency_code="NGN",
            ref_trx=new_reference(),
            ipn_url="https://shop.example.com/ipn",
            withdraw_method_id=method_id,
            beneficiary={"Bank Name": "GTBank", "Account Number": ACCOUNT},
            api_key=1,
        )
        return await services.payouts.initiate(
            cached, made, limits.rate_ticket(merchant.new.id, "tests", 100)
        )

    balance = "SELECT balance_minor FROM wallet WHERE merchant_id = $1 AND environment = 'sandbox'"
    assert (await pay()).status == "pending"
    left = await db.value(balance, merchant.new.id)
    await db.execute(f"UPDATE api_key SET {end} WHERE merchant_id = $1", merchant.new.id)
    with pytest.raises(InvalidCredentials):
        await pay()
    assert await db.value(balance, merchant.new.id) == left


async def test_a_refund_is_rejected_at_once_if_the_cached_key_has_ended(
    services: Services, site: Site
) -> None:
    db, shop = services.db, await new_dashboard(services, site)
    merchant = shop.merchant
    trx_id = await shop.pay_in()
    await new_key(services, merchant, Right.REFUNDS)
    cached = await services.directory.of(merchant.environment, merchant.new.id)

    async def refund() -> Any:
        made = OrderedRefund(trx_id=trx_id, ref_trx=new_reference(), amount=Decimal(1), api_key=1)
        return await refunds.place(db, cached, made)

    assert (await refund()).status == "pending"
    balance = await shop.balance()
    await api_keys.revoke(db, merchant.new.id, merchant.environment, 1)
    with pytest.raises(InvalidCredentials):
        await refund()
    assert await shop.balance() == balance


@pytest.mark.parametrize("table", ["payment", "wallet"])
async def test_a_refund_is_rejected_if_its_key_is_revoked_while_it_waits_for_a_lock(
    services: Services, site: Site, table: str
) -> None:
    db, shop = services.db, await new_dashboard(services, site)
    merchant = shop.merchant
    trx_id = await shop.pay_in()
    await new_key(services, merchant, Right.REFUNDS)
    cached = await services.directory.of(merchant.environment, merchant.new.id)
    made = OrderedRefund(trx_id=trx_id, ref_trx=new_reference(), amount=Decimal(1), api_key=1)
    balance = await shop.balance()
    async with db.transaction() as holding:
        await holding.execute(
            f"SELECT FROM {table} WHERE merchant_id = $1 FOR UPDATE", merchant.new.id
        )
        refunding = asyncio.create_task(refunds.place(db, cached, made))
        await until(lambda: db.value("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"))
        await api_keys.revoke(db, merchant.new.id, merchant.environment, 1)
    with pytest.raises(InvalidCredentials):
        await refunding
    assert await shop.balance() == balance
    assert await db.number("SELECT count(*) FROM refund WHERE payment_trx_id = $1", trx_id) == 0


async def test_a_merchant_has_at_most_fifty_active_keys(
    services: Services, merchant: Merchant
) -> None:
    db, number, environment = services.db, merchant.new.id, merchant.environment
    for each in range(LIVE_MAX):
        await new_key(services, merchant, Right.READ, name=f"Key {each}")
    with pytest.raises(api_keys.TooManyApiKeys):
        await new_key(services, merchant, Right.READ, name="One more")
    await api_keys.revoke(db, number, environment, 7)
    key = await new_key(services, merchant, Right.READ, name="One more")
    assert (await key.get(PATH)).status == 200
    live = msgspec.structs.replace(merchant, environment=Environment.PRODUCTION)
    assert (await (await new_key(services, live)).get(PATH)).status == 200


@pytest.mark.parametrize(
    ("changed", "field", "problem"),
    [
        ({"name": " "}, "name", "1 to 60 printable"),
        ({"name": "a\nb"}, "name", "1 to 60 printable"),
        ({"name": "Taken"}, "name", "An active key has this name"),
        ({"rights": ()}, "rights", "Choose at least one"),
        ({"rights": ("unknown",)}, "rights", "Choose at least one"),
        ({"networks": ("10.0.0.1/24",)}, "networks", "Did you mean 10.0.0.0/24?"),
        ({"networks": ("10.0.0",)}, "networks", "is not an IP address"),
        ({"networks": [f"10.0.0.{n}" for n in range(51)]}, "networks", "at most 50"),
        ({"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "expires_at", "in the future"),
    ],
)
async def test_invalid_terms_are_rejected_with_the_field(
    services: Services, merchant: Merchant, changed: dict[str, Any], field: str, problem: str
) -> None:
    await new_key(services, merchant, name="Taken")
    terms = ApiKeyTerms(**{"name": "Shop", "rights": GRANTABLE, **changed})
    with pytest.raises(Refusal) as refused:
        await api_keys.create(
            services.db, services.keyring, merchant.new.id, merchant.environment, terms
        )
    assert refused.value.errors is not None
    assert problem in refused.value.errors[field]
    assert len(await shown(services, merchant)) == 1


async def test_rotating_the_merchants_own_key_leaves_further_keys_valid(
    services: Services, merchant: Merchant
) -> None:
    key = await new_key(services, merchant)
    await merchants.rotate(services.db, services.keyring, merchant.new.id, merchant.environment)
    await services.directory._refresh(0)
    assert (await key.get(PATH)).status == 200
    assert (await merchant.get(PATH)).status == 401
    caller = await services.directory.of(merchant.environment, merchant.new.id)
    # Notifications are signed with the merchant's own secret, not with an additional key's secret.
    assert caller.live_credentials()[0].generation == 2
