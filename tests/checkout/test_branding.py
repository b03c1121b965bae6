"""A merchant's logo, color and support contact on the pages that customers see."""

import re
from io import BytesIO

import pytest
from PIL import Image
from playwright.async_api import Browser, expect

from manilla.checkout import accent
from manilla.kit.environment import Environment
from manilla.merchants import branding, logo
from manilla.payments.checkout import SandboxOutcome
from tests.checkout.page_checks import accessibility_violations, opened, overflow
from tests.checkout.shop import Checkout, Shop
from tests.merchants.test_logo import picture
from tests.support.rows import first_short

COLORS = ["ffffff", "000000", "808080", "777777", "ff0000", "ffd400", "00ff66", "0b3d2e", "7f00ff"]


@pytest.mark.parametrize("color", COLORS)
def test_every_color_is_readable_in_light_and_dark(color: str) -> None:
    assert accent.contrast(accent.text_on(color), color) >= accent.READABLE
    shades = re.findall(r"--brand:#(\w{6});.*?--on-brand:#(\w{6})", accent.style(color))
    for (shade, text), backgrounds in zip(shades, (accent.LIGHT, accent.DARK), strict=True):
        assert accent.contrast(text, shade) >= accent.READABLE
        assert all(accent.contrast(shade, each) >= accent.READABLE for each in backgrounds)


async def branded(shop: Shop, color: str = "ffd400") -> Checkout:
    merchant = await shop.new_merchant(Environment.SANDBOX)
    db, merchant_id = shop.services.db, merchant.new.id
    await branding.change(db, merchant_id, f"#{color}", "help@ada.example", "+234 803 000 0000")
    await branding.set_logo(db, merchant_id, await logo.encode(picture("JPEG")))
    return await shop.sell(merchant)


@pytest.mark.long
@pytest.mark.parametrize(
    ("color", "scheme"),
    [
        ("ffd400", "light"),
        pytest.param("ffd400", "dark", marks=pytest.mark.long),
        pytest.param("1a1a2e", "dark", marks=pytest.mark.long),
        pytest.param("777777", "light", marks=pytest.mark.long),
    ],
)
async def test_branded_pages_are_accessible_and_fit_every_screen(
    shop: Shop, browser: Browser, color: str, scheme: str
) -> None:
    checkout = await branded(shop, color)
    async with opened(browser, checkout.url, scheme=scheme) as page:
        assert await page.locator(".logo").evaluate("image => image.naturalWidth") == 512
        await expect(page.get_by_role("link", name="help@ada.example")).to_be_visible()
        phone = page.get_by_role("link", name="+234 803 000 0000")
        assert await phone.get_attribute("href") == "tel:+2348030000000"
        assert await accessibility_violations(page) == []
        assert [await overflow(page, width) for width in (320, 390, 1280)] == [0, 0, 0]
        await shop.pretend(checkout, SandboxOutcome.PAY)
        await page.goto(checkout.at("receipt"))
        assert await accessibility_violations(page) == []
        pdf = await shop.site.send("GET", Checkout(checkout.at("receipt.pdf")).target)
        assert b"/Subtype /Image" in pdf.body


async def test_a_logo_is_sent_as_an_image_that_never_changes(shop: Shop) -> None:
    checkout = await branded(shop)
    page = (await shop.site.send("GET", checkout.target)).body.decode()
    [url] = re.findall(r'class="logo" src="([^"]+)"', page)
    reply = await shop.site.send("GET", url)
    assert (reply.headers["content-type"], reply.status) == ("image/png", 200)
    assert "immutable" in reply.headers["cache-control"]
    with Image.open(BytesIO(reply.body)) as image:
        assert image.size == (512, 171)


@pytest.mark.parametrize(
    "path",
    first_short(
        [
            "/brand/1/x.png",
            "/brand/1/x.svg",
            "/brand/x/x.png",
            "/brand/99999999999999999999/x.png",
            "/static/checkout-accent/12345.css",
            "/static/checkout-accent/12345g.css",
            "/static/checkout-accent/123456.js",
        ]
    ),
)
async def test_unknown_logos_and_colors_are_not_found(shop: Shop, path: str) -> None:
    assert (await shop.site.send("GET", path)).status == 404
