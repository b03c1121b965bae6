"""A customer transfers a wrong amount, and sees the amounts received, still due and returned."""

import pytest
from playwright.async_api import Browser, Page, expect

from manilla.kit.environment import Environment
from manilla.merchants import merchants
from manilla.merchants.merchants import MerchantUpdate, OverpaidRule, UnderpaidRule
from tests.checkout.page_checks import accessibility_violations, opened
from tests.checkout.shop import ACCOUNT, Checkout, Shop
from tests.support.rows import first_short

RULES = MerchantUpdate(overpaid=OverpaidRule.SETTLE, underpaid=UnderpaidRule.ASK)
HOLD = MerchantUpdate(overpaid=OverpaidRule.HOLD, underpaid=UnderpaidRule.HOLD)


async def _sell(shop: Shop, rules: MerchantUpdate) -> Checkout:
    merchant = await shop.merchant(Environment.PRODUCTION)
    await merchants.change(shop.services.db, shop.services.keyring, merchant.new.id, rules)
    return await shop.sell()


async def _transfer(shop: Shop, checkout: Checkout, amount: int) -> None:
    await shop.pay(await shop.choose(checkout, ACCOUNT), amount=amount)
    await shop.is_settled(checkout)


async def _sees(page: Page, *texts: str) -> None:
    for text in texts:
        await expect(page.locator("main")).to_contain_text(text)


@pytest.mark.parametrize(
    ("amount", "difference"),
    first_short([(720, "Less than due ₦295.00"), (1265, "More than due ₦250.00")]),
)
async def test_a_held_amount_is_in_the_header_and_the_reference_can_be_copied(
    shop: Shop, browser: Browser, amount: int, difference: str
) -> None:
    checkout = await _sell(shop, HOLD)
    await _transfer(shop, checkout, amount)
    async with opened(browser, checkout.url) as page:
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await expect(page.get_by_role("heading", level=1)).to_contain_text(f"Received ₦{amount:,}")
        await _sees(page, "Amount due", "₦1,015.00", *difference.rsplit(" ", 1))
        await expect(page.get_by_text("Amount to pay")).to_have_count(0)
        await page.get_by_role("button", name="Copy reference").click()
        assert await page.evaluate("navigator.clipboard.readText()") == checkout.trx_id
        assert await accessibility_violations(page) == []


@pytest.mark.parametrize("scripts", first_short([True, False]))
async def test_a_customer_who_paid_less_is_asked_for_the_rest_and_pays_it(
    shop: Shop, browser: Browser, scripts: bool
) -> None:
    checkout = await _sell(shop, RULES)
    await _transfer(shop, checkout, 715)
    async with opened(browser, checkout.url, scripts=scripts) as page:
        await expect(page.get_by_role("heading", level=1)).to_contain_text("Rest to pay ₦300.00")
        await _sees(page, "Received", "₦715.00", "Pay the rest before the time runs out.")
        if scripts:
            assert await accessibility_violations(page) == []
        await page.get_by_role("button", name="Bank transfer").first.click()
        await _sees(page, "Make a bank transfer", "Rest to pay", "₦300.00")
        await shop.pay(await shop.choose(checkout, ACCOUNT))
        await shop.is_settled(checkout)
        await page.goto(checkout.url)
        await _sees(page, "Payment successful", "₦1,015.00")


@pytest.mark.long
async def test_a_customer_who_paid_more_sees_what_comes_back(shop: Shop, browser: Browser) -> None:
    checkout = await _sell(shop, RULES)
    await _transfer(shop, checkout, 1265)
    async with opened(browser, checkout.url) as page:
        await _sees(page, "Payment successful", "₦1,265.00", "Returned to you", "₦250.00")
        await expect(page.get_by_role("button", name="Copy reference")).to_be_visible()


async def test_a_customer_whose_part_comes_back_sees_it(shop: Shop, browser: Browser) -> None:
    checkout = await _sell(shop, RULES)
    await _transfer(shop, checkout, 715)
    await shop.expire(checkout)
    async with opened(browser, checkout.url) as page:
        await _sees(page, "Payment expired", "Please do not send the rest.")
        await _sees(page, "Received", "We are returning ₦715.00 to the account")
        await expect(page.get_by_text("when the money arrives")).to_have_count(0)


async def test_a_developer_tries_wrong_amounts_in_the_sandbox(shop: Shop, browser: Browser) -> None:
    merchant = await shop.merchant(Environment.SANDBOX)
    await shop.change(merchant.new, RULES)
    checkout = await shop.sell_in_sandbox()
    async with opened(browser, checkout.url) as page:
        await _sends(page, "Send less")
        await _sees(page, "Rest to pay", "Then it fails automatically.")
        await expect(page.get_by_text("end this payment now")).to_have_count(0)
        await shop.change(merchant.new, HOLD)
        await _sends(page, "Send more")
        await _sees(page, "Your rule holds this amount for review", "Make a bank transfer")
        await shop.change(merchant.new, RULES)
        checkout = await shop.sell_in_sandbox()
        await page.goto(checkout.url)
        await _sends(page, "after the time has run out")
        await _sees(page, "Payment expired", "The late test transfer arrives in a few seconds")
        assert await accessibility_violations(page) == []


async def _sends(page: Page, button: str) -> None:
    await page.get_by_role("button", name="Bank transfer").first.click()
    await page.get_by_text("send a wrong amount").click()
    await page.get_by_role("button", name=button).click()
