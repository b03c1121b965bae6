"""The console's platform pages: providers, methods, settings, transactions and the ledger."""

import csv
import io
import re
from collections.abc import AsyncIterator
from decimal import Decimal
from urllib.parse import urlencode

import pytest
from playwright.async_api import Browser

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.kit.database.connections import Database
from manilla.ledger import provider_funds
from manilla.methods import catalogue
from manilla.methods.catalogue import MethodUpdate
from manilla.methods.method import Method, MethodKind
from manilla.people.roles import ConsoleRole
from manilla.platform import settings
from manilla.providers import accounts, credentials
from manilla.providers.kinds import KINDS
from manilla.providers.port import Direction
from manilla.services import Services
from tests.checkout.page_checks import accessibility_violations, opened
from tests.console.conftest import PopulatedConsole
from tests.dashboard.merchant_dashboard import unchunked
from tests.support.provider_simulator import running_simulator
from tests.web.signed_in_user import SignedInUser

SECRET = "planted-secret-4711"
NOWHERE = "http://127.0.0.1:9/b"
CODE = "providera_ngn_transfer"
DEPOSIT_CODE = "providera-ngn"
METHOD = {
    "name": "Bank transfer",
    "position": "1",
    "active": "on",
    "minimum": "100",
    "maximum": "5000000",
    "fee_fixed": "10",
    "fee_percent": "1.5",
    "fee_minimum": "",
    "fee_maximum": "2000",
}


@pytest.fixture
async def visitor(services: Services, populated: PopulatedConsole) -> SignedInUser:
    """An administrator whose session has just been stepped up."""
    await populated.administrator.step_up(services)
    return populated.administrator


@pytest.fixture
async def tidy(services: Services) -> AsyncIterator[None]:
    """Restores the providers, methods and settings after each test."""
    methods = await catalogue.load(services.db)
    before = [method for method in methods if method.code in (CODE, DEPOSIT_CODE)]
    yield
    for provider in KINDS:
        await credentials.clear(services.db, provider)
        for direction in Direction:
            services.rails.health.rail(provider, direction).reset()
    await services.rails.load()
    await services.db.execute("UPDATE rail_state SET is_down = false")
    current = await settings.load(services.db)
    for setting in settings.describe(current):
        if setting.value != setting.default:
            await settings.change(services.db, setting.key, setting.default)
    for method in before:
        await catalogue.change(services.db, method.kind, method.code, _restored(method))
    await services.platform._refresh(0)


def _restored(method: Method) -> MethodUpdate:
    assert method.fee.minimum_minor is None
    assert method.fee.maximum_minor is None
    return MethodUpdate(
        name=method.name,
        active=method.active,
        position=method.position,
        minimum=f"{method.minimum.amount:f}",
        maximum="none" if method.maximum is None else f"{method.maximum.amount:f}",
        fee_fixed=str(method.fee.fixed_minor // 100),
        fee_percent=method.fee.percent,
        fee_minimum="none",
        fee_maximum="none",
    )


@pytest.mark.usefixtures("tidy")
async def test_credentials_can_be_set_and_are_never_shown(
    services: Services, visitor: SignedInUser, in_production: dict[str, SignedInUser]
) -> None:
    at = "/providers/providerb"
    bare = (await visitor.get(at)).body.decode()
    assert "Missing: API key, secret key, business ID." in bare
    given = {"api_key": SECRET, "secret_key": SECRET, "webhook_secret": "also-" + SECRET}
    saved = await visitor.post(f"{at}/credentials", {**given, "base_url": NOWHERE})
    assert (saved.status, saved.location) == (303, "/console" + at)
    half = (await visitor.get(at)).body.decode()
    assert "Missing: business ID." in half
    assert SECRET not in half
    bad = await visitor.post(f"{at}/credentials", {"api_key": SECRET, "base_url": "gopher://x"})
    assert bad.status == 400
    assert SECRET not in bad.body.decode()

    # An empty secret field keeps the stored secret, and a checkbox deletes it.
    fields = {"api_key": "", "business_id": "b-1", "webhook_secret": ""}
    await visitor.post(f"{at}/credentials", {**fields, "forget_webhook_secret": "on"})
    now = (await credentials.load(services.db, services.keyring))["providerb"]
    assert now.is_valid
    assert (now.value("api_key"), now.given.get("webhook_secret")) == (SECRET, None)
    for line in await audit.list_entries(services.db, AuditFilter(subject="provider:providerb")):
        assert SECRET not in str(line.detail)

    # In production mode another administrator must approve new credentials.
    # Disabling payouts needs no approval.
    real = in_production[str(ConsoleRole.ADMINISTRATOR)]
    asked = await real.post(f"{at}/credentials", {"secret_key": "another"})
    assert "Another administrator must approve" in await real.follow(asked)
    await real.post(f"{at}/switches", {"pay_in_enabled": "on", "sandbox": "on"})
    now = (await credentials.load(services.db, services.keyring))["providerb"]
    assert now.value("secret_key") == SECRET
    assert (now.is_on("pay_in_enabled"), now.is_on("pay_out_enabled")) == (True, False)

    # If payouts were disabled after a form was opened, saving the form does not enable them again.
    seen = {"was_pay_in_enabled": "true", "was_pay_out_enabled": "true", "was_sandbox": "true"}
    await visitor.post(f"{at}/switches", {**seen, "pay_out_enabled": "on", "sandbox": "on"})
    fields = {"business_id": "b-0", "was_business_id": "b-0", "base_url": "", "was_base_url": "x"}
    await visitor.post(f"{at}/credentials", fields)
    now = (await credentials.load(services.db, services.keyring))["providerb"]
    assert (now.is_on("pay_in_enabled"), now.is_on("pay_out_enabled")) == (False, False)
    assert (now.given["business_id"], "base_url" in now.given) == ("b-1", False)
    cleared = await visitor.post(f"{at}/clear", {})
    assert "no longer offered" in await visitor.follow(cleared)


@pytest.mark.usefixtures("tidy")
async def test_a_provider_is_called_only_by_the_buttons(
    services: Services, visitor: SignedInUser
) -> None:
    at = "/providers/providera"
    unset = await visitor.post(f"{at}/test", {})
    assert "not configured" in await visitor.follow(unset)
    async with running_simulator(services):
        before = await _calls(services)
        assert (await visitor.get(at)).status == 200
        assert await _calls(services) == before
        tried = await visitor.follow(await visitor.post(f"{at}/test", {}))
        assert "Connected to Provider A: balance ₦" in tried
        assert await _calls(services) == before + 2
    given = {"secret_key": SECRET, "webhook_secret": SECRET, "base_url": NOWHERE}
    await credentials.change(services.db, services.keyring, "providera", given)
    await services.rails.load()
    compared = (await visitor.post(f"{at}/reconcile", {})).body.decode()
    assert "Reconciliation result" in compared
    assert "No valid response" in compared


async def _calls(services: Services) -> int:
    """Returns how many calls provider A has received in the last minutes."""
    health = services.rails.health
    await health.flush()
    return sum(rail.calls for rail in await health.overview() if rail.provider == "providera")


async def test_a_settlement_form_sent_twice_posts_once(
    services: Services, visitor: SignedInUser
) -> None:
    at = "/providers/providerc/settle"
    once = provider_funds.new_id()
    fields = {"kind": "top_up", "amount": "1,250.50", "currency": "ngn", "note": "Bank 77"}
    first = await visitor.post(at, {**fields, "once": once})
    second = await visitor.post(at, {**fields, "once": once})
    assert (first.status, second.status) == (303, 303)
    assert f"Recorded ₦1,250.50 as {once}." in await visitor.follow(first)
    lines = await audit.list_entries(services.db, AuditFilter(action="settle.top_up"))
    assert [line.detail["trx_id"] for line in lines].count(once) == 1
    postings = (await visitor.get(f"/ledger/postings?q={once}")).body.decode()
    assert '<span>clearing: providerc</span> <span class="num">-₦1,250.50</span>' in postings
    assert '<span>bank</span> <span class="num">+₦1,250.50</span>' in postings
    for wrong in (
        {"amount": "0"},
        {"amount": "-5"},
        {"amount": "NaN"},
        {"currency": "XXX"},
        {"kind": "gift"},
        {"note": " "},
        {"once": "TXN1"},
    ):
        given = {**fields, "once": provider_funds.new_id(), **wrong}
        refused = await visitor.post(at, given)
        assert refused.status in (400, 422), wrong
    await visitor.post(at, {**fields, "kind": "settlement", "once": provider_funds.new_id()})


@pytest.mark.usefixtures("tidy")
async def test_a_method_is_changed_completely_or_not_at_all(
    services: Services, visitor: SignedInUser
) -> None:
    at = f"/methods/{CODE}"
    for name, wrong in (
        ("maximum", "99"),
        ("minimum", "-1"),
        ("minimum", "1.001"),
        ("fee_percent", "101"),
        ("fee_percent", "NaN"),
        ("fee_percent", "1.23456"),
        ("fee_maximum", "-1"),
        ("fee_minimum", "3000"),
        ("position", "10001"),
        ("name", ""),
    ):
        refused = await visitor.post(at, {**METHOD, name: wrong})
        assert refused.status == 400, (name, wrong)
        preview = await visitor.get(f"{at}/fee?{urlencode({**METHOD, name: wrong})}")
        assert b"notice-warning" in preview.body, (name, wrong)
    assert services.methods.by_code(MethodKind.WITHDRAW, CODE).fee.percent == 0  # type: ignore[union-attr]

    shown = (await visitor.get(f"{at}/fee?{urlencode({**METHOD, 'amount': '20000'})}")).body
    assert "₦310.00" in shown.decode()
    assert "outside the method" not in shown.decode()
    assert b"outside the method" in (await visitor.get(f"{at}?amount=1")).body
    assert (await visitor.post(at, METHOD)).status == 303
    methods = {method.code: method for method in await catalogue.load(services.db)}
    assert methods[CODE].fee.percent == Decimal("1.5")
    assert methods[CODE].fee.maximum_minor == 2000_00

    # A form is rejected if another administrator has saved the same form since it was opened.
    [seen] = re.findall(r'name="seen" value="(\w+)"', (await visitor.get(at)).body.decode())
    assert (await visitor.post(at, {**METHOD, "fee_percent": "2", "seen": seen})).status == 303
    late = await visitor.post(at, {**METHOD, "name": "Late", "seen": seen})
    assert late.status == 409
    assert "Somebody else has changed this method" in late.body.decode()
    methods = {method.code: method for method in await catalogue.load(services.db)}
    assert (methods[CODE].fee.percent, methods[CODE].name) == (Decimal(2), METHOD["name"])
    assert (await visitor.get("/methods/nothing")).status == 404

    paying_in = {**METHOD, "name": "Provider A checkout", "minimum": "1", "maximum": ""}
    assert (await visitor.post(f"/methods/{DEPOSIT_CODE}", paying_in)).status == 303
    methods = {method.code: method for method in await catalogue.load(services.db)}
    assert methods[DEPOSIT_CODE].fee.percent == 0
    fee = {f"provider_{name}": text for name, text in METHOD.items() if name.startswith("fee")}
    assert (await visitor.post(f"/methods/{DEPOSIT_CODE}", {**paying_in, **fee})).status == 303
    methods = {method.code: method for method in await catalogue.load(services.db)}
    assert methods[DEPOSIT_CODE].fee.percent == Decimal("1.5")
    assert methods[DEPOSIT_CODE].maximum is None


@pytest.mark.usefixtures("tidy")
async def test_configured_providers_come_first_then_the_others_by_title(
    services: Services, visitor: SignedInUser
) -> None:
    await credentials.change(services.db, services.keyring, "paystack", {"secret_key": "sk_live_1"})
    page = (await visitor.get("/providers")).body.decode()
    titles = ("Paystack", "Not configured", "Flutterwave", "Kora", "Monnify", "Provider A")
    places = [page.index(f">{title}<") for title in titles]
    assert places == sorted(places)
    assert "API key, secret key, business ID</td>" in page


async def test_an_account_is_added_with_its_own_webhook_url_and_inactive_methods(
    services: Services, visitor: SignedInUser, owner: Database
) -> None:
    try:
        for wrong in ("Shop", "providera", ""):
            refused = await visitor.post("/providers", {"kind": "kora", "name": wrong})
            assert refused.status == 400, wrong
        assert (await visitor.post("/providers", {"kind": "x", "name": "shop"})).status == 404
        added = await visitor.post("/providers", {"kind": "kora", "name": "shopfour"})
        assert (added.status, added.location) == (303, "/console/providers/shopfour")
        await services.rails.load()
        page = (await visitor.get("/providers/shopfour")).body.decode()
        assert "Kora (shopfour)" in page
        assert f"{services.base_url}/webhooks/shopfour" in page
        assert "/console/providers/shopfour/guide" in page
        assert "Not used. Manilla sends payouts over TLS" in page
        methods = {method.code: method for method in await catalogue.load(services.db)}
        assert not methods["shopfour-ngn"].active
        [line] = await audit.list_entries(services.db, AuditFilter(subject="provider:shopfour"))
        assert (line.action, line.detail) == ("provider.add", {"kind": "kora"})
    finally:
        await owner.execute("DELETE FROM method WHERE provider = 'shopfour'")
        await owner.execute("DELETE FROM provider_account WHERE name = 'shopfour'")
        await services.rails.load()


async def test_in_production_a_second_administrator_must_approve_a_new_account(
    services: Services, in_production: dict[str, SignedInUser]
) -> None:
    real = in_production[str(ConsoleRole.ADMINISTRATOR)]
    asked = await real.post("/providers", {"kind": "kora", "name": "shopfive"})
    assert "Another administrator must approve" in await real.follow(asked)
    assert "shopfive" not in await accounts.load(services.db)
    page = (await real.get("/approvals")).body.decode()
    assert "shopfive" in page
    assert "/providers/shopfive" not in page


@pytest.mark.usefixtures("tidy")
async def test_settings_show_who_changed_them_and_can_be_reset(
    services: Services, visitor: SignedInUser, in_production: dict[str, SignedInUser]
) -> None:
    page = (await visitor.get("/settings")).body.decode()
    for setting in settings.describe(settings.PlatformSettings()):
        assert f"/settings/{setting.key}" in page
        assert (await visitor.get(f"/settings/{setting.key}")).status == 200
    assert "<strong>30 days</strong>" in page
    for value in ("120 requests per minute", "24 hours", "08:00", "₦10,000,000.00", "No limit"):
        assert f"<strong>{value}</strong>" in page
    assert "<code>manilla archive run</code>" in page
    at = "/settings/rate_limit_per_minute"
    for wrong in ("0", "100000001", "many", "", "1.5", "1500,50", "1,5"):
        refused = await visitor.post(at, {"value": wrong})
        assert refused.status == 400, wrong
        assert "must be a whole number from 1 to 100,000,000." in refused.body.decode()
    assert (await visitor.post("/settings/site_url", {"value": "javascript:x"})).status == 400
    assert (await visitor.post("/settings/nothing", {"value": "1"})).status == 404

    assert (await visitor.post(at, {"value": "1,000"})).status == 303
    assert (await settings.load(services.db)).rate_limit_per_minute == 1000
    changed = (await visitor.get(at)).body.decode()
    assert visitor.email in changed
    assert (await visitor.post(at + "/reset", {})).status == 303
    assert (await settings.load(services.db)).rate_limit_per_minute == 120

    # In production, another administrator must approve the change of this checkbox to "no".
    real = in_production[str(ConsoleRole.ADMINISTRATOR)]
    asked = await real.post("/settings/signature_required", {})
    assert "Another administrator must approve" in await real.follow(asked)
    assert (await settings.load(services.db)).signature_required
    await visitor.post("/settings/signature_required", {})
    assert not (await settings.load(services.db)).signature_required


async def test_any_reference_finds_a_transaction_with_its_full_history(
    visitor: SignedInUser, populated: PopulatedConsole
) -> None:
    payment, merchant_id = populated.samples["trx_id"], populated.merchant.new.id
    payout, refund = populated.samples["payout"], populated.samples["refund"]
    for kind, trx_id in (("payment", payment), ("payout", payout), ("refund", refund)):
        rows = await _rows(visitor, kind=kind, q=trx_id, environment="sandbox")
        assert [row[0] for row in rows] == [trx_id]
        theirs = await _rows(visitor, kind=kind, merchant=str(merchant_id), environment="sandbox")
        assert trx_id in [row[0] for row in theirs]
        assert {row[2] for row in theirs} == {str(merchant_id)}
        assert trx_id not in [row[0] for row in await _rows(visitor, kind=kind, merchant="999999")]
        elsewhere = await _rows(visitor, kind=kind, q=trx_id, environment="production")
        assert elsewhere == []
        assert (
            trx_id.encode()
            in (await visitor.get(f"/transactions?kind={kind}&environment=sandbox")).body
        )
    for bad in ("kind=gift", "merchant=-1", "merchant=x", "environment=x", "after=x"):
        assert (await visitor.get(f"/transactions?{bad}")).status in (400, 404), bad

    story = (await visitor.get(f"/transactions/{payment}")).body.decode()
    assert "clearing:sandbox" in story
    assert f"/console/merchants/{merchant_id}" in story
    assert f"/console/notifications?q={payment}" in story
    assert "Payout of" in (await visitor.get(f"/transactions/{payout}")).body.decode()
    onward = await visitor.get(f"/transactions/{refund}")
    assert onward.location == f"/console/transactions/{payment}"
    assert (await visitor.get("/transactions/TXN0000000000000000")).status == 404


async def _rows(visitor: SignedInUser, **query: str) -> list[list[str]]:
    """Returns the rows of a list's CSV export, without the header row."""
    reply = await visitor.get(f"/transactions?{urlencode({**query, 'format': 'csv'})}")
    assert reply.status == 200, reply.body
    return list(csv.reader(io.StringIO(unchunked(reply).decode())))[1:]


async def test_the_system_page_shows_api_response_statistics(
    services: Services, visitor: SignedInUser, populated: PopulatedConsole
) -> None:
    await populated.merchant.get("/api/v1/site-info")
    await services.requests.flush()
    page = (await visitor.get("/system")).body.decode()
    for part in ("tests", "PostgreSQL", "Median", "Jobs by type", "Pending notifications"):
        assert part in page
    assert "No requests in this period" not in page
    sums = (await visitor.get("/ledger")).body.decode()
    assert "Must be zero" in sums
    assert "Not zero" not in sums


@pytest.mark.long
@pytest.mark.usefixtures("tidy")
async def test_an_administrator_sets_a_fee_the_schedule_and_tests_a_provider(
    services: Services, visitor: SignedInUser, browser: Browser
) -> None:
    base = services.base_url + "/console"
    given = {"secret_key": SECRET, "webhook_secret": SECRET, "base_url": NOWHERE}
    await credentials.change(services.db, services.keyring, "providera", given)
    async with opened(browser, f"{base}/sign-in") as page:
        await visitor.enter(page.context)
        await page.goto(f"{base}/methods/{CODE}")
        await page.get_by_label("Fixed fee").fill("25")
        await page.get_by_label("Percentage of amount").fill("2")
        await page.get_by_label("Amount, NGN").fill("5000")
        await page.locator("#fee").get_by_text("₦125.00").wait_for()
        await page.get_by_label("Percentage of amount").fill("200")
        await page.locator("#fee").get_by_text("between 0 and 100 percent").wait_for()
        await page.get_by_label("Percentage of amount").fill("1.5")
        await page.locator("#fee").get_by_text("₦100.00").wait_for()
        await page.get_by_role("button", name="Save").click()
        await page.get_by_text("saved.").wait_for()
        await page.get_by_text("₦25.00 + 1.5 %").wait_for()

        await page.goto(f"{base}/settings/payout_days")
        await page.get_by_label("Saturday").uncheck()
        await page.get_by_label("Sunday").uncheck()
        await page.get_by_role("button", name="Save").click()
        await page.get_by_text("Monday, Tuesday, Wednesday, Thursday, Friday").wait_for()
        assert (await settings.load(services.db)).payout_days == "mon,tue,wed,thu,fri"

        await page.goto(f"{base}/providers/providera")
        await page.get_by_role("button", name="Test connection").click()
        await page.get_by_text("Connection test failed").wait_for()
        assert not await accessibility_violations(page)
        assert SECRET not in await page.content()
