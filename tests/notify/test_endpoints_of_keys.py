"""Webhook endpoints that belong to an additional API key with the right `webhooks`."""

import json
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from manilla.merchants import api_keys
from manilla.merchants.credentials import InvalidCredentials
from manilla.merchants.rights import Right
from manilla.notify.endpoints import changes
from manilla.notify.endpoints.endpoint import EndpointStatus, EndpointTerms
from tests.api.test_keys import new_key
from tests.notify.endpoint_merchant import ENDPOINTS, EndpointMerchant
from tests.support.client import Merchant, Reply
from tests.support.freshness import outdate

SINCE = b'{"since": "2026-01-31T12:00:00Z"}'
UNKNOWN = (404, "WEBHOOK_ENDPOINT_NOT_FOUND")


async def key_of(shop: EndpointMerchant, name: str, *rights: Right) -> Merchant:
    rights = rights or (Right.WEBHOOKS, Right.READ)
    return await new_key(shop.services, shop.merchant, *rights, name=name)


async def create(shop: EndpointMerchant, key: Merchant, **headers: str) -> Reply:
    body = json.dumps({"url": shop.receiver.url, "events": ["payment.*"]}).encode()
    reply = await key.call("POST", ENDPOINTS, body, **headers)
    await shop.services.directory._refresh(0)
    return reply


async def listed(key: Merchant) -> list[str]:
    return [each["id"] for each in (await key.get(ENDPOINTS)).json["data"]]


def calls(endpoint_id: str) -> list[tuple[str, str, bytes]]:
    path = f"{ENDPOINTS}/{endpoint_id}"
    return [
        ("PATCH", path, b'{"events": ["*"]}'),
        ("POST", path + "/rotate-secret", b""),
        ("POST", path + "/resend", SINCE),
        ("DELETE", path, b""),
    ]


async def test_a_key_without_payouts_verifies_events_with_its_own_endpoint(
    shop: EndpointMerchant,
) -> None:
    key = await key_of(shop, "Shop")
    created = (await create(shop, key)).json
    await shop.deliveries.finish_payment()
    await shop.deliver()
    [received] = shop.receiver.received
    event = Webhook(created["secret"]).verify(received.body, received.headers)
    assert event["type"].startswith("payment.")


async def test_a_key_changes_its_own_endpoint(shop: EndpointMerchant) -> None:
    key = await key_of(shop, "Shop")
    own = (await create(shop, key)).json["id"]
    for method, path, body in calls(own):
        reply = await key.call(method, path, body)
        assert reply.status == 200, (path, reply.body)


async def test_a_key_neither_sees_nor_changes_other_endpoints(shop: EndpointMerchant) -> None:
    key, other = await key_of(shop, "Shop"), await key_of(shop, "Other")
    own = (await create(shop, key)).json["id"]
    others = [(await shop.create())["id"], (await create(shop, other)).json["id"]]
    assert await listed(key) == [own]
    assert sorted(await listed(shop.merchant)) == sorted([own, *others])
    for endpoint_id in others:
        for method, path, body in [("GET", f"{ENDPOINTS}/{endpoint_id}", b""), *calls(endpoint_id)]:
            reply = await key.call(method, path, body)
            assert (reply.status, reply.code) == UNKNOWN, path
        assert (await shop.endpoint(endpoint_id)).events in (["*"], ["payment.*"])


async def test_the_main_key_and_a_reader_see_the_endpoints_of_keys(shop: EndpointMerchant) -> None:
    own = (await create(shop, await key_of(shop, "Shop"))).json["id"]
    reader = await key_of(shop, "Reader", Right.READ)
    assert await listed(reader) == await listed(shop.merchant) == [own]
    for method, path, body in calls(own):
        refused = await reader.call(method, path, body)
        assert (refused.status, refused.json["required_right"]) == (403, "webhooks")
        assert (await shop.merchant.call(method, path, body)).status == 200


async def test_another_key_does_not_get_a_secret_with_the_same_request(
    shop: EndpointMerchant,
) -> None:
    owner, stranger = await key_of(shop, "Shop"), await key_of(shop, "Other")
    created = await create(shop, owner, Idempotency_Key="same")
    assert (await create(shop, owner, Idempotency_Key="same")).json == created.json
    stolen = await create(shop, stranger, Idempotency_Key="same")
    assert (stolen.status, stolen.code) == UNKNOWN
    path = f"{ENDPOINTS}/{created.json['id']}/rotate-secret"
    rotated = await owner.call("POST", path, b"", Idempotency_Key="turn")
    assert (await owner.call("POST", path, b"", Idempotency_Key="turn")).json == rotated.json
    stolen = await stranger.call("POST", path, b"", Idempotency_Key="turn")
    assert (stolen.status, stolen.code) == UNKNOWN


async def test_a_revoked_keys_endpoints_receive_nothing_more(shop: EndpointMerchant) -> None:
    key = await key_of(shop, "Shop")
    own, kept = (await create(shop, key)).json["id"], (await shop.create())["id"]
    merchant = shop.merchant
    await api_keys.revoke(shop.services.db, merchant.new.id, merchant.environment, 1)
    await outdate(shop.services)
    await shop.deliveries.finish_payment()
    await shop.deliver()
    assert (await shop.endpoint(own)).disabled_reason == api_keys.KEY_ENDED
    assert (await shop.endpoint(kept)).status == "enabled"
    assert len(shop.receiver.received) == 1


async def test_an_expired_keys_endpoints_are_disabled(shop: EndpointMerchant) -> None:
    own = (await create(shop, await key_of(shop, "Shop"))).json["id"]
    expire = "UPDATE api_key SET expires_at = now() - interval '2 days' WHERE merchant_id = $1"
    await shop.services.db.execute(expire, shop.merchant.new.id)
    await api_keys.delete_expired(shop.services.db)
    assert (await shop.endpoint(own)).disabled_reason == api_keys.KEY_ENDED


@pytest.mark.parametrize("change", ["create", "enable"])
async def test_a_key_that_is_revoked_meanwhile_gets_no_endpoint(
    shop: EndpointMerchant, change: str
) -> None:
    """The cached merchant data can still contain the key for a second."""
    own = (await create(shop, await key_of(shop, "Shop"))).json["id"]
    services, merchant = shop.services, shop.merchant
    await api_keys.revoke(services.db, merchant.new.id, merchant.environment, 1)
    terms: Any = EndpointTerms(url=shop.receiver.url, events=["*"], status=EndpointStatus.ENABLED)
    with pytest.raises(InvalidCredentials):
        if change == "create":
            await changes.create(services.db, services.keyring, shop.tenant, terms, api_key=1)
        else:
            await changes.update(services.db, shop.tenant, own, terms, 1)
    assert (await shop.endpoint(own)).status == "disabled"
