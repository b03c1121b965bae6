"""The pages about shares in a browser, on a phone and on a screen."""

import pytest
from playwright.async_api import Browser

from manilla.merchants.merchants import CommissionBearer
from tests.checkout.page_checks import accessibility_violations, opened
from tests.dashboard.test_share_pages import user_of
from tests.prices.building import CARD, line, plan, tax
from tests.prices.conftest import UsePrices, use_prices
from tests.splits.conftest import production, shop, simulator, splits
from tests.splits.steps import Splits, percent
from tests.support.client import Site

__all__ = ["production", "shop", "simulator", "splits", "use_prices"]

MINUS = "\N{MINUS SIGN}"


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
async def test_an_owner_invites_a_receiver_and_releases_its_share(
    splits: Splits, site: Site, browser: Browser, use_prices: UsePrices, width: int, scheme: str
) -> None:
    base = splits.shop.services.base_url + "/dashboard"
    shares = f"{base}/production/shares"
    stranger = await splits.stranger("Chidi Gas")
    owner = await user_of(splits, site, splits.owner)
    receiver = await user_of(splits, site, stranger)
    use_prices(splits.owner, plan(line(CARD)), tax())
    await splits.shop.set_commission("0", CommissionBearer.MERCHANT)
    await splits.shop.fund("1000")

    async with opened(browser, f"{base}/sign-in", width=width, scheme=scheme) as page:
        await owner.enter(page.context)
        await page.goto(shares)
        await page.get_by_label("Merchant number").fill(str(stranger))
        await page.get_by_role("button", name="Invite receiver").click()
        await page.get_by_text(f"Merchant {stranger} can now accept your invitation.").wait_for()
        await page.get_by_label("Name").fill("Branch Yaba")
        await page.get_by_role("button", name="Create sub-account").click()
        await page.get_by_text("Sub-account Branch Yaba created.").wait_for()
        assert await accessibility_violations(page) == []

    async with opened(browser, f"{base}/sign-in", width=width, scheme=scheme) as page:
        await receiver.enter(page.context)
        await page.goto(shares)
        await page.get_by_role("button", name="Accept").click()
        await page.get_by_text("Accepted.").wait_for()
        split = {"receivers": [percent(stranger, 30)], "hold": "release", "fees": "proportional"}
        paid = await splits.pay(split, 10_000)
        [share] = await splits.shares(paid)
        await page.goto(f"{shares}/{share.trx_id}")
        await page.get_by_text("until the merchant releases it").wait_for()
        assert await accessibility_violations(page) == []

    async with opened(browser, f"{base}/sign-in", width=width, scheme=scheme) as page:
        await owner.enter(page.context)
        await page.goto(f"{base}/production/payments/{paid.started.trx_id}")
        # 10,000 without the fee of 250 and its tax of 18.75, and 30 % of that.
        await page.get_by_text(f"{MINUS}₦2,919.37").wait_for()
        await page.get_by_text(f"{MINUS}₦18.75").wait_for()
        await page.get_by_text("₦6,811.88 was credited to your wallet.").wait_for()
        assert await accessibility_violations(page) == []
        await page.get_by_role("button", name="Release held shares").click()
        await page.get_by_text("The shares were released.").wait_for()
    assert await splits.balance(stranger) == 2919.37
