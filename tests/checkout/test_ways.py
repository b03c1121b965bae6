"""A customer chooses a way to pay that several gateways offer."""

import pytest
from playwright.async_api import Browser, Page, expect

from manilla.payments.payment import PaymentStatus
from tests.checkout.page_checks import opened
from tests.checkout.shop import Shop
from tests.support.rows import first_short

PAGE = "Card Verve, Mastercard or Visa"
TRANSFER = "Bank transfer To an account for this payment only"
USSD = "USSD Dial a code from your bank"

scripts_or_not = pytest.mark.parametrize(
    "scripts", first_short([True, False]), ids=["scripts", "no scripts"]
)


async def entries(page: Page) -> list[str]:
    shown = await page.locator(".method .label").all_inner_texts()
    return [" ".join(text.split()) for text in shown]


async def press(page: Page, name: str) -> None:
    await page.get_by_role("button", name=name, exact=True).click()


async def test_one_entry_is_shown_for_each_way_to_pay(shop: Shop, browser: Browser) -> None:
    checkout = await shop.sell()
    async with opened(browser, checkout.url) as page:
        assert await entries(page) == ["Card Verve, Mastercard or Visa verve VISA", TRANSFER, USSD]
        codes = await page.get_by_role("button", name=PAGE).get_attribute("data-gateways")
        assert codes == "providera-ngn providerb-ngn providerc-ngn"


@scripts_or_not
async def test_if_a_gateway_fails_the_customer_pays_with_the_next_without_noticing(
    shop: Shop, browser: Browser, scripts: bool
) -> None:
    checkout = await shop.sell()
    await shop.provider("a/faults", {"outage": True})
    async with opened(browser, checkout.url, scripts=scripts) as page:
        await press(page, PAGE)
        await page.wait_for_url(f"{shop.simulator}/b/**")
        await press(page, "Pay ₦1,015.00")
        await page.get_by_role("link", name="Return").click()
        await expect(page.get_by_role("heading", name="Payment successful")).to_be_visible()
    assert (await shop.payment(checkout)).status is PaymentStatus.SUCCESS


@pytest.mark.long
@scripts_or_not
async def test_after_a_decline_the_same_way_leads_to_another_gateway(
    shop: Shop, browser: Browser, scripts: bool
) -> None:
    checkout = await shop.sell()
    async with opened(browser, checkout.url, scripts=scripts) as page:
        await press(page, PAGE)
        await page.wait_for_url(f"{shop.simulator}/a/**")
        await page.get_by_text("The bank declines").click()
        await press(page, "Pay ₦1,015.00")
        await page.get_by_role("link", name="Return").click()
        await expect(page.get_by_role("alert")).to_contain_text(
            "Your bank declined the payment. Try another card, or choose another way to pay."
        )
        await press(page, PAGE)
        await page.wait_for_url(f"{shop.simulator}/b/**")


@pytest.mark.long
async def test_a_customer_who_left_the_page_of_a_gateway_gets_another(
    shop: Shop, browser: Browser
) -> None:
    checkout = await shop.sell()
    async with opened(browser, checkout.url) as page:
        await press(page, PAGE)
        await page.wait_for_url(f"{shop.simulator}/a/**")
        await page.go_back()
        await expect(page.get_by_role("heading", name="not finished")).to_have_text(
            "Your card payment is not finished"
        )
        await press(page, PAGE)
        await page.wait_for_url(f"{shop.simulator}/b/**")


@pytest.mark.long
async def test_a_way_stays_available_while_one_of_its_gateways_responds(
    shop: Shop, browser: Browser
) -> None:
    checkout = await shop.sell()
    await shop.trip("a")
    await shop.trip("b")
    async with opened(browser, checkout.url) as page:
        await expect(page.get_by_role("button", name=PAGE)).to_be_enabled()
        await expect(page.get_by_role("button", name="Bank transfer")).to_be_enabled()
        await press(page, PAGE)
        await page.wait_for_url(f"{shop.simulator}/c/**")


async def test_a_form_that_names_a_gateway_is_still_accepted(shop: Shop) -> None:
    checkout = await shop.sell()
    path = checkout.at("choose")
    target = path[path.index("/checkout/") :]
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    reply = await shop.site.send("POST", target, form, b"method=providerb-ngn")
    assert reply.status == 303
    charge = (await shop.services.checkout.view(checkout.trx_id)).charge
    assert charge is not None
    assert charge.method_code == "providerb-ngn"


@pytest.mark.parametrize("seen", first_short(["", "x", "-1", "²", "9" * 30]))
async def test_an_invalid_number_of_the_seen_charge_is_ignored(shop: Shop, seen: str) -> None:
    checkout = await shop.sell()
    path = checkout.at("choose")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    body = f"method=providerb-ngn&seen={seen}".encode()
    reply = await shop.site.send("POST", path[path.index("/checkout/") :], form, body)
    assert reply.status == 303
