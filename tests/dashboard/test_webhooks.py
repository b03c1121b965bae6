"""The pages that create, change, test and delete webhook endpoints, and resend events."""

import base64
import hmac
import re

import pytest
from playwright.async_api import Browser, expect

from manilla.ledger.scope import Tenant
from manilla.notify.endpoints import store
from manilla.notify.endpoints.endpoint import WebhookEndpoint
from tests.checkout.page_checks import accessibility_violations
from tests.notify.conftest import deliveries, receiver, shop  # noqa: F401 - fixtures
from tests.notify.endpoint_merchant import EndpointMerchant
from tests.notify.receiver import answer
from tests.web.signed_in_user import SignedInUser, member

PAGE = "/sandbox/webhooks"
URL = "https://shop.example/webhooks"


@pytest.fixture
async def visitor(shop: EndpointMerchant) -> SignedInUser:  # noqa: F811
    user = await member(shop.services, shop.merchant.site, shop.merchant.new.id)
    await user.step_up(shop.services)
    return user


async def _endpoints(shop: EndpointMerchant) -> list[WebhookEndpoint]:  # noqa: F811
    tenant = Tenant(shop.merchant.new.id, shop.merchant.environment)
    return (await store.page(shop.services.db, tenant, None, 20)).rows


async def test_an_endpoint_is_added_and_its_secret_shown_once(
    shop: EndpointMerchant,  # noqa: F811
    visitor: SignedInUser,
) -> None:
    reply = await visitor.post(PAGE, {"url": URL, "events": "payment.*", "description": "Shop"})
    [secret] = re.findall(rb"whsec_[A-Za-z0-9+/=]+", reply.body)[:1]
    [endpoint] = await _endpoints(shop)
    assert (endpoint.url, endpoint.events) == (URL, ["payment.*"])
    for path in (PAGE, f"{PAGE}/{endpoint.id}"):
        shown = await visitor.get(path)
        assert (shown.status, secret in shown.body) == (200, False)
    rotated = await visitor.post(f"{PAGE}/{endpoint.id}/rotate", {"overlap_minutes": "60"})
    assert b"whsec_" in rotated.body
    assert secret not in rotated.body


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({"url": "shop.example", "events": "*"}, b"Expected a URL"),
        ({"url": URL, "events": "payment.done"}, b"There is no event type"),
        ({"url": URL}, b"Choose at least one event type"),
    ],
)
async def test_a_bad_form_is_shown_again_with_its_errors(
    shop: EndpointMerchant,  # noqa: F811
    visitor: SignedInUser,
    form: dict[str, str],
    error: bytes,
) -> None:
    reply = await visitor.post(PAGE, form)
    assert (reply.status, error in reply.body) == (400, True)
    assert await _endpoints(shop) == []


async def test_an_endpoint_is_disabled_enabled_changed_and_deleted(
    shop: EndpointMerchant,  # noqa: F811
    visitor: SignedInUser,
) -> None:
    path = f"{PAGE}/{(await shop.create())['id']}"
    await visitor.post(f"{path}/status", {"status": "disabled"})
    assert b"A disabled endpoint receives no events" in (await visitor.get(path)).body
    await visitor.post(f"{path}/status", {"status": "enabled"})
    await visitor.post(path, {"url": URL + "/2", "events": "payout.*"})
    [endpoint] = await _endpoints(shop)
    assert (endpoint.status, endpoint.url, endpoint.events) == ("enabled", URL + "/2", ["payout.*"])
    await visitor.post(f"{path}/delete", {})
    assert await _endpoints(shop) == []
    assert (await visitor.get(path)).status == 404


async def test_a_delivery_shows_request_and_response_and_is_resent(
    shop: EndpointMerchant,  # noqa: F811
    visitor: SignedInUser,
) -> None:
    path = f"{PAGE}/{(await shop.create())['id']}"
    tested = await visitor.post(f"{path}/test", {})
    await shop.deliver()
    delivery = tested.location.removeprefix("/dashboard")
    shown = await visitor.get(delivery)
    assert (shown.status, b"webhook-signature" in shown.body) == (200, True)
    assert b"endpoint.test" in (await visitor.get(path)).body
    await visitor.post(f"{delivery}/resend", {})
    await shop.deliver()
    first, second = shop.receiver.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]


async def test_a_rejected_signature_is_compared_step_by_step(
    shop: EndpointMerchant,  # noqa: F811
    visitor: SignedInUser,
    browser: Browser,
) -> None:
    endpoint = await shop.create()
    shop.receiver.answers = [answer(401)] * 2
    tested = await visitor.post(f"{PAGE}/{endpoint['id']}/test", {})
    await shop.deliver()
    trx_id = await shop.deliveries.finish_payment()
    await shop.deliveries.deliver()
    notifications = await shop.deliveries.notifications(trx_id)
    [notification] = [each for each in notifications if each.url]
    context = await browser.new_context()
    await visitor.enter(context)
    page = await context.new_page()
    secret, own = page.locator("#s-secret"), page.locator("#s-own")
    verdict = page.locator("[data-verdict]")

    await page.goto(f"{shop.services.base_url}{tested.location}")
    await secret.fill("whsec_aGVsbG8=")
    await expect(verdict).to_contain_text("This is not the secret that signed this notification.")
    await secret.fill(endpoint["secret"])
    await expect(verdict).to_contain_text("signed with this secret")
    sent = shop.receiver.received[0]
    await own.fill(sent.headers["webhook-signature"])
    await expect(verdict).to_contain_text("Your code's signature is correct.")
    key = base64.b64decode(endpoint["secret"].removeprefix("whsec_"))
    await own.fill(hmac.digest(key, sent.body, "sha256").hex())
    await expect(verdict).to_contain_text("Your code signs with only the body.")
    assert not await accessibility_violations(page)

    path = f"/dashboard/sandbox/notifications/{notification.id}"
    await page.goto(f"{shop.services.base_url}{path}")
    await secret.fill(shop.merchant.new.sandbox.api_secret)
    await expect(verdict).to_contain_text("signed with this secret")
    await context.close()
