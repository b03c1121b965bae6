"""Customers see checkout, receipts and emails in their language, and the API stays in English."""

import re
from collections.abc import AsyncIterator
from urllib.parse import urlencode

import pytest
from playwright.async_api import Browser, Page

from manilla.kit.environment import Environment
from manilla.languages import language
from manilla.languages.language import CustomerLanguage
from manilla.merchants.merchants import MerchantUpdate
from manilla.payments.payment_links import store as payment_links
from tests.checkout.page_checks import opened, overflow
from tests.checkout.shop import HOSTED, Checkout, Shop
from tests.checkout.test_pages import PAGES
from tests.checkout.test_payment_links import new_link, submit, url_of
from tests.mail.outbox_reader import letters_to
from tests.people.accounts import new_email
from tests.support.client import Reply
from tests.support.pdf_text import read
from tests.web import markup

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
FRENCH = {"Accept-Language": "fr-FR,fr;q=0.9,en;q=0.8"}
HOW = {
    "en": "How would you like to pay?",
    "fr": "Comment souhaitez-vous payer\xa0?",
    "ha": "Ta yaya kake so ka biya?",
    "ig": "Kedu otu ị chọrọ isi kwụọ ụgwọ?",
    "pcm": "How you wan take pay?",
    "yo": "Báwo ni o ṣe fẹ́ sanwó?",
}


async def get(shop: Shop, checkout: Checkout, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await shop.site.send("GET", checkout.target, named)


@pytest.mark.parametrize("code", HOW)
async def test_a_page_is_in_the_browsers_language(shop: Shop, code: str) -> None:
    page = await get(shop, await shop.sell(), Accept_Language=f"{code},en;q=0.5")
    html = page.body.decode()
    assert f'<html lang="{code}" dir="ltr">' in html
    assert f'<h2 id="action">{HOW[code]}</h2>' in html
    assert not markup.problems(html)
    assert "set-cookie" not in page.headers


async def test_the_language_that_a_customer_chooses_is_remembered(shop: Shop) -> None:
    checkout = await shop.sell()
    page = await get(shop, checkout, Accept_Language="ha")
    [chosen] = re.findall(
        r'<a href="([^"]+)" lang="fr" hreflang="fr">Français</a>', page.body.decode()
    )
    page = await shop.site.send("GET", _path(checkout) + chosen.replace("&amp;", "&"))
    assert HOW["fr"] in page.body.decode()
    assert page.cookies == {"manilla_language": "fr"}
    assert "httponly" in page.headers["set-cookie"]
    again = await get(shop, checkout, Accept_Language="ha", Cookie="manilla_language=fr")
    assert HOW["fr"] in again.body.decode()
    assert "set-cookie" not in again.headers
    for unknown in ("xx", "../fr", ""):
        page = await shop.site.send(
            "GET", f"{checkout.target}&lang={unknown}", {"Accept-Language": "yo"}
        )
        assert HOW["yo"] in page.body.decode()


def _path(checkout: Checkout) -> str:
    return checkout.target.partition("?")[0]


async def test_the_links_of_a_page_repeat_a_chosen_language(shop: Shop) -> None:
    checkout = await shop.sell()
    await shop.choose(checkout, "way:card")
    page = await shop.site.send("GET", checkout.target + "&lang=ig")
    targets = re.findall(
        r'(?:action|data-provider href|data-next|data-poll)="([^"]+)"', page.body.decode()
    )
    assert targets
    assert all(target.endswith("&amp;lang=ig") for target in targets)


async def test_the_status_and_errors_in_json_stay_in_english(shop: Shop) -> None:
    checkout = await shop.sell()
    for target in (checkout.at("status"), checkout.at("status")[:-1]):
        replies = [
            await get(shop, Checkout(target), **each) for each in ({}, {"Accept_Language": "fr"})
        ]
        assert replies[0].body == replies[1].body
    assert b"This link is not valid." in replies[0].body


async def test_an_error_is_in_the_customers_language(shop: Shop) -> None:
    checkout = await shop.sell()
    target = Checkout(checkout.at("choose")).target
    page = await shop.site.send("POST", target, {**FORM, **FRENCH}, b"method=nothing")
    assert page.status == 422
    assert "Veuillez en choisir une autre." in page.body.decode()


async def test_the_receipt_is_in_the_language_in_which_the_customer_paid(shop: Shop) -> None:
    merchant = await shop.merchant(Environment.PRODUCTION)
    await shop.change(merchant.new, MerchantUpdate(sends_receipts=True))
    for code, subject, amount in (
        ("fr", "Reçu de Ada Stores", "1 015,00 ₦"),
        ("en", "Receipt from Ada Stores", "₦1,015.00"),
        ("yo", "Rìsíìtì láti ọ̀dọ̀ Ada Stores", "₦1,015.00"),
    ):
        customer = new_email()
        checkout = await shop.sell(customer_email=customer)
        await get(shop, checkout, Accept_Language="ha")
        await get(shop, checkout, Accept_Language=code)
        await get(shop, Checkout(checkout.at("status")), Accept_Language="ig")
        await shop.pay(await shop.choose(checkout, HOSTED))
        await shop.is_settled(checkout)
        [letter] = await letters_to(shop.services.db, shop.services.letters, customer)
        assert letter.subject.startswith(subject)
        assert f'<html lang="{code}" dir="ltr">' in letter.html
        # The outbox stores facts with plain spaces.
        assert amount in letter.text
    await shop.change(merchant.new, MerchantUpdate(sends_receipts=False))


async def test_a_receipt_that_the_customer_requests_is_in_the_pages_language(shop: Shop) -> None:
    checkout = await shop.sell()
    await shop.pay(await shop.choose(checkout, HOSTED))
    await shop.is_settled(checkout)
    customer = new_email()
    target = Checkout(checkout.at("receipt")).target
    body = urlencode({"email": customer}).encode()
    assert (await shop.site.send("POST", target, {**FORM, **FRENCH}, body)).status == 303
    [letter] = await letters_to(shop.services.db, shop.services.letters, customer)
    assert "Votre paiement à Ada Stores a réussi." in letter.text
    assert "Ne plus recevoir les reçus de Ada Stores" in letter.html
    page = await shop.site.send("GET", target, FRENCH)
    assert "<dt>Frais de service</dt><dd><bdi>15,00\xa0₦</bdi></dd>" in page.body.decode()
    pdf = await shop.site.send("GET", Checkout(checkout.at("receipt.pdf")).target, FRENCH)
    assert b"/Lang (fr)" in pdf.body
    assert "Ce reçu est-il authentique" in read(pdf.body)


async def test_a_payment_link_is_in_the_customers_language(shop: Shop) -> None:
    link = await new_link(shop, amount_minor=None)
    page = await shop.site.send("GET", link.path, FRENCH)
    assert "Combien souhaitez-vous payer\xa0?" in page.body.decode()
    for wrong in ("1500,50", "1 500", "1.500,50", ""):
        refused = await submit(shop, link, FRENCH, amount=wrong)
        assert refused.status == 400
        assert "Saisissez un montant comme 1500.50" in refused.body.decode()
    link = await new_link(shop, amount_minor=None, single_use=True)
    assert (await submit(shop, link, FRENCH, amount="1500.50")).status == 303
    other = await submit(shop, link, FRENCH, amount="2000")
    assert other.status == 409
    assert "Un paiement de 1\u00a0500,50\xa0₦ avec ce lien est en cours." in other.body.decode()
    opened_payment = await payment_links.open_payment(shop.services.db, link)
    assert opened_payment is not None
    assert opened_payment.amount.minor == 150_050


class Longest(CustomerLanguage):
    """Each text in the language in which it is longest."""

    code = "longest"
    name = "The longest"

    def gettext(self, text: str) -> str:
        return max((each.gettext(text) for each in EVERY), key=len)

    def ngettext(self, one: str, many: str, count: int) -> str:
        return max((each.ngettext(one, many, count) for each in EVERY), key=len)


EVERY = list(language.languages().values())
# The elements that are wider or higher than their box, or that leave the window.
GROWN = """() => [...document.querySelectorAll("body *")].filter((each) => {
  const box = each.getBoundingClientRect(), style = getComputedStyle(each);
  if (!box.width || style.display === "inline" || each.closest("svg, .unseen")) return false;
  const isInside = box.left >= -1 && box.right <= innerWidth + 1;
  const isTooWide = each.scrollWidth > each.clientWidth + 1;
  const isTooHigh = each.scrollHeight > each.clientHeight + 2;
  return !isInside || isTooWide || isTooHigh;
}).map((each) => each.outerHTML.slice(0, 200))"""


@pytest.fixture(scope="module")
async def longest() -> AsyncIterator[None]:
    language.languages()[Longest.code] = Longest()
    yield
    del language.languages()[Longest.code]


async def _link_page(shop: Shop) -> str:
    return url_of(shop, await new_link(shop, amount_minor=None)) + "?"


async def _redirecting(shop: Shop) -> str:
    checkout = await shop.sell()
    await shop.choose(checkout, "way:card")
    return checkout.at("pay")


SHOWN = {
    **{name: arrange for name, (arrange, _) in PAGES.items() if name != "a provider is down"},
    "payment link": _link_page,
    "redirecting": _redirecting,
}
IN_SHORT_TESTS = ("methods", "transfer sent")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=() if each in IN_SHORT_TESTS else pytest.mark.long)
        for each in SHOWN
    ],
)
async def test_no_page_grows_beyond_its_box_with_the_longest_texts(
    shop: Shop, browser: Browser, longest: None, name: str
) -> None:
    address = f"{await SHOWN[name](shop)}&lang=longest"
    # Without scripts, pages stay open that scripts would leave.
    async with opened(browser, address, scripts=name != "redirecting") as page:
        await page.keyboard.press("Shift")
        for width in (320, 390, 1280):
            assert await overflow(page, width) == 0
            assert await grown(page) == []


async def grown(page: Page) -> list[str]:
    found: list[str] = await page.evaluate(GROWN)
    return found
