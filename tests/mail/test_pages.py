"""The email pages: the console's list and mailbox, and each user's email preferences."""

import contextlib
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from playwright.async_api import Browser, Page, expect

from manilla.console import routes as console
from manilla.mail import listing
from manilla.mail.listing import MailState
from manilla.mail.transport import Transport
from manilla.pages import app as pages
from manilla.people.roles import ConsoleRole, Role
from manilla.services import Services
from tests.conftest import serving
from tests.mail.mail_server import MailServer, plain_transport
from tests.mail.outbox_reader import mails_to
from tests.mail.post_office import FAILED_PAYOUT, put_failed_payout, until, worker
from tests.support.client import Site, new_merchant
from tests.support.rows import first_short
from tests.web.signed_in_user import SignedInUser, administrator, member

WIDTHS = first_short([390, 1280])
# the folder in which screenshots of the pages are saved
PICTURES = os.environ.get("MANILLA_PICTURES")


async def _picture(page: Page, name: str) -> None:
    if PICTURES:
        await page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=True)


async def _administrator(services: Services, site: Site) -> SignedInUser:
    email = f"{secrets.token_hex(4)}@console.example"
    return await administrator(services, site, email, ConsoleRole.SUPPORT)


async def _enrolled(services: Services, site: Site) -> SignedInUser:
    """Creates an administrator with a second factor, which production mode requires."""
    user = await _administrator(services, site)
    await user.enroll(services)
    await user.step_up(services)
    return user


@contextlib.asynccontextmanager
async def _production(services: Services, transport: Transport | None) -> AsyncIterator[Site]:
    """Serves the console in production mode with this mail transport."""
    real = msgspec.structs.replace(services, is_development=False, mail_transport=transport)
    async with serving(pages.build(real, [console.build(real)])) as port:
        yield Site(port)


@pytest.mark.parametrize("width", WIDTHS)
async def test_the_mailbox_shows_an_email_as_html_and_text(
    browser: Browser, services: Services, site: Site, width: int
) -> None:
    merchant = await new_merchant(site, services.db, services.keyring)
    owner = await member(services, site, merchant.new.id, Role.OWNER)
    for number in range(2):
        await put_failed_payout(services, merchant.new.id, f"order-<b>{number}</b>")
    [mail, _] = await mails_to(services.db, owner.email)
    user = await _administrator(services, site)
    context = await browser.new_context(viewport={"width": width, "height": 844})
    await user.enter(context)
    page = await context.new_page()
    problems: list[str] = []
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    await page.goto(f"{services.base_url}/console/mail?q={owner.email}")
    await _picture(page, f"mailbox-{width}")
    await page.goto(f"{services.base_url}/console/mail/{mail.id}")
    letter = page.frame_locator("iframe")
    await expect(letter.get_by_role("heading")).to_have_text("Payout of ₦1,000.00 failed")
    await expect(letter.get_by_text("order-<b>0</b>")).to_be_visible()
    button = letter.get_by_role("link", name="Open the payout", exact=True)
    assert await button.evaluate("each => getComputedStyle(each).display") == "inline-block"
    await expect(page.locator("pre")).to_contain_text("Your reference: order-<b>0</b>")
    is_wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not await page.evaluate(is_wide)
    await _picture(page, f"mail-{width}")
    assert problems == []
    await context.close()


@pytest.mark.parametrize("width", WIDTHS)
async def test_a_user_switches_a_kind_of_email_off(
    browser: Browser, services: Services, site: Site, width: int
) -> None:
    merchant = await new_merchant(site, services.db, services.keyring)
    owner = await member(services, site, merchant.new.id, Role.OWNER)
    context = await browser.new_context(viewport={"width": width, "height": 844})
    await owner.enter(context)
    page = await context.new_page()
    await page.goto(f"{services.base_url}/dashboard/account")
    await page.get_by_role("link", name="Emails").click()
    await page.get_by_label("A payout failed or was returned").uncheck()
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("status")).to_contain_text("Saved.")
    await expect(page.get_by_label("A payout failed or was returned")).not_to_be_checked()
    await expect(page.get_by_label("A bulk file is done")).to_be_checked()
    await _picture(page, f"choices-{width}")
    await put_failed_payout(services, merchant.new.id)
    assert await mails_to(services.db, owner.email) == []
    await context.close()


async def test_in_production_mode_the_console_shows_no_content_and_retries(
    services: Services, site: Site, server: MailServer
) -> None:
    merchant = await new_merchant(site, services.db, services.keyring)
    owner = await member(services, site, merchant.new.id, Role.OWNER)
    await put_failed_payout(services, merchant.new.id)
    [mail] = await mails_to(services.db, owner.email)
    hidden = [FAILED_PAYOUT[name] for name in ("amount", "reference", "trx_id", "reason")]
    server.recipient_answers = ["550 5.1.1 No such mailbox"]

    async def has_failed() -> bool:
        return (await listing.get(services.db, mail.id)).state == MailState.FAILED

    async with worker(services, plain_transport(server.port)):
        await until(has_failed)
    async with _production(services, plain_transport(server.port)) as production:
        user = await _enrolled(services, production)
        listed = await user.get(f"/mail?state=failed&q={owner.email}")
        assert b"No such mailbox" in listed.body
        shown = await user.get(f"/mail/{mail.id}")
        assert (shown.status, b"does not show the content" in shown.body) == (200, True)
        for page in (listed, shown):
            assert not [word for word in hidden if word.encode() in page.body]
        assert (await user.get(f"/mail/{mail.id}/html")).status == 404
        assert (await user.post(f"/mail/{mail.id}/retry", {})).status == 303
    assert (await listing.get(services.db, mail.id)).state == MailState.WAITING


async def test_in_production_mode_the_console_warns_if_no_email_is_sent(
    services: Services, server: MailServer
) -> None:
    for transport in (None, plain_transport(server.port)):
        async with _production(services, transport) as production:
            user = await _enrolled(services, production)
            for path in ("/system", "/mail"):
                page = await user.get(path)
                assert page.status == 200
                assert (b"This installation does not send email" in page.body) == (not transport)
