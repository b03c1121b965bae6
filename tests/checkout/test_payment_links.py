"""A payment link's page, as customers see it on phones, and its QR code."""

import io
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import pytest
import zxingcpp
from PIL import Image
from playwright.async_api import Browser, expect

from manilla.kit.environment import Environment
from manilla.ledger.scope import Tenant
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.payments import store as payments
from manilla.payments.payment import PaymentStatus
from manilla.payments.payment_links import paying, store
from manilla.payments.payment_links.link import LinkTerms, PaymentLink
from tests.checkout.page_checks import accessibility_violations, opened, overflow
from tests.checkout.shop import Checkout, Shop
from tests.support.client import Reply
from tests.support.rows import first_short

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
HTML = {"Accept": "text/html"}
scripts_or_not = pytest.mark.parametrize(
    "scripts", first_short([True, False]), ids=["scripts", "no scripts"]
)


async def new_link(
    shop: Shop, environment: Environment = Environment.PRODUCTION, **changed: Any
) -> PaymentLink:
    merchant = await shop.merchant(environment)
    terms = {"title": "Adire cloth", "currency": "NGN", "amount_minor": 100_000, **changed}
    tenant = Tenant(merchant.new.id, environment)
    return await store.create(shop.services.db, tenant, LinkTerms(**terms))


def url_of(shop: Shop, link: PaymentLink) -> str:
    return shop.services.base_url + link.path


async def submit(
    shop: Shop, link: PaymentLink, headers: Mapping[str, str] | None = None, /, **fields: str
) -> Reply:
    body = urlencode(fields).encode()
    return await shop.site.from_new_ip().send("POST", link.path, {**FORM, **(headers or {})}, body)


async def count(shop: Shop, link: PaymentLink) -> int:
    return await store.count_payments(shop.services.db, link)


@scripts_or_not
async def test_a_customer_pays_with_a_link_on_a_phone(
    shop: Shop, browser: Browser, scripts: bool
) -> None:
    link = await new_link(shop, success_redirect="https://shop.example/thanks")
    async with opened(browser, url_of(shop, link), scripts=scripts) as page:
        await page.get_by_label("Your name").fill("Ada Obi")
        await page.get_by_label("Your email").fill("ada@example.com")
        await page.get_by_role("button", name="Pay ₦1,015.00").click()
        await page.wait_for_url("**/checkout/**")
        checkout = Checkout(page.url)
        await page.get_by_role("button", name="Card").click()
        await page.wait_for_url(f"{shop.simulator}/**")
        await page.get_by_role("button", name="Pay ₦1,015.00").click()
        await page.get_by_role("link", name="Return").click()
        await expect(page.get_by_role("heading", name="Payment successful")).to_be_visible()
        await page.get_by_role("link", name="Return to Ada Stores").click()
        await page.wait_for_url("https://shop.example/thanks?**")
    payment = await shop.payment(checkout)
    assert (payment.status, payment.link_id) == (PaymentStatus.SUCCESS, link.id)
    assert (payment.customer_name, payment.customer_email) == ("Ada Obi", "ada@example.com")


@scripts_or_not
async def test_a_customer_enters_an_amount_in_the_sandbox(
    shop: Shop, browser: Browser, scripts: bool
) -> None:
    link = await new_link(shop, Environment.SANDBOX, amount_minor=None)
    async with opened(browser, url_of(shop, link), scripts=scripts) as page:
        await expect(page.get_by_text("Sandbox: no real money")).to_be_visible()
        await expect(page.get_by_text("A payment fee of 1.5 % is added.")).to_be_visible()
        await page.get_by_label("Amount in NGN").fill("12,50")
        await page.get_by_role("button", name="Continue").click()
        await expect(page.get_by_text("Use a decimal point")).to_be_visible()
        await page.get_by_label("Amount in NGN").fill("2,500.50")
        await page.get_by_role("button", name="Continue").click()
        await page.wait_for_url("**/checkout/**")
        checkout = Checkout(page.url)
        await page.get_by_role("button", name="Card").click()
        await page.get_by_role("button", name="Pay ₦2,538.01").click()
        await expect(page.get_by_role("heading", name="Payment successful")).to_be_visible()
    assert (await shop.payment(checkout)).amount_minor == 250_050


async def test_a_link_opens_at_its_short_address_and_at_its_id(shop: Shop) -> None:
    link = await new_link(shop)
    assert link.slug is not None
    for address in (link.slug, link.slug.upper(), link.id):
        reply = await shop.site.send("GET", f"/pay/{address}")
        assert (reply.status, link.path.encode() in reply.body) == (200, True)
    owner, _, rest = link.slug.partition("-")
    other = rest[:-1] + ("0" if rest[-1] != "0" else "1")
    for address in (f"{owner}-{other}", f"{owner}-{rest}0", f"zzzzzzzz-{rest}", f"-{rest}", "u-u"):
        assert (await shop.site.send("GET", f"/pay/{address}")).status == 404


@pytest.mark.long
async def test_a_customer_who_cancels_returns_to_the_link(shop: Shop, browser: Browser) -> None:
    link = await new_link(shop)
    async with opened(browser, url_of(shop, link)) as page:
        await page.get_by_role("button", name="Pay ₦1,015.00").click()
        await page.get_by_role("button", name="Cancel and go back to Ada Stores").click()
        await page.get_by_role("link", name="Return to Ada Stores").click()
        await expect(page.get_by_text("You have not paid. You can try again here.")).to_be_visible()
        assert page.url.startswith(url_of(shop, link))


@pytest.mark.long
async def test_a_single_payment_in_progress_can_be_continued(shop: Shop, browser: Browser) -> None:
    link = await new_link(shop, single_use=True, amount_minor=None)
    first = await submit(shop, link, amount="500")
    async with opened(browser, url_of(shop, link)) as page:
        await page.get_by_label("Amount in NGN").fill("700")
        await page.get_by_role("button", name="Continue").click()
        await page.get_by_role("link", name="Continue that payment").click()
        await page.wait_for_url(f"**{first.location}")
    assert await count(shop, link) == 1


@pytest.mark.long
@pytest.mark.parametrize("scheme", first_short(["light", "dark"]))
@pytest.mark.parametrize(
    "amount_minor", first_short([None, 100_000]), ids=["open amount", "fixed amount"]
)
async def test_the_page_is_accessible_and_fits_every_width(
    shop: Shop, browser: Browser, amount_minor: int | None, scheme: str
) -> None:
    words = "Hand-dyed in Abeokuta. " * 20
    link = await new_link(shop, amount_minor=amount_minor, title="W" * 100, description=words)
    async with opened(browser, url_of(shop, link), scheme=scheme) as page:
        assert await accessibility_violations(page) == []
        for width in (320, 390, 1280):
            assert await overflow(page, width) <= 0
        if amount_minor is None:
            await page.get_by_label("Amount in NGN").fill("0")
        await page.get_by_label("Your email").fill("ada@example")
        await page.get_by_role("button", name=re.compile("Pay|Continue")).click()
        await expect(page.get_by_role("alert")).to_be_visible()
        assert await accessibility_violations(page) == []


@pytest.mark.parametrize("path", ["", "/qr.svg", "/qr.png"])
async def test_opening_the_page_or_the_qr_code_creates_nothing(shop: Shop, path: str) -> None:
    link = await new_link(shop)
    for method in ("GET", "HEAD"):
        assert (await shop.site.send(method, link.path + path)).status == 200
    assert await count(shop, link) == 0


async def test_a_form_from_another_site_creates_nothing(shop: Shop) -> None:
    link = await new_link(shop)
    reply = await submit(shop, link, {"Sec-Fetch-Site": "cross-site"})
    assert (reply.status, await count(shop, link)) == (403, 0)


async def test_a_preview_shows_the_title_the_amount_and_the_merchant(shop: Shop) -> None:
    link = await new_link(shop)
    page = (await shop.site.send("GET", link.path, HTML)).body.decode()
    assert '<meta property="og:title" content="Adire cloth">' in page
    assert '<meta property="og:description" content="Pay ₦1,015.00 to Ada Stores">' in page
    assert f'<meta property="og:url" content="{url_of(shop, link)}">' in page


async def test_texts_of_the_merchant_are_escaped(shop: Shop) -> None:
    hostile = '"><script>alert(1)</script>'
    link = await new_link(shop, title=hostile, description=hostile)
    page = (await shop.site.send("GET", link.path, HTML)).body.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


@pytest.mark.parametrize(
    ("fields", "field"),
    first_short(
        [
            ({"amount": ""}, "amount"),
            ({"amount": "0.99"}, "amount"),
            ({"amount": "-5"}, "amount"),
            ({"amount": "10.001"}, "amount"),
            ({"amount": "1e5"}, "amount"),
            ({"amount": "99999999999999999"}, "amount"),
            ({"amount": "5", "name": "x" * 101}, "name"),
            ({"amount": "5", "name": "two\nlines"}, "name"),
            ({"amount": "5", "email": "ada"}, "email"),
            ({"amount": "5", "email": "a" * 100 + "@example.com"}, "email"),
        ],
        of_each=lambda row: row[1],
    ),
)
async def test_an_invalid_field_is_marked_and_creates_nothing(
    shop: Shop, fields: dict[str, str], field: str
) -> None:
    link = await new_link(shop, amount_minor=None)
    reply = await submit(shop, link, **fields)
    assert reply.status == 400
    assert re.findall(rb'id="e-(\w+)"', reply.body) == [field.encode()]
    assert await count(shop, link) == 0


async def test_bytes_that_are_not_text_are_rejected(shop: Shop) -> None:
    link = await new_link(shop, amount_minor=None)
    site = shop.site.from_new_ip()
    reply = await site.send("POST", link.path, FORM, b"amount=5&name=%00")
    assert (reply.status, await count(shop, link)) == (400, 0)


async def test_the_amount_of_the_link_cannot_be_changed_by_the_form(shop: Shop) -> None:
    link = await new_link(shop)
    reply = await submit(shop, link, amount="1")
    payment = await shop.payment(Checkout(reply.location))
    assert payment.amount_minor == 100_000


async def test_a_closed_link_says_so_and_creates_nothing(shop: Shop) -> None:
    link = await new_link(shop)
    tenant = Tenant(link.merchant_id, link.environment)
    await store.disable(shop.services.db, tenant, link.id)
    for reply in (await shop.site.send("GET", link.path, HTML), await submit(shop, link)):
        assert reply.status == 410
        assert b"This link is closed" in reply.body
    assert await count(shop, link) == 0


async def test_the_link_of_a_disabled_merchant_takes_no_payment(shop: Shop) -> None:
    merchant = await shop.new_merchant()
    tenant = Tenant(merchant.new.id, merchant.environment)
    terms = LinkTerms(title="Cloth", currency="NGN", amount_minor=500)
    link = await store.create(shop.services.db, tenant, terms)
    await shop.change(merchant.new, MerchantUpdate(status=MerchantStatus.DISABLED))
    reply = await submit(shop, link)
    assert b"cannot take payments now" in reply.body
    assert await count(shop, link) == 0


@pytest.mark.parametrize(
    "path",
    first_short(
        ["/pay/x", "/pay/PL" + "0" * 29, "/pay/PL" + "0" * 29 + "/qr.png", "/pay/x/y", "/pay/%00"]
    ),
)
async def test_an_unknown_link_is_not_found(shop: Shop, path: str) -> None:
    reply = await shop.site.send("GET", path, HTML)
    assert reply.status == 404
    assert b"This link does not exist" in reply.body


async def test_too_many_payments_from_one_address_are_rejected_in_words(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paying, "ADDRESS_LIMIT", 1)
    link, site = await new_link(shop), shop.site.from_new_ip()
    replies = [await site.send("POST", link.path, FORM, b"name=Ada") for _ in range(2)]
    assert [reply.status for reply in replies] == [303, 429]
    assert b"Too many requests. Please slow down." in replies[1].body
    assert int(replies[1].headers["retry-after"]) > 0
    assert await count(shop, link) == 1


async def test_both_qr_codes_contain_the_url(shop: Shop, browser: Browser) -> None:
    link = await new_link(shop)
    png = (await shop.site.send("GET", link.path + "/qr.png")).body
    async with opened(browser, url_of(shop, link) + "/qr.svg", width=600) as page:
        svg = await page.screenshot()
    for picture in (png, svg):
        [code] = zxingcpp.read_barcodes(Image.open(io.BytesIO(picture)))
        assert code.text == url_of(shop, link)


async def test_links_of_one_environment_create_payments_in_it(shop: Shop) -> None:
    for environment in Environment:
        link = await new_link(shop, environment)
        trx_id = Checkout((await submit(shop, link)).location).trx_id
        payment = await payments.payment(shop.services.db, link.merchant_id, trx_id)
        assert payment is not None
        assert payment.environment is environment
