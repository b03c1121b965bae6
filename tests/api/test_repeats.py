"""Every POST can be repeated with the same Idempotency-Key, and takes effect only once."""

import asyncio
import json
from typing import Any

import pytest

from manilla.api import v1
from manilla.kit import changes
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.merchants.rights import Right
from manilla.services import Services
from tests.api.test_keys import new_key
from tests.support.client import Merchant, Reply, Site, new_merchant
from tests.support.limits import limited

ENDPOINTS, LINKS = "/api/v1/webhook-endpoints", "/api/v1/payment-links"
ENDPOINT_ORDER = {"url": "https://shop.example/webhooks", "events": ["*"]}
LINK_ORDER = {"title": "Lamp", "currency_code": "NGN", "amount": 1500.5}
KEY = "order 7"


@pytest.fixture
async def merchant(
    site: Site, db: Database, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> Merchant:
    """No other process runs, so creating an endpoint does not wait for other processes' caches."""
    monkeypatch.setattr(changes, "KNOWN_AFTER_SECONDS", 0)
    return await new_merchant(site, db, keyring)


async def post(merchant: Merchant, path: str, body: Any = None, key: str | None = KEY) -> Reply:
    sent = b"" if body is None else json.dumps(body).encode()
    return await merchant.call("POST", path, sent, Idempotency_Key=key)


def is_replay_of(first: Reply, reply: Reply) -> bool:
    assert first.status == 200, first.body
    is_replayed = reply.headers.get("idempotent-replayed") == "true"
    return (reply.status, reply.body, is_replayed) == (200, first.body, True)


async def number_of(merchant: Merchant, path: str) -> int:
    return len((await merchant.get(path)).json["data"])


def test_every_post_accepts_a_key(services: Services) -> None:
    for endpoint in v1.endpoints(services):
        # A stored response would not report money that has arrived since then.
        is_idempotent = endpoint.path == "/api/v1/payments/{trxId}/cancel"
        is_changing = endpoint.method == "POST" and not is_idempotent
        assert endpoint.is_repeatable is is_changing, endpoint.path


@pytest.mark.parametrize(("path", "order"), [(ENDPOINTS, ENDPOINT_ORDER), (LINKS, LINK_ORDER)])
async def test_a_repeated_creation_returns_the_first_response_and_creates_nothing(
    merchant: Merchant, path: str, order: dict[str, Any]
) -> None:
    first = await post(merchant, path, order)
    assert "idempotent-replayed" not in first.headers
    assert is_replay_of(first, await post(merchant, path, order))
    assert await number_of(merchant, path) == 1
    other = await post(merchant, path, {**order, "description": "Another"})
    assert (other.status, other.code) == (422, "DUPLICATE_REFERENCE")
    assert (await post(merchant, path, order, key=None)).body != first.body
    assert await number_of(merchant, path) == 2


@pytest.mark.parametrize(("path", "order"), [(ENDPOINTS, ENDPOINT_ORDER), (LINKS, LINK_ORDER)])
async def test_concurrent_creations_with_one_key_create_one(
    merchant: Merchant, path: str, order: dict[str, Any]
) -> None:
    replies = await asyncio.gather(*(post(merchant, path, order) for _ in range(8)))
    assert {(reply.status, reply.body) for reply in replies} == {(200, replies[0].body)}
    assert await number_of(merchant, path) == 1


async def test_a_rejected_creation_does_not_use_up_its_key(merchant: Merchant) -> None:
    assert (await post(merchant, LINKS, {**LINK_ORDER, "currency_code": "XYZ"})).status != 200
    assert (await post(merchant, LINKS, LINK_ORDER)).status == 200


async def test_a_repeated_rotation_returns_the_same_secret(
    merchant: Merchant, db: Database
) -> None:
    paths = [
        f"{ENDPOINTS}/{(await post(merchant, ENDPOINTS, ENDPOINT_ORDER, key=None)).json['id']}"
        for _ in range(2)
    ]
    first = await post(merchant, f"{paths[0]}/rotate-secret", {"overlap_minutes": 60})
    assert is_replay_of(
        first, await post(merchant, f"{paths[0]}/rotate-secret", {"overlap_minutes": 60})
    )
    other = await post(merchant, f"{paths[1]}/rotate-secret", {"overlap_minutes": 60})
    assert other.json["id"] != first.json["id"]  # a key belongs to one path
    numbers = await db.records(
        "SELECT number FROM endpoint_secret WHERE merchant_id = $1 AND endpoint_id = $2",
        *(merchant.new.id, first.json["id"]),
    )
    assert sorted(row["number"] for row in numbers) == [1, 2]


async def test_a_secret_is_not_stored_and_not_repeated_after_its_end(
    merchant: Merchant, db: Database
) -> None:
    first = (await post(merchant, ENDPOINTS, ENDPOINT_ORDER)).json
    stored = await db.records(
        "SELECT answer FROM idempotency WHERE merchant_id = $1", merchant.new.id
    )
    assert [json.loads(row["answer"]) for row in stored] == [{"id": first["id"], "number": 1}]
    await merchant.call("DELETE", f"{ENDPOINTS}/{first['id']}", b"")
    again = await post(merchant, ENDPOINTS, ENDPOINT_ORDER)
    assert (again.status, again.code) == (422, "DUPLICATE_REFERENCE")
    assert "no longer valid" in again.json["error"]


async def test_a_repeated_test_sends_one_event(merchant: Merchant, db: Database) -> None:
    path = f"{ENDPOINTS}/{(await post(merchant, ENDPOINTS, ENDPOINT_ORDER)).json['id']}/test"
    with limited(endpoint_test_seconds=0):  # no worker delivers the event
        first, again = await post(merchant, path), await post(merchant, path)
    assert (first.status, again.status) == (200, 200)
    assert first.json["id"] == again.json["id"]
    sent = "SELECT count(*) FROM notification WHERE merchant_id = $1 AND event = 'endpoint.test'"
    assert await db.number(sent, merchant.new.id) == 1


async def test_a_repeated_switch_or_resend_does_not_undo_a_later_change(
    merchant: Merchant, db: Database
) -> None:
    link = f"{LINKS}/{(await post(merchant, LINKS, LINK_ORDER)).json['id']}"
    disabled = await post(merchant, f"{link}/disable")
    assert (await post(merchant, f"{link}/enable")).json["status"] == "active"
    assert is_replay_of(disabled, await post(merchant, f"{link}/disable"))
    assert (await merchant.get(link)).json["status"] == "active"
    created = await post(merchant, ENDPOINTS, ENDPOINT_ORDER)
    resend, since = f"{ENDPOINTS}/{created.json['id']}/resend", {"since": "2026-01-31T12:00:00Z"}
    resent = await post(merchant, resend, since)
    assert is_replay_of(resent, await post(merchant, resend, since))
    recorded = "SELECT count(*) FROM audit WHERE merchant_id = $1 AND action = 'endpoint.resend'"
    assert await db.number(recorded, merchant.new.id) == 1


async def test_a_key_without_the_permission_gets_no_stored_secret(
    merchant: Merchant, services: Services
) -> None:
    first = await post(merchant, ENDPOINTS, ENDPOINT_ORDER)
    reader = await new_key(services, merchant, Right.READ)
    disabled = MerchantUpdate(status=MerchantStatus.DISABLED)
    await merchants.change(services.db, services.keyring, merchant.new.id, disabled)
    await services.directory._refresh(0)
    assert is_replay_of(first, await post(merchant, ENDPOINTS, ENDPOINT_ORDER))
    reply = await post(reader, ENDPOINTS, ENDPOINT_ORDER)
    assert (reply.status, reply.code) == (403, "INSUFFICIENT_PERMISSION")
