"""A merchant sends a test notification, and sees the request and the receiver's response."""

import msgspec
import pytest
from manilla_client import verify_ipn
from playwright.async_api import Browser, expect

from manilla.dashboard import routes as dashboard
from manilla.dashboard.developers.notification_test import EXAMPLES
from manilla.pages import app as pages
from manilla.people import throttle
from manilla.people.roles import Role
from manilla.services import Services
from tests.checkout.page_checks import accessibility_violations, opened
from tests.conftest import serving
from tests.dashboard.conftest import PopulatedMerchant
from tests.dashboard.merchant_dashboard import new_dashboard
from tests.notify.deliveries import Deliveries, delivery_worker
from tests.notify.receiver import answer, receiving
from tests.support.client import Site

PATH = "/sandbox/notifications/test"
FORM = {"event": "payment.completed", "url": "https://shop.example/ipn"}


@pytest.mark.long
async def test_the_receiver_gets_a_signed_example_and_the_merchant_sees_its_response(
    browser: Browser, services: Services, site: Site
) -> None:
    mine = await new_dashboard(services, site)
    async with (
        receiving() as receiver,
        delivery_worker(services) as worker,
        opened(browser, services.base_url + "/docs/notifications", width=1280) as page,
    ):
        receiver.answers = [answer(422, b"unknown order")]
        await mine.owner.enter(page.context)
        link = page.get_by_role("main").get_by_role("link", name="Send a test notification")
        await link.last.click()
        assert await accessibility_violations(page) == []
        await page.get_by_label("Event").select_option("payout.reversed")
        await page.get_by_label("URL").fill(receiver.url)
        await page.get_by_role("button", name="Send").click()
        await expect(page.get_by_role("heading", name="Test payout notification")).to_be_visible()
        await Deliveries(services, mine.merchant, receiver, worker).deliver()
        await page.reload()
        await expect(page.get_by_text("Attempt 1: HTTP 422")).to_be_visible()
        await expect(page.get_by_text("unknown order")).to_be_visible()
        await expect(page.get_by_text("X-Signature: ")).to_be_visible()
        assert await accessibility_violations(page) == []
    [received] = receiver.received
    secret = mine.merchant.credentials.api_secret
    notification = verify_ipn(received.body, received.headers, secret)
    assert (notification.event, notification.status) == ("payout", "failed")


async def test_the_example_is_signed_and_the_receivers_response_is_shown(
    services: Services, site: Site
) -> None:
    mine = await new_dashboard(services, site)
    async with receiving() as receiver, delivery_worker(services) as worker:
        receiver.answers = [answer(422, b"unknown order")]
        sent = {"event": "payout.reversed", "url": receiver.url}
        reply = await mine.owner.post(PATH, sent)
        assert "Test payout notification" in await mine.owner.follow(reply)
        await Deliveries(services, mine.merchant, receiver, worker).deliver()
        page = await mine.owner.follow(reply)
    for text in ("Attempt 1: HTTP 422", "unknown order", "X-Signature: "):
        assert text in page
    [received] = receiver.received
    secret = mine.merchant.credentials.api_secret
    notification = verify_ipn(received.body, received.headers, secret)
    assert (notification.event, notification.status) == ("payout", "failed")


async def test_every_example_is_a_sandbox_notification_that_moves_no_money(
    services: Services, site: Site
) -> None:
    mine = await new_dashboard(services, site)
    balance = await mine.balance()
    csrf = await mine.owner.csrf()
    for event in EXAMPLES:
        reply = await mine.owner.post(PATH, {**FORM, "event": event}, csrf=csrf)
        assert reply.status == 303, reply.body
    bodies = [
        msgspec.json.decode(record["body"])
        for record in await services.db.records(
            "SELECT body FROM notification WHERE merchant_id = $1 AND environment = 'sandbox'",
            mine.merchant.new.id,
        )
    ]
    assert len(bodies) == len(EXAMPLES)
    for body in bodies:
        data = body["data"]
        assert (data["environment"], data["is_sandbox"]) == ("sandbox", True)
        assert data["ipn_url"] == FORM["url"]
        verified = await mine.merchant.get(f"/api/v1/verify-payment/{data['trx_id']}")
        assert verified.status == 404
    assert await mine.balance() == balance


async def test_a_test_notification_is_rejected_for_other_roles_and_environments_and_bad_urls(
    populated: PopulatedMerchant,
) -> None:
    owner = populated.owner
    assert (await populated.people[Role.VIEWER].post(PATH, FORM)).status == 403
    assert (await owner.post("/production/notifications/test", FORM)).status == 404
    assert b"Sandbox only" in (await owner.get("/production/notifications/test")).body
    for url in ("", "ftp://shop.example", "javascript:stolen()", "https://" + "a" * 2000):
        assert (await owner.post(PATH, {**FORM, "url": url})).status == 400, url
    assert (await owner.post(PATH, {**FORM, "event": "payment.stolen"})).status == 400


async def test_in_production_mode_a_private_url_is_rejected(
    populated: PopulatedMerchant, services: Services
) -> None:
    real = msgspec.structs.replace(services, is_development=False)
    async with serving(pages.build(real, [dashboard.build(real)])) as port:
        owner = msgspec.structs.replace(populated.owner, site=Site(port))
        reply = await owner.post(PATH, {**FORM, "url": "http://127.0.0.1/ipn"})
    assert reply.status == 400
    assert b"Expected a public URL" in reply.body


async def test_test_notifications_are_limited(services: Services, site: Site) -> None:
    mine = await new_dashboard(services, site)
    csrf = await mine.owner.csrf()
    for _ in range(throttle.TEST_NOTIFICATIONS_PER_MERCHANT):
        assert (await mine.owner.post(PATH, FORM, csrf=csrf)).status == 303
    reply = await mine.owner.post(PATH, FORM, csrf=csrf)
    assert reply.status == 429
    assert int(reply.headers["retry-after"]) > 0
