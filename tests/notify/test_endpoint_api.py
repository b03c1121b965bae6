"""The webhook endpoint API: limits, invalid input, and other merchants' endpoints."""

import asyncio
import json
from typing import Any

import pytest

from manilla.kit.environment import Environment
from manilla.notify.endpoints.endpoint import ENDPOINTS_MAX
from tests.notify.endpoint_merchant import ENDPOINTS, EndpointMerchant
from tests.support.client import Merchant, new_merchant

URL = "https://shop.example/webhooks"


async def test_an_endpoint_is_created_listed_changed_and_shown_without_its_secret(
    shop: EndpointMerchant,
) -> None:
    created = await shop.create("payment.*", "payment.*", "refund.completed")
    assert set(created) == {"id", "secret"}
    reply = await shop.send("PATCH", created["id"], b'{"description": "Shop", "events": ["*"]}')
    assert reply.status == 200
    listed = (await shop.merchant.get(ENDPOINTS)).json
    shown = (await shop.send("GET", created["id"])).json
    assert listed == {"data": [shown], "next_cursor": None}
    assert (shown["events"], shown["description"], shown["status"]) == (["*"], "Shop", "enabled")
    assert "secret" not in shown


async def test_only_null_or_an_empty_text_removes_the_description(shop: EndpointMerchant) -> None:
    endpoint_id = (await shop.create())["id"]
    for removing in (b'{"description": null}', b'{"description": ""}'):
        await shop.send("PATCH", endpoint_id, b'{"description": "Shop"}')
        assert (await shop.send("PATCH", endpoint_id, b"")).json["description"] == "Shop"
        kept = await shop.send("PATCH", endpoint_id, b'{"events": ["*"], "url": null}')
        assert (kept.status, kept.json["description"]) == (200, "Shop")
        removed = await shop.send("PATCH", endpoint_id, removing)
        assert (removed.status, removed.json["description"]) == (200, None)
        assert removed.json["url"] == kept.json["url"]


@pytest.mark.parametrize("body", [b'{"url": ""}', b'{"url": "", "events": ["*"]}'])
async def test_an_empty_url_is_rejected_and_changes_nothing(
    shop: EndpointMerchant, body: bytes
) -> None:
    endpoint_id = (await shop.create("payment.*"))["id"]
    before = (await shop.send("GET", endpoint_id)).json
    reply = await shop.send("PATCH", endpoint_id, body)
    assert (reply.status, set(reply.json["errors"])) == (400, {"url"})
    assert (await shop.send("GET", endpoint_id)).json == before


async def test_the_list_has_pages(shop: EndpointMerchant) -> None:
    made = [(await shop.create())["id"] for _ in range(3)]
    first = (await shop.merchant.get(f"{ENDPOINTS}?limit=2")).json
    rest = (await shop.merchant.get(f"{ENDPOINTS}?limit=2&cursor={first['next_cursor']}")).json
    assert [each["id"] for each in first["data"] + rest["data"]] == made[::-1]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"url": URL}, "events"),
        ({"url": URL, "events": []}, "events"),
        ({"url": URL, "events": ["payment.done"]}, "events"),
        ({"url": URL, "events": ["payment"]}, "events"),
        ({"url": URL, "events": ["**"]}, "events"),
        ({"url": URL, "events": "payment.*"}, "events"),
        ({"url": URL, "events": [1]}, "events"),
        ({"url": URL, "events": ["endpoint.test"]}, "events"),
        ({"events": ["*"]}, "url"),
        ({"url": "ftp://shop.example", "events": ["*"]}, "url"),
        ({"url": "shop.example", "events": ["*"]}, "url"),
        ({"url": URL + "a" * 2000, "events": ["*"]}, "url"),
        ({"url": URL, "events": ["*"], "description": "a" * 201}, "description"),
    ],
)
async def test_bad_endpoints_are_rejected_by_field(
    shop: EndpointMerchant, body: Any, field: str
) -> None:
    reply = await shop.merchant.post(ENDPOINTS, body)
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED"), reply.body
    assert list(reply.json["errors"]) == [field]


async def test_endpoints_are_limited_with_a_clear_error(shop: EndpointMerchant) -> None:
    body = json.dumps({"url": URL, "events": ["*"]}).encode()
    replies = await asyncio.gather(
        *(shop.merchant.call("POST", ENDPOINTS, body) for _ in range(ENDPOINTS_MAX + 5))
    )
    refused = [reply for reply in replies if reply.status != 200]
    assert {(reply.status, reply.code) for reply in refused} == {
        (422, "TOO_MANY_WEBHOOK_ENDPOINTS")
    }
    assert len(replies) - len(refused) == ENDPOINTS_MAX
    first = next(reply for reply in replies if reply.status == 200).json["id"]
    await shop.send("DELETE", first)
    assert (await shop.merchant.call("POST", ENDPOINTS, body)).status == 200


async def test_other_merchants_and_environments_get_404(shop: EndpointMerchant) -> None:
    created, services = await shop.create(), shop.services
    other = await new_merchant(shop.merchant.site, services.db, services.keyring)
    live = Merchant(other.site, shop.merchant.new, Environment.PRODUCTION)
    since = b'{"since": "2026-01-31T12:00:00Z"}'
    calls = [("GET", "", b""), ("PATCH", "", b"{}"), ("DELETE", "", b""), ("POST", "/test", b"")]
    calls += [("POST", "/rotate-secret", b""), ("POST", "/resend", since)]
    for stranger in (other, live):
        for method, path, body in calls:
            reply = await stranger.call(method, f"{ENDPOINTS}/{created['id']}{path}", body)
            assert (reply.status, reply.code) == (404, "WEBHOOK_ENDPOINT_NOT_FOUND")
    assert (await shop.send("GET", created["id"])).json["status"] == "enabled"
