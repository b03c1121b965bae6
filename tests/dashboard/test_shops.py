"""Connecting a shop with one text, and what the shop can do with it."""

import base64
import json
import re
from typing import Any

import msgspec
import pytest
from manilla_client import ShopConnection

from manilla.merchants import api_keys
from manilla.merchants.credentials import NewCredentials
from manilla.notify.endpoints import store
from manilla.notify.shops import PREFIX
from manilla.people.roles import Role
from manilla.services import Services
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.payments.orders import order
from tests.payments.steps import initiate
from tests.support.client import Merchant, Site
from tests.web.signed_in_user import member

SHOPS = "/sandbox/credentials/shops"
FORM = {"name": "Web shop", "url": "https://shop.example/manilla"}


@pytest.fixture
async def dashboard(services: Services, site: Site) -> MerchantDashboard:
    made = await new_dashboard(services, site)
    await made.owner.step_up(services)
    return made


async def connect(dashboard: MerchantDashboard) -> dict[str, Any]:
    assert b"Connect" in (await dashboard.owner.get(SHOPS + "/new")).body
    page = (await dashboard.owner.post(SHOPS, FORM)).body.decode()
    assert "shown only once" in page
    found = re.search(PREFIX + "([A-Za-z0-9_-]+)", page)
    assert found is not None, page
    text = found[1]
    read = ShopConnection.read(found[0])
    connection: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    assert (read.url, read.webhook_secret) == (connection["url"], connection["webhook_secret"])
    await dashboard.services.directory._refresh(0)
    return connection


def calling_with(dashboard: MerchantDashboard, connection: dict[str, Any]) -> Merchant:
    keys = (connection[name] for name in ("merchant_key", "api_key", "api_secret"))
    new = msgspec.structs.replace(dashboard.merchant.new, sandbox=NewCredentials(*keys))
    return msgspec.structs.replace(dashboard.merchant, new=new)


async def test_the_text_is_enough_to_take_payments_and_not_to_send_payouts(
    dashboard: MerchantDashboard, services: Services
) -> None:
    connection = await connect(dashboard)
    shop = calling_with(dashboard, connection)
    account = (await shop.get("/api/v1/account")).json
    assert account["environment"] == connection["environment"] == "sandbox"
    assert account["api_key"]["rights"] == ["payments", "refunds", "read", "webhooks"]
    assert connection["url"] == services.base_url
    assert (await initiate(shop, order())).status == 200
    refused = await shop.post("/api/v1/initiate-payout", {})
    assert (refused.status, refused.json["required_right"]) == (403, "payouts")
    path = f"/api/v1/webhook-endpoints/{connection['webhook_endpoint']}"
    endpoint = (await shop.get(path)).json
    assert (endpoint["url"], endpoint["description"]) == (FORM["url"], "Web shop")
    assert (await shop.call("DELETE", path)).status == 200
    assert connection["webhook_secret"].startswith("whsec_")


async def test_the_secrets_are_shown_only_once(dashboard: MerchantDashboard) -> None:
    connection = await connect(dashboard)
    for path in ("/sandbox/credentials", f"/sandbox/webhooks/{connection['webhook_endpoint']}"):
        page = (await dashboard.owner.get(path)).body.decode()
        assert "Web shop" in page
        assert connection["api_secret"] not in page
        assert connection["webhook_secret"] not in page


@pytest.mark.parametrize(
    ("changed", "problem"),
    [({"url": "shop.example"}, "Expected a URL"), ({"name": ""}, "Name")],
)
async def test_a_rejected_form_creates_nothing(
    dashboard: MerchantDashboard, services: Services, changed: dict[str, str], problem: str
) -> None:
    reply = await dashboard.owner.post(SHOPS, FORM | changed)
    assert reply.status == 400
    assert problem in reply.body.decode()
    await assert_nothing_was_created(dashboard, services)


async def test_a_developer_can_connect_only_a_sandbox_shop(
    dashboard: MerchantDashboard, services: Services, site: Site
) -> None:
    developer = await member(services, site, dashboard.merchant.new.id, Role.DEVELOPER)
    await developer.step_up(services)
    for path in (SHOPS, SHOPS.replace("sandbox", "production")):
        allowed = path == SHOPS
        assert (await developer.get(path + "/new")).status == (200 if allowed else 403)
        assert (await developer.post(path, FORM)).status == (200 if allowed else 403)


async def test_a_shop_with_a_used_name_is_rejected_as_a_whole(
    dashboard: MerchantDashboard, services: Services
) -> None:
    await connect(dashboard)
    reply = await dashboard.owner.post(SHOPS, FORM)
    assert "An active key has this name." in reply.body.decode()
    merchant = dashboard.merchant
    assert len(await store.of_merchant(services.db, merchant.new.id)) == 1


async def assert_nothing_was_created(dashboard: MerchantDashboard, services: Services) -> None:
    merchant = dashboard.merchant
    assert await store.of_merchant(services.db, merchant.new.id) == []
    assert not await api_keys.list_keys(services.db, merchant.new.id, merchant.environment)
