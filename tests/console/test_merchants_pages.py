"""Merchants in the console: search, approval, changes and wallet adjustments."""

import asyncio
import csv
import io
import re
from decimal import Decimal

import pytest
from playwright.async_api import Browser, expect

from manilla.approvals import approvals
from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.kit.environment import Environment
from manilla.merchants import merchants, queries
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.people.roles import ConsoleRole, Role
from manilla.services import Services
from tests.console.conftest import PopulatedConsole
from tests.dashboard.merchant_dashboard import unchunked
from tests.support.client import Merchant, Reply, Site, new_merchant
from tests.support.rows import first_short
from tests.web import markup
from tests.web.signed_in_user import PASSWORD, SignedInUser, member

PRODUCTION = Environment.PRODUCTION


def at(merchant: Merchant, path: str = "") -> str:
    return f"/merchants/{merchant.new.id}{path}"


async def balance(services: Services, merchant: Merchant) -> int:
    wallet = await queries.wallet(services.db, merchant.new.id, PRODUCTION, "NGN")
    assert wallet is not None
    return wallet.balance_minor


async def ticket(visitor: SignedInUser, merchant: Merchant) -> str:
    page = await visitor.get(at(merchant, "/wallets/production/NGN"))
    found = re.search(rb'name="ticket" value="([^"]+)"', page.body)
    assert found
    return found.group(1).decode()


async def adjust(
    visitor: SignedInUser, merchant: Merchant, amount: str, given: str | None = None, **more: str
) -> Reply:
    form = {
        "amount": amount,
        "reason": "found in the till",
        "ticket": given or await ticket(visitor, merchant),
        **more,
    }
    return await visitor.post(at(merchant, "/wallets/production/NGN/adjust"), form)


async def test_a_pending_merchant_is_found_approved_and_can_use_production(
    browser: Browser, services: Services, site: Site, populated: PopulatedConsole
) -> None:
    merchant = await new_merchant(
        site, services.db, services.keyring, MerchantStatus.PENDING, Environment.PRODUCTION
    )
    context = await browser.new_context()
    await populated.administrator.enter(context)
    page = await context.new_page()
    base = f"{services.base_url}/console"
    await page.goto(f"{base}/")
    await page.get_by_role("link", name="Pending merchants").click()
    await page.locator(f'a[href="/console{at(merchant)}"]').click()
    await expect(page.get_by_text("Pending").first).to_be_visible()
    await services.db.execute(
        "UPDATE session SET stepped_up_at = NULL WHERE person_id = $1",
        populated.administrator.person_id,
    )
    await page.get_by_role("button", name="Approve", exact=True).click()
    await expect(page.get_by_label("Your password")).to_be_visible()
    assert (await merchants.get(services.db, merchant.new.id)).status == MerchantStatus.PENDING
    await page.get_by_label("Your password").fill(PASSWORD)
    await page.get_by_role("button", name="Confirm").click()
    await page.get_by_text("can now use production").wait_for()
    await page.get_by_role("button", name=re.compile("Mark verified.*KYC")).click()
    await page.get_by_text("KYC: verified.").wait_for()
    await context.close()
    row = await merchants.get(services.db, merchant.new.id)
    assert (row.status, row.kyc_verified) == (MerchantStatus.APPROVED, True)
    lines = await audit.list_entries(services.db, AuditFilter(merchant_id=merchant.new.id))
    assert lines[1].detail["changed"]["status"] == {"before": "pending", "after": "approved"}
    assert lines[1].actor_name == populated.administrator.email


@pytest.mark.long
async def test_a_wallet_is_adjusted_after_a_step_up(
    browser: Browser, services: Services, site: Site, populated: PopulatedConsole
) -> None:
    merchant = await new_merchant(site, services.db, services.keyring)
    await services.db.execute(
        "UPDATE session SET stepped_up_at = NULL WHERE person_id = $1",
        populated.administrator.person_id,
    )
    context = await browser.new_context()
    await populated.administrator.enter(context)
    page = await context.new_page()
    base = f"{services.base_url}/console"
    await page.goto(f"{base}{at(merchant)}")
    await page.get_by_role("link", name="NGN, production").click()
    await page.get_by_text("Adjust balance").click()
    await page.get_by_label("Amount, NGN").fill("1500.50")
    await page.get_by_label("Reason").fill("Cash that was counted twice")
    await page.get_by_role("button", name="Adjust").click()
    await page.get_by_label("Your password").fill("three quiet kobo coins")
    await page.get_by_role("button", name="Confirm").click()
    await page.get_by_text("Wallet adjusted").wait_for()
    assert await page.locator("p.figure").inner_text() == "₦1,500.50"
    assert await page.get_by_text("Cash that was counted twice").is_visible()
    await context.close()


async def test_merchants_are_found_by_name_email_id_and_key(
    services: Services, populated: PopulatedConsole
) -> None:
    new = await merchants.create(
        services.db, services.keyring, name="Zuma Rock Traders", email="rock@zuma.example"
    )
    for query in ("zuma rock", "ROCK@zuma", str(new.id), new.sandbox.merchant_key):
        reply = await populated.administrator.get(
            f"/merchants?format=csv&q={query.replace(' ', '+')}"
        )
        rows = list(csv.DictReader(io.StringIO(unchunked(reply).decode())))
        assert "Zuma Rock Traders" in [row["name"] for row in rows], query
    both = await populated.administrator.get("/merchants?format=csv&q=zuma+rock&status=approved")
    assert unchunked(both).decode().count("\n") == 1  # The export contains only the header row.
    first = (await populated.administrator.get("/merchants")).body
    assert b"for approval:" in first
    assert first.index(b"for approval:") < first.index(b"<table")
    for nobody in ("/merchants/999999999", "/merchants/99999999999999999999999", "/merchants/0"):
        assert (await populated.administrator.get(nobody)).status == 404


async def test_a_rejected_merchant_sees_the_reason(
    services: Services, site: Site, populated: PopulatedConsole
) -> None:
    merchant = await new_merchant(site, services.db, services.keyring, MerchantStatus.PENDING)
    owner = await member(services, site, merchant.new.id, Role.OWNER)
    officer = populated.people[ConsoleRole.OPERATIONS]
    await officer.step_up(services)
    form = {"status": "rejected", "was": "pending"}
    silent = await officer.post(at(merchant, "/status"), {**form, "reason": "  "})
    assert "Enter a reason." in await officer.follow(silent)
    reply = await officer.post(at(merchant, "/status"), {**form, "reason": "No licence <b>yet</b>"})
    assert "The merchant sees the reason in the dashboard." in await officer.follow(reply)
    for path in ("/profile", "/sandbox"):
        assert b"No licence &lt;b&gt;yet&lt;/b&gt;" in (await owner.get(path)).body
    late = await officer.post(at(merchant, "/status"), {"status": "approved", "was": "pending"})
    assert "The merchant is now rejected" in await officer.follow(late)
    wild = await officer.post(at(merchant, "/status"), {"status": "pending", "was": "rejected"})
    assert "Choose one of the options." in await officer.follow(wild)
    approved = await officer.post(
        at(merchant, "/status"), {"status": "approved", "was": "rejected"}
    )
    assert "can now use production" in await officer.follow(approved)
    assert b"No licence" not in (await owner.get("/profile")).body


async def test_two_concurrent_decisions_apply_once(
    services: Services, site: Site, populated: PopulatedConsole, second: SignedInUser
) -> None:
    merchant = await new_merchant(site, services.db, services.keyring, MerchantStatus.PENDING)
    for visitor in (populated.administrator, second):
        await visitor.step_up(services)
    pages = await asyncio.gather(
        *(
            visitor.post(
                at(merchant, "/status"), {"status": status, "was": "pending", "reason": "because"}
            )
            for visitor, status in ((populated.administrator, "approved"), (second, "rejected"))
        )
    )
    texts = [await populated.administrator.follow(reply) for reply in pages]
    assert sum("Review the merchant again." in text for text in texts) == 1


async def test_checks_currencies_and_wallets_can_be_enabled_and_disabled(
    services: Services, site: Site, populated: PopulatedConsole
) -> None:
    merchant = await new_merchant(site, services.db, services.keyring)
    officer = populated.people[ConsoleRole.OPERATIONS]
    await officer.step_up(services)
    for path, form in (
        ("/checks", {"what": "phone", "is_on": "yes"}),
        ("/checks", {"what": "payouts", "is_on": "no"}),
        ("/currencies", {"currency": "ghs", "is_on": "yes"}),
        ("/currencies", {"currency": "NGN", "is_on": "no"}),
        ("/wallets/production/GHS/status", {"status": "inactive"}),
    ):
        assert (await officer.post(at(merchant, path), form)).status == 303, path
    row = await merchants.get(services.db, merchant.new.id)
    assert (row.phone_verified, row.payouts_enabled, row.kyc_verified) == (True, False, False)
    assert row.currencies == ["GHS"]
    wallet = await queries.wallet(services.db, merchant.new.id, PRODUCTION, "GHS")
    assert wallet is not None
    assert wallet.status == "inactive"
    last = await officer.post(at(merchant, "/currencies"), {"currency": "GHS", "is_on": "no"})
    assert "at least one currency" in await officer.follow(last)
    assert (await officer.post(at(merchant, "/checks"), {"what": "all"})).status == 400
    nowhere = await officer.post(at(merchant, "/wallets/sandbox/USD/status"), {"status": "active"})
    assert nowhere.status == 404


async def test_the_keys_of_a_new_merchant_are_shown_once(
    services: Services, populated: PopulatedConsole
) -> None:
    await populated.administrator.step_up(services)
    form = {"name": "Idumota", "email": "i@m.example", "currency": "NGN", "status": "pending"}
    reply = await populated.administrator.post("/merchants/new", form)
    secrets = re.findall(r"data-copy=\"([a-z0-9_]{32,})\"", reply.body.decode())
    assert len(secrets) == 6
    found = re.search(r'href="/console(/merchants/\d+)"', reply.body.decode())
    assert found
    page = (await populated.administrator.get(found.group(1))).body.decode()
    assert [secret in page for secret in secrets] == [True, False, False, True, False, False]
    wrong = await populated.administrator.post("/merchants/new", {**form, "email": "nobody"})
    assert wrong.status == 400
    assert b"Idumota" in wrong.body
    assert (
        await populated.administrator.post("/merchants/new", {**form, "status": "disabled"})
    ).status == 400


async def test_the_page_of_a_merchant_shows_its_webhook_endpoints_without_secrets(
    services: Services, site: Site, populated: PopulatedConsole
) -> None:
    merchant = await new_merchant(site, services.db, services.keyring)
    body = {"url": "https://shop.example/hook<i>", "events": ["payment.*", "refund.completed"]}
    created = await merchant.post("/api/v1/webhook-endpoints", body)
    assert created.status == 200, created.body
    page = (await populated.administrator.get(at(merchant, ""))).body.decode()
    assert "https://shop.example/hook&lt;i&gt;" in page
    assert "payment.*, refund.completed" in page
    assert created.json["secret"] not in page


async def test_a_form_sent_twice_adjusts_once(
    services: Services, site: Site, populated: PopulatedConsole
) -> None:
    merchant = await new_merchant(site, services.db, services.keyring)
    visitor = populated.administrator
    await visitor.step_up(services)
    once = await ticket(visitor, merchant)
    replies = await asyncio.gather(*(adjust(visitor, merchant, "10", once) for _ in range(3)))
    texts = [await visitor.follow(reply) for reply in replies]
    assert sum("has already been made" in text for text in texts) == 2
    assert await balance(services, merchant) == 1000
    for amount, more, said in (
        ("11", {"direction": "take"}, "lower than this amount"),
        ("-5", {}, "is not an amount"),
        ("0.001", {}, "at most 2 decimals"),
        ("9" * 25, {}, "too large"),
        ("5", {"reason": ""}, "This field is required."),
        ("5", {"ticket": "AAAA"}, "Fill in the form again"),
    ):
        reply = await adjust(visitor, merchant, amount, **more)
        assert said in await visitor.follow(reply), amount
    taken = await adjust(visitor, merchant, "4.50", direction="take")
    assert "Wallet adjusted" in await visitor.follow(taken)
    assert await balance(services, merchant) == 550


async def test_in_production_large_adjustments_and_all_by_operations_wait_for_approval(
    services: Services, site: Site, in_production: dict[str, SignedInUser]
) -> None:
    merchant = await new_merchant(site, services.db, services.keyring)
    administrator, officer = in_production["administrator"], in_production["operations"]
    small = await adjust(administrator, merchant, "100")
    assert "Wallet adjusted" in await administrator.follow(small)
    large = await administrator.follow(await adjust(administrator, merchant, "10000000.01"))
    assert "Nothing has changed yet" in large
    asked = await officer.follow(await adjust(officer, merchant, "1"))
    assert "Nothing has changed yet" in asked
    assert await balance(services, merchant) == 10_000
    mine = [a for a in await approvals.waiting(services.db) if a.merchant_id == merchant.new.id]
    page = (await administrator.get(at(merchant))).body.decode()
    assert all(f"approval {each.id}" in page for each in mine)
    for each in mine:
        done = await in_production["second"].post(f"/approvals/{each.id}/approve", {})
        assert "change applied" in await in_production["second"].follow(done)
    assert await balance(services, merchant) == 10_000 + 1_000_000_001 + 100


async def test_in_production_a_commission_waits_for_a_second_administrator(
    services: Services, site: Site, in_production: dict[str, SignedInUser]
) -> None:
    merchant = await new_merchant(site, services.db, services.keyring, MerchantStatus.PENDING)
    visitor = in_production["administrator"]
    form = {"commission_percent": "1.5"}
    free = await visitor.post(at(merchant, "/commission"), form)
    assert "Commission set to 1.5 %" in await visitor.follow(free)
    approved = MerchantUpdate(status=MerchantStatus.APPROVED)
    await merchants.change(services.db, services.keyring, merchant.new.id, approved)
    text = await visitor.follow(
        await visitor.post(
            at(merchant, "/commission"), {"commission_percent": "2.5", "reason": "A new contract"}
        )
    )
    assert "Nothing has changed yet" in text
    assert "The administrator who approves the change sees the reason." in text
    assert "A new contract" in (await visitor.get("/approvals")).body.decode()
    assert (await merchants.get(services.db, merchant.new.id)).commission_percent == Decimal("1.5")
    bad = await visitor.post(at(merchant, "/commission"), {"commission_percent": "101"})
    assert "between 0 and 100" in await visitor.follow(bad)


@pytest.mark.parametrize("status", first_short(MerchantStatus))
async def test_a_merchants_page_has_unique_ids_and_shows_an_error_at_the_form_that_was_sent(
    services: Services, in_production: dict[str, SignedInUser], status: MerchantStatus
) -> None:
    new = await merchants.create(
        services.db, services.keyring, name="Two forms", email="two@example.com", status=status
    )
    visitor = in_production[str(ConsoleRole.ADMINISTRATOR)]
    page = await visitor.get(f"/merchants/{new.id}")
    assert not markup.problems(page.body.decode())
    if status is MerchantStatus.PENDING:
        sent = {"status": "rejected", "was": "pending", "reason": ""}
        refused = await visitor.follow(await visitor.post(f"/merchants/{new.id}/status", sent))
        assert not markup.problems(refused)
        assert refused.count('class="field-error"') == 1
        [place] = re.findall('<a href="#f-(reason[-0-9]*)">', refused)
        assert place != "reason", "the first field belongs to the approval form"
        assert f'id="h-{place}"' in refused
