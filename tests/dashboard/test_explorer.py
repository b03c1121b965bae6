"""The API explorer makes real sandbox calls, but only for the signed-in user's merchant."""

import hmac
import json
import re
from html import unescape

import pytest
from playwright.async_api import Browser, expect

from manilla.kit.environment import Environment
from manilla.reference.explorer import ExplorerApi
from manilla.services import Services
from tests.checkout.page_checks import accessibility_violations, opened
from tests.dashboard.conftest import PopulatedMerchant
from tests.dashboard.merchant_dashboard import new_dashboard
from tests.support.client import Site

PATH = "/sandbox/explorer"


@pytest.mark.long
async def test_a_payment_is_created_and_verified_without_code(
    browser: Browser, services: Services, populated: PopulatedMerchant
) -> None:
    base_url = services.base_url
    async with opened(browser, base_url + "/docs/api/initiate-payment", width=1280) as page:
        await populated.owner.enter(page.context)
        await page.get_by_role("link", name="Try it in the explorer").click()
        body = await page.get_by_label("Body").input_value()
        await page.get_by_label("Body").fill(body.replace("Two books", "Ìwé méjì"))
        await page.get_by_label("X-Sandbox-Scenario").select_option("pending")
        await page.get_by_role("button", name="Send").click()
        await expect(page.get_by_role("heading", name="Response: 200")).to_be_visible()
        assert await accessibility_violations(page) == []
        request = await page.get_by_label("Request", exact=True).inner_text()
        signed = await page.get_by_label("Signed string").inner_text()
        assert "X-API-Key: (your API key" in request
        assert populated.merchant.credentials.api_secret not in await page.content()
        assert _signature(populated, signed) in request
        await page.get_by_role("link", name="Verify status").click()
        await page.get_by_role("button", name="Send").click()
        answer = await page.get_by_label("Response", exact=True).inner_text()
        assert '"status": "pending"' in answer
        await services.requests.flush()
        await page.get_by_role("link", name="API requests").first.click()
        await page.wait_for_url("**/requests")
        await expect(page.get_by_text("POST /initiate-payment").first).to_be_visible()


async def test_a_call_is_signed_with_the_merchants_secret_which_is_not_shown(
    services: Services, populated: PopulatedMerchant
) -> None:
    form = (await populated.owner.get(f"{PATH}?operation=initiatePayment")).body.decode()
    found = re.search(r'<textarea[^>]* name="body"[^>]*>(.*?)</textarea>', form, re.DOTALL)
    assert found
    sent = {"operation": "initiatePayment", "body": unescape(found.group(1)), "scenario": "pending"}
    page = unescape((await populated.owner.post(PATH, sent)).body.decode())
    assert "Response: 200" in page
    assert "X-API-Key: (your API key" in page
    assert populated.merchant.credentials.api_secret not in page
    signed = re.search(r'aria-label="Signed string">(.*?)</pre>', page, re.DOTALL)
    assert signed
    assert _signature(populated, signed.group(1)) in page
    await services.requests.flush()
    assert b"POST /initiate-payment" in (await populated.owner.get("/sandbox/requests")).body


def _signature(populated: PopulatedMerchant, signed: str) -> str:
    secret = populated.merchant.credentials.api_secret.encode()
    return hmac.digest(secret, signed.encode(), "sha256").hex()


async def test_every_endpoint_can_be_called(populated: PopulatedMerchant) -> None:
    csrf = await populated.owner.csrf()
    for operation, fields, expected in (
        ("siteInfo", {}, b'"site_name"'),
        ("payoutMethods", {"currency": "NGN"}, b'"methods"'),
        ("payoutBankList", {}, b"GET /api/v1/payout/bank-list HTTP/1.1"),
        ("verifyPayment", {"trxId": populated.samples["trx_id"]}, b'"success"'),
        ("verifyPayout", {"trxId": "../site-info?"}, b'"NOT_FOUND"'),
        ("initiatePayout", {"body": "{"}, b'"VALIDATION_FAILED"'),
    ):
        sent = {"operation": operation, **fields}
        reply = await populated.owner.post(PATH, sent, csrf=csrf)
        assert reply.status == 200, operation
        shown = reply.body.replace(b"&#34;", b'"')
        assert expected in shown, operation


async def test_the_form_of_every_endpoint_opens_and_its_body_has_only_known_fields(
    services: Services, site: Site
) -> None:
    dashboard = await new_dashboard(services, site)
    for operation in ExplorerApi(services).operations:
        reply = await dashboard.owner.get(f"{PATH}?operation={operation.id}")
        page = reply.body.decode()
        assert reply.status == 200, operation.id
        assert re.findall(r'class="explorer-group" open>\s*<summary>(.*?)<', page) == [
            operation.tag
        ]
        body = re.search(r'<textarea[^>]* name="body"[^>]*>(.*?)</textarea>', page, re.DOTALL)
        assert (body is None) == (operation.body is None), operation.id
        if body is not None and operation.body is not None:
            known = {field.name for field in operation.body.fields}
            example = json.loads(unescape(body[1])).keys()
            assert example <= known, operation.id
            assert ("Replace the example" in page) == ("ipn_url" in example), operation.id


async def test_the_response_links_to_the_created_refund(populated: PopulatedMerchant) -> None:
    body = {"trx_id": populated.samples["trx_id"], "ref_trx": "EXPLORER-1", "amount": 1}
    sent = {"operation": "initiateRefund", "body": json.dumps(body)}
    page = (await populated.owner.post(PATH, sent)).body.decode()
    [link] = re.findall(r'href="/dashboard(/sandbox/refunds/TXN\w+)"', page)
    assert (await populated.owner.get(link)).status == 200
    assert "operation=verifyRefund&amp;trxId=" in page


async def test_another_merchants_payment_is_not_found_and_its_rate_limit_is_not_used(
    populated: PopulatedMerchant, other_merchant: PopulatedMerchant, services: Services
) -> None:
    before = await _last_used(services, populated)
    sent = {"operation": "verifyPayment", "trxId": other_merchant.samples["trx_id"]}
    reply = await populated.owner.post(PATH, sent)
    assert b"TRANSACTION_NOT_FOUND" in reply.body
    await services.requests.flush()
    assert await _last_used(services, populated) == before, "no API key was used"


async def _last_used(services: Services, populated: PopulatedMerchant) -> object:
    return await services.db.value(
        "SELECT max(last_used_at) FROM credential WHERE merchant_id = $1 AND environment = $2",
        populated.merchant.new.id,
        Environment.SANDBOX,
    )


async def test_only_listed_operations_in_the_sandbox_can_be_called(
    populated: PopulatedMerchant,
) -> None:
    csrf = await populated.owner.csrf()
    closed = await populated.owner.get("/production/explorer")
    assert b"Sandbox only" in closed.body
    for path, operation in (
        ("/production/explorer", "siteInfo"),
        (PATH, "initiatePaymentLegacy"),
        (PATH, "https://elsewhere.example"),
    ):
        reply = await populated.owner.post(path, {"operation": operation}, csrf=csrf)
        assert reply.status == 404, (path, operation)
    missing = await populated.owner.post(PATH, {"operation": "verifyPayment"}, csrf=csrf)
    assert (missing.status, b"This field is required." in missing.body) == (400, True)
    sneaky = {"operation": "initiatePayment", "idempotency_key": "a\r\nX-API-Key: b", "body": "{}"}
    refused = await populated.owner.post(PATH, sneaky, csrf=csrf)
    assert (refused.status, b"Use ASCII" in refused.body) == (400, True)


async def test_the_example_uses_the_merchants_notification_url(
    populated: PopulatedMerchant, services: Services
) -> None:
    taken_at = "https://taken.example/ipn"
    await services.db.execute(
        "UPDATE notification SET state = 'delivered', url = $2 WHERE merchant_id = $1",
        *(populated.merchant.new.id, taken_at),
    )
    for operation in ("initiatePayment", "initiatePayout"):
        reply = await populated.owner.get(f"{PATH}?operation={operation}")
        assert taken_at.encode() in reply.body
        assert b"the URL that last accepted a notification" in reply.body


async def test_a_call_from_the_explorer_completes_a_getting_started_step(
    services: Services, site: Site
) -> None:
    dashboard = await new_dashboard(services, site)
    to_do = b">Send a signed request in the sandbox</a>"
    assert to_do in (await dashboard.owner.get("/sandbox")).body
    await dashboard.owner.post(PATH, {"operation": "siteInfo"})
    await services.requests.flush()
    home = (await dashboard.owner.get("/sandbox")).body
    assert to_do not in home
    assert b"Send a signed request in the sandbox" in home
