"""Every checkout page: its texts, size, layout and accessibility."""

import re
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from playwright.async_api import Browser, expect

from manilla.cases import cases
from manilla.cases.cases import CaseAction
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.payments.checkout import SandboxOutcome
from manilla.resolutions import resolutions
from tests.checkout.page_checks import accessibility_violations, opened, overflow
from tests.checkout.shop import ACCOUNT, HOSTED, Checkout, Shop
from tests.support.rows import first_short
from tests.web import markup

WEIGHT_MAX = 90_000  # bytes, including the font
LONG = "Membership of the reading club, with all that belongs to it. " * 1_000


async def _methods(shop: Shop) -> str:
    return (await shop.sell()).url


async def _long_words(shop: Shop) -> str:
    return (await shop.sell(description=LONG, payment_amount=987654321012.34)).url


async def _other_scripts(shop: Shop) -> str:
    return (await shop.sell(description="طلب رقم ١٠٤٢ \u200b" + "字" * 90)).url


async def _down(shop: Shop) -> str:
    checkout = await shop.sell()
    await shop.trip("a")
    return checkout.url


async def _closed(shop: Shop) -> str:
    return (await shop.sell(allow_payment_methods=["nothing like it"])).url


async def _blocked(shop: Shop) -> str:
    merchant = await shop.new_merchant()
    checkout = await shop.sell(merchant)
    await shop.change(merchant.new, MerchantUpdate(status=MerchantStatus.DISABLED))
    return checkout.url


async def _unfinished(shop: Shop) -> str:
    checkout = await shop.sell()
    await shop.choose(checkout, "way:card")
    return checkout.url


async def _waiting(shop: Shop) -> str:
    checkout = await shop.sell()
    await shop.choose(checkout, HOSTED)
    return checkout.at("waiting")


async def _other_way(shop: Shop) -> str:
    checkout = await shop.sell()
    await shop.choose(checkout, ACCOUNT)
    return checkout.at("methods")


async def _transfer(shop: Shop) -> str:
    checkout = await shop.sell()
    await shop.choose(checkout, ACCOUNT)
    return checkout.at("pay")


async def _sent(shop: Shop) -> str:
    return await _transfer(shop) + "&sent=1"


async def _held(shop: Shop) -> str:
    checkout = await shop.sell()
    charge = await shop.choose(checkout, ACCOUNT)
    await shop.pay(charge, amount=900)
    await shop.services.checkout.look_again(checkout.trx_id)
    return checkout.url


async def _returned(shop: Shop) -> str:
    checkout = await shop.sell()
    charge = await shop.choose(checkout, ACCOUNT)
    await shop.pay(charge, amount=900)
    await shop.services.checkout.look_again(checkout.trx_id)
    [case] = [
        each for each in await cases.cases(shop.services.db) if each.reference == charge.reference
    ]
    await resolutions.resolve(shop.services.db, case.id, "Agreed.", CaseAction.RETURN)
    return checkout.url


async def _sandbox(shop: Shop) -> str:
    return (await shop.sell_in_sandbox()).url


async def _test_card(shop: Shop) -> str:
    checkout = await shop.sell_in_sandbox()
    await shop.choose(checkout, "way:card")
    return checkout.at("sandbox")


async def _test_ussd(shop: Shop) -> str:
    checkout = await shop.sell_in_sandbox()
    await shop.choose(checkout, "way:ussd")
    return checkout.at("sandbox")


async def _test_transfer(shop: Shop) -> str:
    checkout = await shop.sell_in_sandbox()
    await shop.choose(checkout, "way:bank_transfer")
    return checkout.url


async def _closed_sandbox(shop: Shop) -> str:
    return (await shop.sell_in_sandbox(allow_payment_methods=["none of them"])).url


def _ended(outcome: SandboxOutcome) -> Callable[[Shop], Awaitable[str]]:
    async def arrange(shop: Shop) -> str:
        checkout = await shop.sell_in_sandbox()
        await shop.pretend(checkout, outcome)
        return checkout.url

    return arrange


async def _expired(shop: Shop) -> str:
    checkout = await shop.sell()
    await shop.expire(checkout)
    return checkout.url


async def _paid(shop: Shop) -> str:
    checkout = await shop.sell()
    await shop.pay(await shop.choose(checkout, HOSTED))
    await shop.is_settled(checkout)
    return checkout.url


async def _mailed(shop: Shop) -> str:
    return await _paid(shop) + "&mailed=1"


async def _receipt(shop: Shop) -> str:
    return Checkout(await _paid(shop)).at("receipt")


async def _legacy(shop: Shop) -> str:
    checkout = await shop.sell_through_legacy_api()
    await shop.pretend(checkout, SandboxOutcome.PAY)
    return checkout.url


async def _link_expired(shop: Shop) -> str:
    return shop.link(await shop.sell(), ends_in=timedelta(minutes=-1)).url


async def _link_altered(shop: Shop) -> str:
    return (await shop.sell()).url[:-1]


PAGES: dict[str, tuple[Callable[[Shop], Awaitable[str]], str]] = {
    "methods": (_methods, "How would you like to pay?"),
    "long words": (_long_words, "How would you like to pay?"),
    "other scripts": (_other_scripts, "How would you like to pay?"),
    "a provider is down": (_down, "How would you like to pay?"),
    "another way": (_other_way, "How would you like to pay?"),
    "nothing to offer": (_closed, "You cannot make this payment now"),
    "merchant blocked": (_blocked, "You cannot make this payment now"),
    "unfinished": (_unfinished, "Your card payment is not finished"),
    "waiting": (_waiting, "Waiting for your payment"),
    "transfer": (_transfer, "Make a bank transfer"),
    "transfer sent": (_sent, "Make a bank transfer"),
    "another amount came": (_held, "Your payment is being reviewed"),
    "money is returned": (_returned, "Your money is being returned"),
    "sandbox": (_sandbox, "How would you like to pay?"),
    "test card": (_test_card, "Pay ₦1,015.00"),
    "test ussd": (_test_ussd, "Pay ₦1,015.00"),
    "test transfer": (_test_transfer, "Make a bank transfer"),
    "nothing to offer in the sandbox": (_closed_sandbox, "You cannot make this payment now"),
    "success": (_ended(SandboxOutcome.PAY), "Payment successful"),
    "paid": (_paid, "Payment successful"),
    "receipt by email": (_mailed, "Payment successful"),
    "receipt": (_receipt, "Ada Stores"),
    "success without a way back": (_legacy, "Payment successful"),
    "declined": (_ended(SandboxOutcome.DECLINE), "Payment declined"),
    "insufficient funds": (_ended(SandboxOutcome.INSUFFICIENT_FUNDS), "Insufficient funds"),
    "canceled": (_ended(SandboxOutcome.CANCEL), "Payment canceled"),
    "expired": (_expired, "Payment expired"),
    "link expired": (_link_expired, "This link has expired"),
    "link altered": (_link_altered, "This link is not valid"),
}
# `make test` opens only this page in a browser, because its elements occur on no other page.
IN_SHORT_BROWSER_TESTS = ("methods",)


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        pytest.param(
            name,
            scheme,
            marks=[] if name in IN_SHORT_BROWSER_TESTS and scheme == "light" else pytest.mark.long,
        )
        for name in PAGES
        for scheme in ("light", "dark")
    ],
)
async def test_every_page_is_accessible_and_fits_every_screen(
    shop: Shop, browser: Browser, name: str, scheme: str
) -> None:
    arrange, heading = PAGES[name]
    address = await arrange(shop)
    async with opened(browser, address, scheme=scheme) as page:
        # Any key press stops the automatic redirect to the shop.
        await page.keyboard.press("Shift")
        await expect(page.get_by_role("heading", name=heading)).to_be_visible()
        await expect(page.get_by_role("note").first).to_have_text(
            "Development mode: no real money moves here."
        )
        assert await accessibility_violations(page) == []
        assert [await overflow(page, width) for width in (320, 390, 1280)] == [0, 0, 0]


@pytest.mark.parametrize("name", first_short(PAGES))
async def test_pages_have_their_heading_are_small_and_load_from_one_host(
    shop: Shop, name: str
) -> None:
    arrange, heading = PAGES[name]
    checkout = Checkout(await arrange(shop))
    page = await shop.site.send("GET", checkout.target)
    headings = re.findall(r"<h[12][^>]*>(.*?)</h[12]>", page.body.decode(), re.DOTALL)
    assert heading in [re.sub(r"<[^>]+>", "", each).strip() for each in headings]
    assert not markup.problems(page.body.decode())
    files = re.findall(rb'(?:src|<link [^>]*href)="([^"]+)"', page.body)
    assert len(files) == 5  # The files are the logo, two style sheets, the script and the font.
    sizes = [len((await shop.site.send("GET", file.decode())).body) for file in files]
    assert 1_000 < len(page.body) + sum(sizes) < WEIGHT_MAX


async def test_a_merchants_text_is_escaped(shop: Shop) -> None:
    checkout = await shop.sell(description="<script>alert(1)</script>{{ 7 * 7 }}")
    page = await shop.site.send("GET", checkout.target)
    assert b"&lt;script&gt;alert(1)&lt;/script&gt;{{ 7 * 7 }}" in page.body
    assert b"<script>alert" not in page.body


@pytest.mark.parametrize("name", first_short(PAGES))
async def test_pages_work_without_javascript(shop: Shop, browser: Browser, name: str) -> None:
    arrange, heading = PAGES[name]
    address = await arrange(shop)
    async with opened(browser, address, scripts=False) as page:
        await expect(page.get_by_role("heading", name=heading)).to_be_visible()
