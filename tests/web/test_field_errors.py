"""A form shows each error next to its field in plain words, and focuses the first invalid field."""

import re
import secrets
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, expect

from manilla.services import Services
from tests.checkout.page_checks import accessibility_violations
from tests.dashboard.merchant_dashboard import MerchantDashboard, new_dashboard
from tests.support.client import Site
from tests.support.provider_simulator import running_simulator
from tests.web.http_browser import HttpBrowser
from tests.web.signed_in_user import PASSWORD, SignedInUser, administrator


@pytest.fixture(scope="module")
async def dashboard(services: Services, site: Site) -> AsyncIterator[MerchantDashboard]:
    async with running_simulator(services):
        yield await new_dashboard(services, site)


@pytest.fixture(scope="module")
async def operator(services: Services, site: Site) -> SignedInUser:
    visitor = await administrator(services, site, f"{secrets.token_hex(4)}@console.example")
    await visitor.step_up(services)
    return visitor


def _error(page: str, field: str) -> str:
    """Returns the field's error text. The field must reference the text for screen readers."""
    control = re.search(rf'<(?:input|select|textarea)[^>]*id="f-{field}"[^>]*>', page)
    assert control, f"no field {field}"
    assert 'aria-invalid="true"' in control.group(0)
    assert re.search(rf'aria-describedby="h-{field}\b', control.group(0))
    text = re.search(rf'<p class="field-error" id="h-{field}">([^<]*)</p>', page)
    assert text, f"no error at {field}"
    # The summary at the top of the form links to the field.
    assert f'<a href="#f-{field}">' in page
    return text.group(1)


@pytest.mark.parametrize(
    ("changed", "field", "text"),
    [
        ({"account_number": "12345"}, "account_number", "The account number must have 10 digits."),
        ({"account_number": ""}, "account_number", "Enter the account number."),
        ({"bank_code": ""}, "bank_code", "Choose a bank."),
        ({"bank_code": "58"}, "bank_code", "Did you mean 058, Guaranty Trust Bank?"),
        ({"amount": "1500,50"}, "amount", "Write 1500.50."),
        ({"amount": "99"}, "amount", "The amount must be at least ₦100.00"),
        ({"amount": "900000000"}, "amount", "The amount must be at least"),
        ({"account_number": "0000000002"}, "account_number", "could not be verified"),
    ],
)
async def test_payout_errors_are_shown_at_their_field(
    dashboard: MerchantDashboard, changed: dict[str, str], field: str, text: str
) -> None:
    fields = {
        "method": str(await dashboard.method_id()),
        "bank_code": "058",
        "account_number": "0123456789",
        "amount": "₦1,000.00",
        "once": secrets.token_hex(8),
    }
    for path in ("/sandbox/payouts/new", "/sandbox/payouts"):
        page = (await dashboard.owner.post(path, {**fields, **changed})).body.decode()
        assert text in _error(page, field)
        assert not re.search(r"payout_amount|bank_code must|account_number must", page)


async def test_errors_after_a_redirect_are_shown_at_their_field(
    dashboard: MerchantDashboard, operator: SignedInUser
) -> None:
    wallet = f"/merchants/{dashboard.merchant.new.id}/wallets/sandbox/NGN"
    adjusted = {"direction": "take", "amount": "1500,50", "reason": "A correction"}
    page = await operator.follow(await operator.post(f"{wallet}/adjust", adjusted))
    assert _error(page, "amount") == "Use a decimal point, not a comma. Write 1500.50."
    assert 'value="1500,50"' in page  # The form keeps the value that the user typed.
    assert 'value="A correction"' in page
    assert "field-error" not in (await operator.get(wallet)).body.decode()

    commission = f"/merchants/{dashboard.merchant.new.id}"
    reply = await operator.post(f"{commission}/commission", {"commission_percent": "101"})
    assert "between 0 and 100" in _error(await operator.follow(reply), "commission_percent")

    reply = await dashboard.owner.post("/team/invite", {"email": "nobody", "role": "viewer"})
    assert "Enter an email address" in _error(await dashboard.owner.follow(reply), "email")

    reply = await dashboard.owner.post("/profile", {"name": "Ada", "phone": "12"})
    assert "Enter a phone number" in _error(await dashboard.owner.follow(reply), "phone")


async def test_a_sensitive_value_is_not_kept_in_the_cookie(
    dashboard: MerchantDashboard,
) -> None:
    reply = await dashboard.owner.post("/profile/bvn", {"bvn": "1234567"})
    page = await dashboard.owner.follow(reply)
    assert "A BVN has 11 digits." in _error(page, "bvn")
    assert "1234567" not in page


async def test_an_impossible_filter_is_explained(
    dashboard: MerchantDashboard,
) -> None:
    reply = await dashboard.owner.get("/sandbox/payments?status=lost")
    page = reply.body.decode()
    assert reply.status == 400
    assert "“lost” is not a valid status." in page
    assert "Expected" not in page


@pytest.mark.long
async def test_the_first_invalid_field_has_focus(
    dashboard: MerchantDashboard, services: Services, browser: Browser
) -> None:
    path = f"/dashboard/sandbox/payouts/new?method={await dashboard.method_id()}"
    for width in (390, 1280):
        context = await browser.new_context(viewport={"width": width, "height": 844})
        await dashboard.owner.enter(context)
        page = await context.new_page()
        await page.goto(services.base_url + path)
        await page.get_by_label("Bank", exact=True).fill("058")
        await page.get_by_label("Account number").fill("12345")
        await page.get_by_label("Amount").fill("1500,50")
        await page.get_by_role("button", name="Review payout").click()
        await page.locator("#h-account_number").wait_for()
        # The form shows all errors at the same time.
        assert await page.locator("#h-amount").inner_text() != ""
        await expect(page.locator("#f-account_number")).to_be_focused()
        assert not await accessibility_violations(page)
        await context.close()


@pytest.mark.long
async def test_sign_up_errors_are_shown_at_their_field(
    services: Services, browser: Browser
) -> None:
    context = await browser.new_context(viewport={"width": 390, "height": 844})
    page = await context.new_page()
    await page.goto(f"{services.base_url}/dashboard/sign-up")
    await page.get_by_label("Business").fill("Ada's shop")
    await page.get_by_label("Your name").fill("Ada")
    await page.get_by_label("Email").fill(f"{secrets.token_hex(4)}@example.com")
    await page.get_by_label("Password").fill("password1234")
    await page.get_by_role("button", name="Create account").click()
    await page.locator("#h-password").wait_for()
    await expect(page.locator("#f-password")).to_be_focused()
    assert not await accessibility_violations(page)
    await context.close()


async def test_missing_values_are_reported_in_the_pages_own_words(
    dashboard: MerchantDashboard, services: Services, browser: Browser
) -> None:
    context = await browser.new_context()
    await dashboard.owner.enter(context)
    page = await context.new_page()
    await page.goto(f"{services.base_url}/dashboard/sandbox/checkout")
    email = page.get_by_label("Support email")
    await email.fill("nobody")
    await page.get_by_role("button", name="Save branding").click()
    problem = page.locator(".field-error")
    await expect(problem).to_have_text("Enter an email address, such as ada@example.com.")
    await expect(email).to_be_focused()
    await expect(email).to_have_accessible_description(re.compile("^Enter an email address"))
    assert not await accessibility_violations(page)
    await email.fill("help@ada.example")
    await expect(problem).to_have_count(0)
    await expect(email).not_to_have_attribute("aria-invalid", "true")
    await page.get_by_label("Choose a color").fill("#ffd166")
    await expect(page.get_by_label("Color (optional)")).to_have_value("#ffd166")
    await expect(page.locator("#preview [fill='#ffd166']").first).to_be_attached()
    await context.close()


async def test_password_errors_are_shown_at_their_field(
    dashboard: MerchantDashboard, site: Site
) -> None:
    wrong = await dashboard.owner.post("/account/password", {"old": "no", "new": PASSWORD})
    assert "password is wrong" in _error(wrong.body.decode(), "old")
    given = {
        "business_name": "Ada's shop",
        "name": "Ada",
        "email": f"{secrets.token_hex(4)}@example.com",
    }
    async with HttpBrowser.of(site) as guest:
        page = await guest.post("/sign-up", {**given, "password": "password1234"})
    assert "too easy to guess" in _error(page.text, "password")


async def test_api_field_errors_are_shown_as_sentences(dashboard: MerchantDashboard) -> None:
    wrong = {
        "payment_amount": 5,
        "currency_code": "NAIRA",
        "ref_trx": "R" * 61,
        "ipn_url": 7,
        "allow_payment_methods": {"a": 1},
    }
    errors = (await dashboard.merchant.post("/api/v1/initiate-payment", wrong)).json["errors"]
    assert errors["currency_code"] == "Use at most 3 characters."
    assert errors["ref_trx"] == "Use at most 60 characters."
    assert errors["ipn_url"] == "Expected text."
    assert "`" not in "".join(errors.values())
