"""Members read their invoices; administrators issue and cancel them, and remit taxes."""

import os
from datetime import datetime
from pathlib import Path

import pytest
from playwright.async_api import Browser

from manilla.audit.actor import Actor, ActorKind, acting
from manilla.invoices import issuing, returns, store
from manilla.invoices.invoice import Party
from manilla.kit.clock import LAGOS
from manilla.people.roles import ConsoleRole, Role
from manilla.platform import settings as platform
from manilla.services import Services
from tests.checkout.page_checks import accessibility_violations
from tests.invoices.books import PAYOUT_FEE, Books
from tests.support.client import Site, new_merchant
from tests.support.waiting import until_true
from tests.web.signed_in_user import SignedInUser, administrator, member

PICTURES = os.environ.get("MANILLA_INVOICE_PICTURES")


@pytest.fixture
async def owner_of(books: Books, services: Services, site: Site) -> SignedInUser:
    return await member(services, site, books.merchant_id, Role.OWNER)


@pytest.fixture
async def operator(books: Books, services: Services, site: Site) -> SignedInUser:
    email = f"{books.tax}@console.example"
    user = await administrator(services, site, email, ConsoleRole.ADMINISTRATOR)
    await user.step_up(services)
    return user


async def page_of(user: SignedInUser, path: str) -> str:
    reply = await user.get(path)
    assert reply.status == 200, reply.body
    return reply.body.decode()


async def test_a_member_reads_invoices_and_changes_the_billing_details(
    books: Books, owner_of: SignedInUser
) -> None:
    await books.charge(1_000, books.at(3), tax=75)
    [invoice] = await books.issue()
    assert invoice.number in await page_of(owner_of, "/invoices")
    shown = await page_of(owner_of, f"/invoices/{invoice.number}")
    assert "₦10.75" in shown
    pdf = await owner_of.get(f"/invoices/{invoice.number}/invoice.pdf")
    assert pdf.body.startswith(b"%PDF-")
    details = {"name": "Ada Foods Ltd", "address": "2 Marina, Lagos", "tax_id": "87654321-0001"}
    assert (await owner_of.post("/invoices/recipient", details)).status == 303
    after = await store.recipient(books.db, books.merchant_id)
    assert (after.name, after.tax_id) == ("Ada Foods Ltd", "87654321-0001")
    wrong = await owner_of.post("/invoices/recipient", {**details, "tax_id": ""})
    assert wrong.status == 303
    assert (await store.recipient(books.db, books.merchant_id)).tax_id == "87654321-0001"


async def test_another_merchants_invoice_is_not_found(
    books: Books, services: Services, site: Site
) -> None:
    await books.charge(1_000, books.at(3))
    [invoice] = await books.issue()
    other = await new_merchant(site, services.db, services.keyring)
    stranger = await member(services, site, other.new.id, Role.OWNER)
    for ending in ("", "/invoice.pdf", "/invoice.xml"):
        assert (await stranger.get(f"/invoices/{invoice.number}{ending}")).status == 404


async def test_an_administrator_records_a_reference_and_cancels_an_invoice(
    books: Books, operator: SignedInUser
) -> None:
    await books.charge(1_000, books.at(3))
    for key in issuing.SETTINGS:
        await platform.change(books.db, key, getattr(books.settings, key))
    await until_true(
        lambda: all(getattr(books.services.platform.now, key) for key in issuing.SETTINGS)
    )
    [invoice] = await books.issue()
    at = f"/invoices/{invoice.number}"
    saved = await operator.post(f"{at}/reference", {"reference": "IRN-7", "qr": "signed"})
    assert saved.status == 303
    assert (await store.find(books.db, invoice.number)).authority_reference == "IRN-7"
    wrong = await operator.post(f"{at}/reference", {"reference": "", "qr": ""})
    assert wrong.status == 422
    assert "IRN-7" in await page_of(operator, at)
    await operator.post(f"{at}/cancel", {"reason": "The name is wrong."})
    assert [amount for _, _, amount in await books.issued()] == [1_000, -1_000, 1_000]


async def test_an_administrator_remits_a_tax(books: Books, operator: SignedInUser) -> None:
    await books.charge(1_000, books.at(3), tax=75)
    page = await page_of(operator, "/tax-returns")
    once = page.split('name="once" value="')[1].split('"')[0]
    form = {"tax": books.tax, "currency": "NGN", "reference": "REF-9", "once": once}
    too_much = await operator.post("/tax-returns/remit", {**form, "amount": "0.76"})
    assert "Only ₦0.75 of this tax is owed." in too_much.body.decode()
    assert (await operator.post("/tax-returns/remit", {**form, "amount": "0.50"})).status == 303
    assert (await returns.balances(books.db, books.tax))[books.tax, "NGN"] == 25
    assert "not final" not in page
    this_month = f"{datetime.now(LAGOS):%Y-%m}"
    assert "not final" in await page_of(operator, f"/tax-returns?month={this_month}")
    csv = await operator.get("/tax-returns?format=csv")
    assert books.tax.encode() in csv.body
    pdf = await operator.get("/tax-returns/returns.pdf")
    assert pdf.body.startswith(b"%PDF-")


async def test_a_month_that_has_not_ended_is_not_queued(
    books: Books, operator: SignedInUser
) -> None:
    await operator.post("/invoices/issue", {"month": "2099-01"})
    queued = "SELECT count(*) FROM job WHERE kind = 'invoices' AND subject = '2099-01'"
    assert await books.db.value(queued) == 0


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
async def test_the_pages_are_accessible_and_fit_the_screen(
    books: Books,
    owner_of: SignedInUser,
    operator: SignedInUser,
    browser: Browser,
    width: int,
    scheme: str,
) -> None:
    party = Party("Ada Foods and Provisions Nigeria Limited", "2 Marina, Lagos", "87654321-0001")
    await issuing.set_recipient(books.db, books.merchant_id, party)
    await books.charge(123_456_700, books.at(3), tax=9_259_252)
    await books.charge(500, books.at(4), account=PAYOUT_FEE)
    [invoice] = await books.issue()
    invoice = await issuing.record_reference(books.db, invoice.number, "IRN-1", "signed")
    with acting(Actor(ActorKind.COMMAND, None, "a test")):
        await issuing.issue_again(books.db, books.settings, invoice.number, "Another name")
    for user, paths in (
        (owner_of, ("/invoices", f"/invoices/{invoice.number}")),
        (operator, ("/invoices", f"/invoices/{invoice.number}", "/tax-returns")),
    ):
        context = await browser.new_context(
            viewport={"width": width, "height": 844},
            color_scheme=scheme,  # type: ignore[arg-type]
        )
        await user.enter(context)
        page = await context.new_page()
        for path in paths:
            await page.goto(f"{books.services.base_url}/{user.realm}{path}")
            for summary in await page.locator("details.more > summary").all():
                await summary.click()
            if PICTURES:
                name = (
                    f"{user.realm}{path.replace('/', '-').replace(invoice.number, 'one')}-{width}"
                )
                await page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=True)
            assert not await accessibility_violations(page)
            overflow = "document.documentElement.scrollWidth - window.innerWidth"
            assert await page.evaluate(overflow) <= 0, path
        await context.close()
