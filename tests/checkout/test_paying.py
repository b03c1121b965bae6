"""A customer's complete checkout in a browser, from the shop's link back to the shop.

The providers are simulated. test_forms.py has faster tests of the forms over HTTP.
"""

import re
from datetime import timedelta

import pytest
from playwright.async_api import Browser, Page, Route, expect

from manilla.cases import cases
from manilla.cases.cases import CaseAction
from manilla.merchants.merchants import CommissionBearer, MerchantUpdate
from manilla.payments.checkout import MethodNotOffered, SandboxOutcome
from manilla.payments.payment import PaymentErrorCode, PaymentStatus
from manilla.resolutions import resolutions
from tests.checkout.page_checks import accessibility_violations, is_visibly_focused, opened
from tests.checkout.shop import ACCOUNT, HOSTED, Checkout, Shop
from tests.support.rows import first_short
from tests.support.waiting import until_true

# The tests in this module choose a gateway by name. test_ways.py tests ways to pay.
pytestmark = pytest.mark.usefixtures("every_gateway")

scripts_or_not = pytest.mark.parametrize(
    "scripts", first_short([True, False]), ids=["scripts", "no scripts"]
)
TARGET_PIXELS = 44
HIDDEN = "{ value: true, configurable: true }"

A_PAGE, B_PAGE, C_PAGE = (f"Provider {name}\N{RIGHT SINGLE QUOTATION MARK}s page" for name in "ABC")
ON_A = f"Card or bank transfer on {A_PAGE}"
ON_B, ON_C = (f"Card, bank transfer or USSD on {page}" for page in (B_PAGE, C_PAGE))
TO_ACCOUNT = "Bank transfer to an account for this payment only, with Provider A"


async def sees(page: Page, text: str) -> None:
    await expect(page.get_by_role("heading", name=text, exact=True)).to_be_visible()


async def press(page: Page, name: str) -> None:
    await page.get_by_role("button", name=name, exact=True).click()


@scripts_or_not
@pytest.mark.parametrize("button", first_short([ON_A, ON_B, ON_C]))
async def test_a_customer_pays_on_a_providers_page_and_comes_back(
    shop: Shop, browser: Browser, button: str, scripts: bool
) -> None:
    checkout = await shop.sell()
    async with opened(browser, checkout.url, scripts=scripts) as page:
        await press(page, button)
        await page.wait_for_url(f"{shop.simulator}/**")
        await press(page, "Pay ₦1,015.00")
        await page.get_by_role("link", name="Return").click()
        await page.wait_for_url(checkout.url)
        await sees(page, "Payment successful")
        await page.get_by_role("link", name="Return to Ada Stores").click()
        await expect(page).to_have_title("The shop")
        assert page.url.startswith(f"https://shop.example/thanks?order=7&trx_id={checkout.trx_id}")
        assert page.url.endswith("&status=success")
    assert (await shop.payment(checkout)).status is PaymentStatus.SUCCESS


@pytest.mark.long
@scripts_or_not
@pytest.mark.parametrize(
    ("card", "reason"),
    [
        ("The bank declines", "Your bank declined the payment."),
        ("Insufficient funds", "The account or card did not have enough money."),
    ],
)
async def test_a_declined_customer_sees_the_reason_and_pays_with_another_method(
    shop: Shop, browser: Browser, card: str, reason: str, scripts: bool
) -> None:
    checkout = await shop.sell()
    async with opened(browser, checkout.url, scripts=scripts) as page:
        await press(page, ON_A)
        await page.get_by_text(card).click()
        await press(page, "Pay ₦1,015.00")
        await page.get_by_role("link", name="Return").click()
        await sees(page, "How would you like to pay?")
        await expect(page.get_by_role("alert")).to_contain_text(reason)
        assert (await shop.payment(checkout)).status is PaymentStatus.PENDING
        await press(page, ON_C)
        await press(page, "Pay ₦1,015.00")
        await page.get_by_role("link", name="Return").click()
        await sees(page, "Payment successful")
    assert (await shop.payment(checkout)).status is PaymentStatus.SUCCESS


@pytest.mark.long
async def test_a_decline_appears_automatically(shop: Shop, browser: Browser) -> None:
    checkout = await shop.sell()
    charge = await shop.choose(checkout, HOSTED)
    async with opened(browser, checkout.url) as page:
        await sees(page, "Your payment is not finished")
        await shop.pay(charge, outcome="failed", reason="declined")
        await shop.is_settled(checkout)
        await expect(page.get_by_role("alert")).to_contain_text("Your bank declined the payment.")


@pytest.mark.long
async def test_a_wrong_amount_appears_automatically(shop: Shop, browser: Browser) -> None:
    checkout = await shop.sell()
    charge = await shop.choose(checkout, ACCOUNT)
    async with opened(browser, checkout.at("pay")) as page:
        await sees(page, "Make a bank transfer")
        await shop.pay(charge, amount=720)
        await shop.is_settled(checkout)
        await sees(page, "Your payment is being reviewed")
        await expect(page.get_by_text("We have received ₦720.00")).to_be_visible()
        await expect(page.get_by_text("Please do not pay again")).to_be_visible()
        [case] = [
            each
            for each in await cases.cases(shop.services.db)
            if each.reference == charge.reference
        ]
        await resolutions.resolve(
            shop.services.db, case.id, "Agreed with the customer.", CaseAction.RETURN
        )
        await sees(page, "Your money is being returned")


@pytest.mark.long
async def test_a_payment_made_elsewhere_updates_the_method_page(
    shop: Shop, browser: Browser
) -> None:
    checkout = await shop.sell()
    charge = await shop.choose(checkout, ACCOUNT)
    async with opened(browser, checkout.at("methods")) as page:
        await sees(page, "How would you like to pay?")
        await shop.pay(charge)
        await shop.is_settled(checkout)
        await sees(page, "Payment successful")


@pytest.mark.long
@scripts_or_not
@pytest.mark.parametrize("button", first_short([ON_A, ON_B, ON_C]))
async def test_canceling_on_a_providers_page_returns_to_the_methods(
    shop: Shop, browser: Browser, button: str, scripts: bool
) -> None:
    checkout = await shop.sell()
    async with opened(browser, checkout.url, scripts=scripts) as page:
        await press(page, button)
        await page.wait_for_url(f"{shop.simulator}/**")
        await page.get_by_role("button", name=re.compile("Cancel")).click()
        await page.get_by_role("link", name="Return").click()
        await sees(page, "Your payment is not finished")
        left = "You left without paying. Choose a payment method."
        await expect(page.get_by_role("alert")).to_contain_text(left)
        await press(page, TO_ACCOUNT)
        await sees(page, "Make a bank transfer")


@pytest.mark.long
async def test_a_customer_who_paid_but_returns_as_canceled_has_paid(
    shop: Shop, browser: Browser
) -> None:
    checkout = await shop.sell()
    charge = await shop.choose(checkout, HOSTED)
    await shop.pay(charge)
    async with opened(browser, checkout.at("return") + "&status=cancelled") as page:
        await sees(page, "Payment successful")


@pytest.mark.long
async def test_a_customer_who_returns_without_paying_can_continue_or_choose_again(
    shop: Shop, browser: Browser
) -> None:
    checkout = await shop.sell()
    async with opened(browser, checkout.url) as page:
        await press(page, ON_A)
        await page.wait_for_url(f"{shop.simulator}/**")
        await page.goto(checkout.at("return") + "&reference=x&trxref=y")
        assert page.url == checkout.at("waiting")
        await sees(page, "Waiting for your payment")
        await page.get_by_role("link", name=f"Continue on {A_PAGE}").click()
        await page.wait_for_url(f"{shop.simulator}/**")
        await page.goto(checkout.at("waiting"))
        await page.get_by_role("link", name="Choose another way to pay").click()
        await sees(page, "Your payment is not finished")
        await expect(page.get_by_text("If you have already paid, please wait.")).to_be_visible()
        await press(page, TO_ACCOUNT)
        await sees(page, "Make a bank transfer")


async def test_a_bank_transfer_appears_automatically(shop: Shop, browser: Browser) -> None:
    checkout = await shop.sell()
    async with opened(browser, checkout.url) as page:
        await press(page, TO_ACCOUNT)
        await expect(page.get_by_role("status").first).to_contain_text("Waiting for your transfer")
        charge = await shop.choose(checkout, ACCOUNT)
        await expect(page.get_by_text(str(charge.account_number))).to_be_visible()
        await shop.pay(charge)
        await shop.is_settled(checkout)
        await sees(page, "Payment successful")


@pytest.mark.long
@scripts_or_not
async def test_i_have_sent_the_money_succeeds_once_the_money_arrived(
    shop: Shop, browser: Browser, scripts: bool
) -> None:
    checkout = await shop.sell()
    charge = await shop.choose(checkout, ACCOUNT)
    async with opened(browser, checkout.url, scripts=scripts) as page:
        await press(page, "I have sent the money")
        await expect(page.get_by_text("We are waiting for your transfer,")).to_be_visible()
        await shop.pay(charge)
        await press(page, "Refresh")
        await sees(page, "Payment successful")


@pytest.mark.long
async def test_the_account_number_and_exact_amount_can_be_copied(
    shop: Shop, browser: Browser
) -> None:
    checkout = await shop.sell()
    charge = await shop.choose(checkout, ACCOUNT)
    async with opened(browser, checkout.at("pay")) as page:
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        for name, value in (
            ("Copy account number", charge.account_number),
            ("Copy amount", "1015.00"),
        ):
            await press(page, name)
            await expect(page.get_by_text(name.replace("Copy", "Copied")).first).to_be_attached()
            assert await page.evaluate("navigator.clipboard.readText()") == value


@pytest.mark.long
async def test_a_charge_being_opened_by_another_request_is_awaited(
    shop: Shop, browser: Browser
) -> None:
    checkout = await shop.sell()
    async with shop.opening(checkout), opened(browser, checkout.at("pay")) as page:
        await expect(page.get_by_text("We are preparing your payment.")).to_be_visible()
        await page.wait_for_url(f"{shop.simulator}/**")


@pytest.mark.long
@pytest.mark.parametrize(
    ("bearer", "lines"),
    first_short(
        [
            (
                CommissionBearer.CUSTOMER,
                ["Amount ₦1,000.00", "Payment fee ₦15.00"],
            ),
            (CommissionBearer.MERCHANT, []),
        ]
    ),
)
async def test_the_commission_is_shown_if_the_customer_pays_it(
    shop: Shop, browser: Browser, bearer: CommissionBearer, lines: list[str]
) -> None:
    merchant = await shop.new_merchant()
    await shop.change(merchant.new, MerchantUpdate(commission_bearer=bearer))
    await shop.fund(merchant)
    checkout = await shop.sell(merchant)
    async with opened(browser, checkout.url) as page:
        shown = await page.locator(".lines div").all_inner_texts()
        assert [" ".join(line.split()) for line in shown] == lines
        total = "₦1,015.00" if lines else "₦1,000.00"
        await expect(page.get_by_role("heading", level=1)).to_have_text(f"Amount to pay {total}")
        await expect(page.get_by_text("Two sandals")).to_be_visible()


@pytest.mark.long
async def test_a_provider_that_does_not_respond_returns_the_customer_to_the_methods(
    shop: Shop, browser: Browser
) -> None:
    checkout = await shop.sell()
    await shop.provider("a/faults", {"outage": True})
    async with opened(browser, checkout.url) as page:
        await press(page, ON_A)
        alert = page.get_by_role("alert")
        await expect(alert).to_contain_text("is unavailable right now")
        await expect(alert).to_be_focused()
        await press(page, ON_B)
        await page.wait_for_url(f"{shop.simulator}/**")


@pytest.mark.long
async def test_a_provider_that_is_down_is_shown_and_cannot_be_chosen(
    shop: Shop, browser: Browser
) -> None:
    checkout = await shop.sell()
    await shop.trip("a")
    async with opened(browser, checkout.url) as page:
        buttons = page.get_by_role("button", name="Provider A")
        await expect(buttons).to_have_count(2)
        for button in await buttons.all():
            await expect(button).to_be_disabled()
            await expect(button).to_contain_text("Currently unavailable.")
        await expect(page.get_by_role("button", name="Provider B").first).to_be_enabled()


@pytest.mark.long
async def test_a_method_disabled_meanwhile_is_rejected_with_a_reason(
    shop: Shop, browser: Browser
) -> None:
    merchant = await shop.new_merchant()
    checkout = await shop.sell(merchant)
    async with opened(browser, checkout.url) as page:
        await shop.change(merchant.new, MerchantUpdate(gateways=["providerb-ngn"]))
        await press(page, ON_A)
        await expect(page.get_by_role("alert")).to_contain_text("no longer available")
        await expect(page.locator(".method")).to_have_count(1)
        await page.goto(page.url)  # The test sends the request directly, without the form.
        assert page.url == checkout.url


@pytest.mark.long
async def test_the_last_of_several_choices_wins(shop: Shop, browser: Browser) -> None:
    checkout = await shop.sell()
    await shop.choose(checkout, HOSTED)
    await shop.choose(checkout, "providerb-ngn")
    async with opened(browser, checkout.at("methods")) as page:
        await press(page, ON_A)
        await page.wait_for_url(f"{shop.simulator}/a/**")


async def test_a_double_click_creates_one_charge(shop: Shop, browser: Browser) -> None:
    checkout = await shop.sell()
    async with opened(browser, checkout.url) as page:
        await page.get_by_role("button", name=TO_ACCOUNT).dblclick()
        await sees(page, "Make a bank transfer")
    assert await shop.tries(checkout) == 1


@pytest.mark.long
@scripts_or_not
async def test_a_customer_cancels_and_goes_back(
    shop: Shop, browser: Browser, scripts: bool
) -> None:
    checkout = await shop.sell()
    async with opened(browser, checkout.url, scripts=scripts) as page:
        await press(page, "Cancel and go back to Ada Stores")
        await sees(page, "Payment canceled")
        if scripts:
            await expect(page.get_by_role("status")).to_contain_text("You will return in 5 seconds")
        await page.get_by_role("link", name="Return to Ada Stores").click()
        assert page.url.startswith(f"https://shop.example/cart?trx_id={checkout.trx_id}&")
        assert page.url.endswith("&status=failed")
    assert (await shop.payment(checkout)).error_code is PaymentErrorCode.PAYMENT_CANCELED


@pytest.mark.long
async def test_a_payment_decided_elsewhere_shows_its_outcome(shop: Shop, browser: Browser) -> None:
    checkout = await shop.sell()
    async with opened(browser, checkout.url) as page:
        charge = await shop.choose(checkout, HOSTED)
        await shop.pay(charge)
        await shop.is_settled(checkout)
        await press(page, ON_A)
        await sees(page, "Payment successful")
        assert page.url == checkout.url


@scripts_or_not
async def test_the_sandbox_has_the_pages_of_production(
    shop: Shop, browser: Browser, scripts: bool
) -> None:
    checkout = await shop.sell_in_sandbox()
    async with opened(browser, checkout.url, scripts=scripts) as page:
        await sees(page, "How would you like to pay?")
        await expect(page.get_by_text("Sandbox: no real money")).to_be_visible()
        await press(page, ON_A)
        await sees(page, "Pay ₦1,015.00")
        assert await accessibility_violations(page) == [] if scripts else True
        await page.get_by_text("The bank declines").click()
        await press(page, "Pay ₦1,015.00")
        await expect(page.get_by_role("alert")).to_contain_text("Your bank declined the payment.")
        await press(page, ON_B)
        await page.get_by_role("link", name="Cancel payment").click()
        await expect(page.get_by_role("alert")).to_contain_text("You left without paying.")
        await press(page, TO_ACCOUNT)
        await expect(page.get_by_text("0000000000")).to_be_visible()
        await press(page, "Send a test transfer")
        await sees(page, "Payment successful")


@pytest.mark.parametrize(
    ("button", "title", "code"),
    first_short(
        [
            ("Pay", "Payment successful", None),
            ("Decline", "Payment declined", PaymentErrorCode.PAYMENT_DECLINED),
            ("Insufficient funds", "Insufficient funds", PaymentErrorCode.INSUFFICIENT_FUNDS),
            ("Cancel", "Payment canceled", PaymentErrorCode.PAYMENT_CANCELED),
        ]
    ),
)
async def test_a_developer_can_end_a_sandbox_payment_with_every_outcome(
    shop: Shop, browser: Browser, button: str, title: str, code: PaymentErrorCode | None
) -> None:
    checkout = await shop.sell_in_sandbox()
    async with opened(browser, checkout.url) as page:
        await page.get_by_text("end this payment now").click()
        await press(page, button)
        await sees(page, title)
    assert (await shop.payment(checkout)).error_code is code


@pytest.mark.long
async def test_the_sandbox_shows_when_a_payment_completes(shop: Shop, browser: Browser) -> None:
    checkout = await shop.sell_in_sandbox()
    async with opened(browser, checkout.url) as page:
        await expect(page.get_by_text("this payment waits while this page is open")).to_be_visible()
        await shop.pretend(checkout, SandboxOutcome.PAY)  # the worker would do this
        await sees(page, "Payment successful")


async def test_the_sandbox_offers_no_outcome_without_a_method(shop: Shop) -> None:
    checkout = await shop.sell_in_sandbox(allow_payment_methods=["none of them"])
    for outcome in SandboxOutcome:
        with pytest.raises(MethodNotOffered):
            await shop.services.checkout.pretend(checkout.trx_id, outcome)
    assert (await shop.payment(checkout)).status is PaymentStatus.PENDING


async def test_a_success_redirects_back_and_announces_it(shop: Shop, browser: Browser) -> None:
    async with opened(browser, "about:blank") as page:
        checkout = await _succeed(shop, page)
        await expect(page.get_by_role("status")).to_contain_text("You will return in 5 seconds.")
        await page.clock.fast_forward(5_500)
        await page.wait_for_url(re.compile("https://shop.example/thanks"))
        assert checkout.trx_id in page.url


@pytest.mark.long
async def test_a_success_page_stays_once_the_customer_interacts(
    shop: Shop, browser: Browser
) -> None:
    async with opened(browser, "about:blank") as page:
        checkout = await _succeed(shop, page)
        await page.mouse.click(5, 300)
        await page.clock.fast_forward(20_000)
        await expect(page.get_by_text("You will return in 5 seconds.")).to_be_hidden()
        assert page.url == checkout.url


async def test_the_first_tap_on_a_link_of_the_success_page_follows_it(
    shop: Shop, browser: Browser
) -> None:
    """The tap also hides the note above the links. The links must not move away from the tap."""
    async with opened(browser, "about:blank") as page:
        await page.set_viewport_size({"width": 390, "height": 844})
        checkout = await _succeed(shop, page)
        async with page.expect_download() as download:
            await page.get_by_role("link", name="Download PDF").click()
        assert (await download.value).suggested_filename.endswith(".pdf")
        await page.goto(checkout.url)
        await page.get_by_role("link", name="View receipt").click()
        await expect(
            page.get_by_role("link", name="Check that this receipt is genuine")
        ).to_be_visible()


async def _succeed(shop: Shop, page: Page) -> Checkout:
    checkout = await shop.sell_in_sandbox()
    await shop.pretend(checkout, SandboxOutcome.PAY)
    await page.clock.install()
    await page.goto(checkout.url)
    return checkout


@pytest.mark.long
async def test_an_open_page_shows_when_its_link_expires(shop: Shop, browser: Browser) -> None:
    checkout = shop.link(await shop.sell(), ends_in=timedelta(seconds=3))
    async with opened(browser, checkout.url) as page:
        await sees(page, "How would you like to pay?")
        await sees(page, "This link has expired")


async def test_a_hidden_page_does_not_poll(shop: Shop, browser: Browser) -> None:
    checkout = await shop.sell()
    await shop.choose(checkout, ACCOUNT)
    asked: list[str] = []
    async with opened(browser, "about:blank") as page:
        await page.route("**/status?**", lambda route: _ask(asked, route))
        await page.clock.install()
        await page.add_init_script(f"Object.defineProperty(document, 'hidden', {HIDDEN})")
        await page.goto(checkout.at("pay"))
        await page.clock.fast_forward(60_000)
        assert asked == []
        await page.evaluate(
            "delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))"
        )
        await until_true(lambda: bool(asked))
        assert asked[0] == checkout.at("status")


async def _ask(asked: list[str], route: Route) -> None:
    asked.append(route.request.url)
    await route.continue_()


async def test_everything_is_reachable_by_keyboard_with_visible_focus(
    shop: Shop, browser: Browser
) -> None:
    checkout = await shop.sell()
    async with opened(browser, checkout.url) as page:
        for name in ["Provider A", "Provider A", "Provider B", "Provider B", "Provider C"]:
            await page.keyboard.press("Tab")
            await expect(page.locator(":focus")).to_contain_text(name)
            assert await is_visibly_focused(page)
        await page.keyboard.press("Tab")
        await expect(page.locator(":focus")).to_contain_text("Cancel and go back")
        await page.keyboard.press("Enter")
        await sees(page, "Payment canceled")


@pytest.mark.long
@pytest.mark.parametrize("page_name", ["methods", "pay"])
async def test_tap_targets_are_large_enough(shop: Shop, browser: Browser, page_name: str) -> None:
    checkout = await shop.sell()
    await shop.choose(checkout, ACCOUNT)
    async with opened(browser, checkout.at(page_name), width=320) as page:
        for each in await page.locator("button, a.button, .leave a").all():
            box = await each.bounding_box()
            assert box is not None
            assert min(box["width"], box["height"]) >= TARGET_PIXELS


@pytest.mark.long
async def test_a_merchants_texts_are_escaped(shop: Shop, browser: Browser) -> None:
    words = "<script>alert(1)</script><img src=x onerror=alert(2)> \u200b₦5{{ 7 * 7 }}"
    checkout = await shop.sell(description=words)
    async with opened(browser, checkout.url) as page:
        shown = await page.locator(".words").inner_text()
        assert shown == words.replace("\u200b", "")


@pytest.mark.long
async def test_a_long_description_is_collapsed(shop: Shop, browser: Browser) -> None:
    checkout = await shop.sell(description="One line.\n" * 30 + "The end.")
    async with opened(browser, checkout.url) as page:
        await expect(page.get_by_text("The end.")).to_be_hidden()
        await page.get_by_text("Show all").click()
        await expect(page.get_by_text("The end.")).to_be_visible()
