"""The documentation in a browser: it is accessible, not cut off, and its scripts work."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Browser, FilePayload, Page, expect

from manilla.kit.environment import Environment
from manilla.merchants import queries
from manilla.people.roles import Role
from manilla.reference.pages import Documentation
from manilla.services import Services
from tests.checkout.page_checks import accessibility_violations, opened
from tests.support.client import Site, new_merchant
from tests.web.signed_in_user import member

pytestmark = pytest.mark.usefixtures("site")

VECTORS = json.loads((Path(__file__).parents[2] / "clients/contract/signatures.json").read_text())
PHONE = 390
# These pages contain every type of element, so the slow contrast check skips all other pages.
COLOURED = ("/docs", "/docs/authentication", "/docs/errors", "/docs/api/initiate-payment-legacy")
NO_CONTRAST = {"resultTypes": ["violations"], "rules": {"color-contrast": {"enabled": False}}}
ALL = {"resultTypes": ["violations"]}


@pytest.mark.long
async def test_a_page_with_every_element_is_accessible_and_fits_a_phone(
    browser: Browser, services: Services
) -> None:
    address = services.base_url + "/docs/authentication"
    async with opened(browser, address, width=PHONE) as page:
        assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert await _problems(page, NO_CONTRAST) == []


@pytest.mark.long
async def test_every_page_is_accessible_on_phone_and_desktop(
    browser: Browser, services: Services, documentation: Documentation
) -> None:
    base_url = services.base_url
    found: list[str] = []
    for width, scheme in ((1280, "light"), (PHONE, "dark")):
        async with opened(
            browser, base_url + "/docs/quick-start", width=width, scheme=scheme
        ) as page:
            # This slow check runs only once, because all pages use the same colors for code.
            found += [f"{scheme}: {fault}" for fault in await accessibility_violations(page)]
            for each in [*(page.address for page in documentation.pages), "/docs/search?q=payout"]:
                await page.goto(base_url + each)
                beyond = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
                found += [f"{each}: {beyond} px too wide"] if beyond > 0 else []
                if width != PHONE or each in COLOURED:
                    options = ALL if each in COLOURED else NO_CONTRAST
                    faults = await _problems(page, options)
                    found += [f"{each}, {scheme}: {fault}" for fault in faults]
    assert not found, "\n".join(found)


async def _problems(page: Page, options: Mapping[str, Any]) -> list[str]:
    run = await Axe().run(page, {"exclude": [["pre"]]}, options)
    violations = run.response["violations"]
    return [f"{fault['id']}: {node['html']}" for fault in violations for node in fault["nodes"]]


@pytest.mark.long
async def test_the_calculator_signs_like_the_api(browser: Browser, services: Services) -> None:
    address = services.base_url + "/docs/authentication"
    async with opened(browser, address, width=1280) as page:
        sent: list[str] = []
        page.on("request", lambda request: sent.append(request.url))
        for vector in VECTORS:
            await page.get_by_label("Method").select_option(vector["method"])
            await page.get_by_label("Path with query").fill(vector["path"])
            await page.get_by_label("Timestamp").fill(vector["timestamp"])
            await page.get_by_label("API secret").fill(vector["secret"])
            await _give_body(page, vector["body"])
            await expect(page.locator("[data-signature]")).to_have_text(vector["signature"])
        assert [url for url in sent if "/static/" not in url] == [], (
            "the secret stays in the browser"
        )


async def _give_body(page: Page, body: str) -> None:
    """Enters the request body. A body that a text field would change is uploaded as a file."""
    as_file = "\r" in body
    payload: list[FilePayload] = [
        {"name": "body.json", "mimeType": "application/json", "buffer": body.encode()}
    ]
    await page.get_by_label("Body from a file").set_input_files(payload if as_file else [])
    await page.get_by_label("Body", exact=True).fill("" if as_file else body)


@pytest.mark.long
async def test_a_key_opens_the_search_and_the_language_is_remembered(
    browser: Browser, services: Services
) -> None:
    address = services.base_url + "/docs/quick-start"
    async with opened(browser, address, width=1280) as page:
        await page.get_by_text("PHP", exact=True).first.click()
        await expect(page.get_by_label("PHP: sign_and_pay.php")).to_be_visible()
        await expect(page.get_by_label("curl: sign_and_pay.sh")).to_be_hidden()
        await page.keyboard.press("/")
        await page.keyboard.type("insufficient_balance")
        first = page.locator("[data-found] a[href='/docs/errors#insufficient_balance']")
        await expect(first).to_be_visible()
        await first.click()
        await expect(page).to_have_url(services.base_url + "/docs/errors#insufficient_balance")
        await page.goto(services.base_url + "/docs/payouts")
        await expect(page.get_by_label("PHP: payout.php")).to_be_visible()


@pytest.mark.long
async def test_the_code_stays_beside_the_text_that_is_read(
    browser: Browser, services: Services
) -> None:
    address = services.base_url + "/docs/api/initiate-payment"
    async with opened(browser, address, width=1280) as page:
        code = page.get_by_label("Request body: payment")
        field = page.locator("dt", has_text="allow_payment_methods").first
        await field.scroll_into_view_if_needed()
        at_field, at_code = await field.bounding_box(), await code.bounding_box()
        assert at_field is not None
        assert at_code is not None
        assert at_code["x"] > at_field["x"] + at_field["width"], "the sample is in the right column"
        await expect(code).to_be_in_viewport(ratio=1)
        await page.set_viewport_size({"width": PHONE, "height": 844})
        at_code = await code.bounding_box()
        assert at_code is not None
        assert at_code["x"] < PHONE / 4, "on a phone there is one column"


@pytest.mark.long
async def test_the_keyboard_copies_code_and_searches(browser: Browser, services: Services) -> None:
    address = services.base_url + "/docs/quick-start"
    async with opened(browser, address, width=1280) as page:
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.get_by_role("button", name="Copy").first.focus()
        await page.keyboard.press("Enter")
        await expect(page.locator("[data-copied]")).to_have_text("Copied")
        copied = await page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("export MANILLA_URL=")
        await page.keyboard.press("/")
        await page.keyboard.type("refunds")
        await expect(page.locator("[data-found-count]")).to_contain_text("result")
        await page.keyboard.press("ArrowDown")
        await expect(page.locator("[data-found] a").first).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(page.locator("[data-found]")).to_be_hidden()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="Search")).to_be_visible()
        first = page.locator(".found a").first
        await expect(first).to_have_text("Refunds and disputes")


@pytest.mark.long
async def test_without_javascript_one_program_is_shown_and_the_language_can_be_chosen(
    browser: Browser, services: Services
) -> None:
    address = services.base_url + "/docs/payouts"
    async with opened(browser, address, width=1280, scripts=False) as page:
        await expect(page.get_by_label("curl: payout.sh")).to_be_visible()
        await page.get_by_text("Go", exact=True).click()
        await expect(page.get_by_label("Go: payout.go")).to_be_visible()
        await expect(page.get_by_label("curl: payout.sh")).to_be_hidden()


@pytest.mark.long
async def test_an_endpoints_page_opens_with_code_beside_its_first_field(
    browser: Browser, services: Services
) -> None:
    for name in ("initiate-payout", "list-payments"):
        address = f"{services.base_url}/docs/api/{name}"
        async with opened(browser, address, width=1280) as page:
            code = await page.locator(".beside .code").first.bounding_box()
            field = await page.locator(".fields dt").first.bounding_box()
            assert code is not None
            assert field is not None
            assert code["y"] < 700, name
            assert code["x"] > field["x"] + 200, name
            assert code["y"] <= field["y"] <= code["y"] + code["height"] + 200, name


@pytest.mark.long
async def test_the_quick_start_fills_in_the_key_of_a_signed_in_developer(
    browser: Browser, services: Services, site: Site
) -> None:
    merchant = await new_merchant(site, services.db, services.keyring)
    developer = await member(services, site, merchant.new.id, Role.DEVELOPER)
    rows = await queries.credentials(services.db, merchant.new.id, Environment.SANDBOX)
    key = rows[0].merchant_key
    address = f"{services.base_url}/docs/quick-start"
    async with opened(browser, address) as page:
        await expect(page.get_by_text("export MANILLA_MERCHANT_KEY=test_...")).to_be_visible()
        await developer.enter(page.context)
        await page.reload()
        await expect(page.get_by_text(f"MANILLA_MERCHANT_KEY={key}")).to_be_visible()
