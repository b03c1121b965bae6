"""The pages about a payout that moved to another rail, for administrators and merchants."""

from playwright.async_api import Browser

from tests.checkout.page_checks import accessibility_violations, overflow
from tests.payouts.routing.routed import REFUSED, RoutedPayouts
from tests.support.client import Site
from tests.web.signed_in_user import administrator, member


async def _moved(routed: RoutedPayouts) -> str:
    trx_id = await routed.pay_out()
    await routed.plan("a", REFUSED)
    await routed.simulator.run_jobs()
    assert await routed.rails(trx_id) == ["providera", "providerb"]
    return trx_id


async def test_the_console_shows_each_attempt_and_why_the_payout_moved(
    routed: RoutedPayouts, site: Site, browser: Browser
) -> None:
    trx_id = await _moved(routed)
    user = await administrator(routed.services, site, f"{trx_id}@example.com")
    text = (await user.get(f"/transactions/{trx_id}")).body.decode()
    assert text.index("1. Provider A") < text.index("2. Provider B")
    assert "Not enabled" in text

    context = await browser.new_context(viewport={"width": 1280, "height": 844})
    await user.enter(context)
    page = await context.new_page()
    await page.goto(f"{routed.services.base_url}/console/transactions/{trx_id}")
    assert await accessibility_violations(page) == []
    assert [await overflow(page, width) for width in (390, 1280)] == [0, 0]
    await context.close()


async def test_the_merchant_sees_that_it_moved_and_no_provider(
    routed: RoutedPayouts, site: Site
) -> None:
    trx_id = await _moved(routed)
    owner = await member(routed.services, site, routed.payer.merchant.new.id)
    text = (await owner.get(f"/production/payouts/{trx_id}")).body.decode()
    assert "another route" in text
    assert "Not enabled" not in text
    assert "providera:" not in text
