"""The pages for additional API keys: who may create and revoke keys, and the emails to owners."""

import msgspec
import pytest
from playwright.async_api import Browser, Page, expect

from manilla.kit.environment import Environment
from manilla.merchants import api_keys
from manilla.merchants.credentials import NewCredentials
from manilla.people.roles import ConsoleRole, Role
from manilla.services import Services
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.dashboard.sample_data import create_key
from tests.mail.outbox_reader import letters_to
from tests.support.client import Merchant, Site
from tests.web.signed_in_user import PASSWORD, administrator, member

CREDENTIALS = "/sandbox/credentials"
KEYS = f"{CREDENTIALS}/keys"
SITE_INFO = "/api/v1/site-info"


@pytest.fixture
async def dashboard(services: Services, site: Site) -> MerchantDashboard:
    return await new_dashboard(services, site)


async def _calling_with(dashboard: MerchantDashboard, page: Page) -> Merchant:
    """Returns a client with the API key that the page shows only once."""
    merchant_key, api_key, secret, _ = await page.locator(".secret code").all_inner_texts()
    new = msgspec.structs.replace(
        dashboard.merchant.new, sandbox=NewCredentials(merchant_key, api_key, secret)
    )
    await dashboard.services.directory._refresh(0)
    return msgspec.structs.replace(dashboard.merchant, new=new)


async def test_production_keys_are_created_after_the_approval(
    services: Services, dashboard: MerchantDashboard
) -> None:
    owner, merchant_id = dashboard.owner, dashboard.merchant.new.id
    await owner.step_up(services)
    page = "/production/credentials"
    change = "UPDATE merchant SET status = $2 WHERE id = $1"
    await services.db.execute(change, merchant_id, "pending")
    for path in (f"{page}/rotate", f"{page}/keys"):
        form = {"overlap_minutes": "0", "name": "Early", "rights": "read"}
        refused = await owner.post(path, form)
        assert "when your business is approved" in await owner.follow(refused), path
    assert "Rotate keys" not in (await owner.get(page)).body.decode()
    await services.db.execute(change, merchant_id, "approved")
    shown = await owner.post(f"{page}/rotate", {"overlap_minutes": "0"})
    assert b"shown only once" in shown.body


@pytest.mark.long
@pytest.mark.parametrize("width", [390, 1280])
async def test_an_owner_creates_a_key_uses_it_and_revokes_it(
    browser: Browser, dashboard: MerchantDashboard, width: int
) -> None:
    async with dashboard.open_page(browser, CREDENTIALS, width=width) as page:
        await page.get_by_role("link", name="Create key").click()
        await page.get_by_label("Name").fill("Web shop")
        await page.get_by_role("checkbox", name="Payments", exact=False).first.check()
        await page.get_by_label("Allowed addresses").fill("10.0.0.0/8\n2001:db8::/32")
        await page.get_by_label("Last day").fill("2999-12-31")
        await page.get_by_role("button", name="Create key").click()
        await page.get_by_label("Your password").fill(PASSWORD)
        await page.get_by_role("button", name="Confirm").click()
        await expect(page.get_by_text("shown only once.")).to_be_visible()
        key = await _calling_with(dashboard, page)
        assert (await key.get(SITE_INFO)).status == 200
        refused = await key.get("/api/v1/verify-payment/x")
        assert (refused.status, refused.code) == (403, "INSUFFICIENT_PERMISSION")
        await page.get_by_role("link", name="Done").click()
        row = page.locator("tr", has_text="Web shop")
        for text in ("Active", "payments", "10.0.0.0/8", "2001:db8::/32", "1 Jan 3000"):
            await expect(row).to_contain_text(text)
        assert key.credentials.api_secret not in await page.content()

        page.on("dialog", lambda dialog: dialog.accept())
        await row.get_by_role("button", name="Revoke").click()
        await expect(page.locator(".notice").first).to_contain_text("Key Web shop revoked.")
        await expect(row).to_contain_text("Revoked")
        await expect(row.get_by_role("button")).to_have_count(0)
        await dashboard.services.directory._refresh(0)
        assert (await key.get(SITE_INFO)).status == 401


async def test_a_rejected_form_keeps_what_was_entered(dashboard: MerchantDashboard) -> None:
    fields = {"name": "Shop", "rights": "refunds", "networks": "10.0.0.1/24"}
    reply = await dashboard.owner.post(KEYS, fields)
    page = reply.body.decode()
    assert reply.status == 400
    assert "10.0.0.1/24 is not a network. Did you mean 10.0.0.0/24?" in page
    assert 'value="refunds" checked' in page
    reply = await dashboard.owner.post(KEYS, {"name": "Shop", "expires_at": "tomorrow"})
    assert "Enter a date" in reply.body.decode()
    reply = await dashboard.owner.post(KEYS, {"name": "Shop"})
    assert "Choose at least one of: payments, payouts, refunds, read" in reply.body.decode()


async def test_owners_learn_of_every_key_that_is_created_or_revoked(
    dashboard: MerchantDashboard, services: Services, site: Site
) -> None:
    developer = await member(services, site, dashboard.merchant.new.id, Role.DEVELOPER)
    await developer.step_up(services)
    fields = {"name": "Payroll", "rights": "payouts"}
    assert (await developer.post(KEYS, fields)).status == 200
    assert (await developer.post(f"{KEYS}/1/revoke", {})).status == 303
    letters = await letters_to(services.db, services.letters, dashboard.owner.email)
    texts = [" ".join(letter.text.split()) for letter in letters]
    created = f"{developer.email} created the sandbox API key “Payroll” of Ada Stores."
    assert sum(f"{created} The key has these rights: payouts." in text for text in texts) == 1
    assert sum(f"{developer.email} revoked the sandbox API key “Payroll”" in t for t in texts) == 1
    notice = f"{developer.email} created the sandbox API key Payroll".encode()
    assert notice in (await dashboard.owner.get("/production")).body
    assert notice not in (await developer.get("/production")).body
    actions = await services.db.records(
        "SELECT action, detail FROM audit WHERE merchant_id = $1 AND action LIKE 'merchant.key%'"
        " ORDER BY id",
        dashboard.merchant.new.id,
    )
    assert [row["action"] for row in actions] == ["merchant.key_create", "merchant.key_revoke"]
    assert '"rights": ["payouts"]' in actions[0]["detail"]


async def test_a_developer_can_neither_create_nor_revoke_production_keys(
    dashboard: MerchantDashboard, services: Services, site: Site
) -> None:
    live = msgspec.structs.replace(dashboard.merchant, environment=Environment.PRODUCTION)
    await create_key(services, live, "Shop")
    developer = await member(services, site, live.new.id, Role.DEVELOPER)
    await developer.step_up(services)
    there = "/production/credentials"
    page = (await developer.get(there)).body.decode()
    assert "Shop" in page
    assert "Revoke" not in page
    for path, fields in (
        (f"{there}/keys", {"name": "Mine", "rights": "payouts"}),
        (f"{there}/keys/1/revoke", {}),
    ):
        assert (await developer.post(path, fields)).status == 403
    assert (await developer.get(f"{there}/keys/new")).status == 403
    [row] = await api_keys.list_keys(services.db, live.new.id, Environment.PRODUCTION)
    assert row.status == "active"


async def test_an_administrator_sees_and_revokes_a_merchants_keys(
    dashboard: MerchantDashboard, services: Services, site: Site
) -> None:
    number = await create_key(services, dashboard.merchant, "Shop")
    admin = await administrator(services, site, "keys@console.example", ConsoleRole.ADMINISTRATOR)
    await admin.step_up(services)
    path = f"/merchants/{dashboard.merchant.new.id}"
    assert "203.0.113.0/24" in (await admin.get(path)).body.decode()
    reply = await admin.post(f"{path}/keys/sandbox/{number}/revoke", {})
    assert "Key Shop revoked." in await admin.follow(reply)
    listed = (await dashboard.owner.get(CREDENTIALS)).body.decode()
    assert "The platform&#39;s operator" in listed
    assert "keys@console.example" not in listed


async def test_an_unknown_key_is_reported(dashboard: MerchantDashboard) -> None:
    reply = await dashboard.owner.post(f"{KEYS}/7/revoke", {})
    assert "There is no such active API key." in await dashboard.owner.follow(reply)
    assert (await dashboard.owner.post(f"{KEYS}/{2**63}/revoke", {})).status == 404
    reply = await dashboard.owner.post(f"{KEYS}/{2**62}/revoke", {})
    assert "There is no such active API key." in await dashboard.owner.follow(reply)
