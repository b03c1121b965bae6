"""A real browser signs in and out, under the pages' content security policy."""

import re

from playwright.async_api import Browser, expect

from manilla.people.company import providers
from manilla.services import Services
from tests.sign_in.conftest import set_up
from tests.sign_in.openid_provider import OpenIdProvider
from tests.support.client import Site


async def test_a_browser_signs_in_and_out_at_the_provider(
    services: Services, site: Site, openid: OpenIdProvider, browser: Browser
) -> None:
    await set_up(services, site, openid, providers.CONSOLE, roles={"staff": "support"})
    subject = await openid.user("staff")
    base = f"http://127.0.0.1:{site.port}"
    context = await browser.new_context()
    # The provider's test page loads a font from the internet.
    await context.route(re.compile("fonts.googleapis.com"), lambda route: route.abort())
    page = await context.new_page()
    blocked: list[str] = []
    page.on(
        "console",
        lambda message: (
            blocked.append(message.text) if "Content Security Policy" in message.text else None
        ),
    )
    await page.goto(f"{base}/console/audit")
    await page.get_by_role("link", name="Sign in with your company").click()
    await page.locator("input[name=login]").fill(subject)
    await page.locator("input[name=password]").fill("any")
    await page.get_by_role("button", name="Sign-in").click()
    await expect(page).to_have_url(f"{base}/console/audit")
    await page.goto(f"{base}/console/account")
    await expect(page.get_by_text("You signed in at 127.0.0.1.")).to_be_visible()
    await page.locator("form[action$='/sign-out'] button").first.dispatch_event("click")
    await expect(page).to_have_url(re.compile(re.escape(openid.issuer) + "/session/end"))
    await page.get_by_role("button", name=re.compile("Yes", re.IGNORECASE)).click()
    await expect(page).to_have_url(re.compile(re.escape(base) + "/console/sign-in"))
    await page.goto(f"{base}/console/audit")
    await expect(page).to_have_url(re.compile("/console/sign-in"))
    assert blocked == []
    await context.close()
