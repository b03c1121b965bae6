"""The pages use the bundled font, so they look the same on every machine."""

import re

import pytest
from playwright.async_api import Browser

from manilla.services import Services
from manilla.web import static_files
from tests.checkout.page_checks import opened
from tests.payments.orders import INITIATE, order
from tests.support.client import Merchant, Site, new_merchant

BYTES_MAX = 80 * 1024
# The texts contain naira amounts, and letters of Hausa, Igbo and Yoruba names.
TEXT = "₦1,500.50 Ọláyínká Ẹniọlá Ngozị Ɓala Ƙofa …"
PRELOAD = re.compile(r'<link rel="preload" href="([^"]+)" as="font"')


@pytest.fixture
async def merchant(site: Site, services: Services) -> Merchant:
    return await new_merchant(site, services.db, services.keyring)


async def test_every_area_preloads_the_font_and_browsers_may_keep_it(
    site: Site, merchant: Merchant
) -> None:
    checkout = (await merchant.post(INITIATE, order())).json["payment_url"]
    areas = [
        "/",
        "/docs",
        "/dashboard/sign-in",
        "/console/sign-in",
        "/" + checkout.split("/", 3)[3],
    ]
    found = {PRELOAD.findall((await site.send("GET", area)).body.decode())[0] for area in areas}
    assert len(found) == 1
    font = await site.send("GET", found.pop())
    assert font.headers["content-type"] == "font/woff2"
    assert "immutable" in font.headers["cache-control"]
    assert len(font.body) < BYTES_MAX
    assert (static_files.FONTS / "LICENSE.txt").read_text().count("SIL OPEN FONT LICENSE")


@pytest.mark.long
async def test_the_font_has_the_naira_sign_and_the_letters_of_nigerian_names(
    browser: Browser, services: Services
) -> None:
    async with opened(browser, services.base_url + "/docs", width=1280) as page:
        await page.evaluate("text => document.querySelector('h1').textContent = text", TEXT)
        await page.evaluate("document.fonts.ready")
        tools = await page.context.new_cdp_session(page)
        await tools.send("DOM.enable")
        await tools.send("CSS.enable")
        root = (await tools.send("DOM.getDocument"))["root"]["nodeId"]
        query = {"nodeId": root, "selector": "h1"}
        node = (await tools.send("DOM.querySelector", query))["nodeId"]
        used = await tools.send("CSS.getPlatformFontsForNode", {"nodeId": node})
        fonts = {(each["familyName"], each["isCustomFont"]) for each in used["fonts"]}
        assert {custom for _, custom in fonts} == {True}, fonts
