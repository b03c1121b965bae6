"""The checkout forms over HTTP. test_paying.py tests the checkout in a browser."""

import re
from html import unescape

import pytest

from manilla.merchants.merchants import CommissionBearer, MerchantUpdate
from manilla.payments.checkout import SandboxOutcome
from manilla.payments.payment import PaymentErrorCode, PaymentStatus
from tests.checkout.shop import ACCOUNT, HOSTED, Checkout, Shop

FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html,*/*"}


class Customer:
    """A customer who submits forms, follows redirects within checkout, and reads the last page."""

    def __init__(self, shop: Shop, checkout: Checkout) -> None:
        self._site, self._checkout = shop.site, checkout
        self.html = ""

    @property
    def text(self) -> str:
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", self.html)).split())

    async def open(self, page: str = "", more: str = "") -> "Customer":
        address = self._checkout.at(page) if page else self._checkout.url
        return await self._send("GET", Checkout(address).target + more)

    async def submit(self, action: str, body: str = "") -> "Customer":
        return await self._send("POST", Checkout(self._checkout.at(action)).target, body)

    async def _send(self, method: str, target: str, body: str = "") -> "Customer":
        reply = await self._site.send(method, target, FORM, body.encode())
        while reply.status == 303:
            target = reply.location[reply.location.index("/checkout/") :]
            reply = await self._site.send("GET", target, FORM)
        self.html = reply.body.decode()
        return self


async def test_a_customer_who_chooses_a_gateway_is_sent_to_its_page(shop: Shop) -> None:
    checkout = await shop.sell()
    customer = await Customer(shop, checkout).submit("choose", f"method={HOSTED}")
    assert f'<meta http-equiv="refresh" content="0;url={shop.simulator}/a/' in customer.html


async def test_a_gateway_that_does_not_respond_is_reported_on_the_methods_page(shop: Shop) -> None:
    checkout = await shop.sell()
    await shop.provider("a/faults", {"outage": True})
    customer = await Customer(shop, checkout).submit("choose", f"method={HOSTED}")
    assert "is unavailable right now" in customer.text
    assert "How would you like to pay?" in customer.text


async def test_a_gateway_that_is_down_cannot_be_chosen(shop: Shop) -> None:
    checkout = await shop.sell(allow_payment_methods=["providera-ngn"])
    await shop.trip("a")
    customer = await Customer(shop, checkout).open()
    buttons = re.findall(r'<button class="method"[^>]*>', customer.html)
    assert buttons
    assert all(button.endswith(" disabled>") for button in buttons)
    assert "Currently unavailable." in customer.text


async def test_a_gateway_disabled_meanwhile_is_rejected_with_a_reason(shop: Shop) -> None:
    merchant = await shop.new_merchant()
    checkout = await shop.sell(merchant)
    await shop.change(merchant.new, MerchantUpdate(gateways=["providerb-ngn"]))
    customer = await Customer(shop, checkout).submit("choose", f"method={HOSTED}")
    assert "no longer available" in customer.text
    gateways = re.findall(r'data-gateways="([^"]*)"', customer.html)
    assert set(gateways) == {"providerb-ngn"}


async def test_a_choice_after_the_payment_shows_its_outcome(shop: Shop) -> None:
    checkout = await shop.sell()
    await shop.pay(await shop.choose(checkout, HOSTED))
    await shop.is_settled(checkout)
    customer = await Customer(shop, checkout).submit("choose", f"method={HOSTED}")
    assert "Payment successful" in customer.text


@pytest.mark.parametrize("status", ["success", "cancelled"])
async def test_a_customer_who_returns_sees_what_the_provider_says(shop: Shop, status: str) -> None:
    checkout = await shop.sell()
    charge = await shop.choose(checkout, HOSTED)
    customer = Customer(shop, checkout)
    await customer.open("return", f"&status={status}")
    assert "Payment successful" not in customer.text
    await shop.pay(charge)
    await customer.open("return", f"&status={status}")
    assert "Payment successful" in customer.text


async def test_i_have_sent_the_money_asks_the_provider(shop: Shop) -> None:
    checkout = await shop.sell()
    charge = await shop.choose(checkout, ACCOUNT)
    customer = await Customer(shop, checkout).submit("sent")
    assert "We are waiting for your transfer," in customer.text
    await shop.pay(charge)
    await customer.submit("sent")
    assert "Payment successful" in customer.text


async def test_a_customer_cancels(shop: Shop) -> None:
    checkout = await shop.sell()
    customer = await Customer(shop, checkout).submit("cancel")
    assert "Payment canceled" in customer.text
    [back] = re.findall(r'href="(https://shop\.example/cart[^"]*)"', customer.html)
    assert unescape(back).startswith(f"https://shop.example/cart?trx_id={checkout.trx_id}&")
    assert unescape(back).endswith("&status=failed")
    assert (await shop.payment(checkout)).error_code is PaymentErrorCode.PAYMENT_CANCELED


@pytest.mark.parametrize(
    ("bearer", "lines", "total"),
    [
        (
            CommissionBearer.CUSTOMER,
            "Amount ₦1,000.00 Payment fee ₦15.00",
            "₦1,015.00",
        ),
        (CommissionBearer.MERCHANT, None, "₦1,000.00"),
    ],
)
async def test_the_commission_is_shown_if_the_customer_pays_it(
    shop: Shop, bearer: CommissionBearer, lines: str | None, total: str
) -> None:
    merchant = await shop.new_merchant()
    await shop.change(merchant.new, MerchantUpdate(commission_bearer=bearer))
    await shop.fund(merchant)
    customer = await Customer(shop, await shop.sell(merchant)).open()
    assert f"Amount to pay {total}" in customer.text
    assert ("Payment fee" in customer.text) == (lines is not None)
    assert (lines or "") in customer.text


@pytest.mark.parametrize(
    ("outcome", "title", "code"),
    [
        (SandboxOutcome.PAY, "Payment successful", None),
        (SandboxOutcome.DECLINE, "Payment declined", PaymentErrorCode.PAYMENT_DECLINED),
        (
            SandboxOutcome.INSUFFICIENT_FUNDS,
            "Insufficient funds",
            PaymentErrorCode.INSUFFICIENT_FUNDS,
        ),
        (SandboxOutcome.CANCEL, "Payment canceled", PaymentErrorCode.PAYMENT_CANCELED),
    ],
)
async def test_the_sandbox_offers_every_outcome(
    shop: Shop, outcome: SandboxOutcome, title: str, code: PaymentErrorCode | None
) -> None:
    checkout = await shop.sell_in_sandbox()
    customer = await Customer(shop, checkout).open()
    assert f'value="{outcome.value}"' in customer.html
    await customer.submit("outcome", f"outcome={outcome.value}")
    assert title in customer.text
    payment = await shop.payment(checkout)
    assert (payment.status is PaymentStatus.SUCCESS, payment.error_code) == (code is None, code)
