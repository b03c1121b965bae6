"""Customers who have paid view their receipt, download it, and get it by email."""

import re
from datetime import timedelta

import pytest

from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.merchants import branding, logo, merchants
from manilla.merchants.merchants import MerchantUpdate, OverpaidRule
from manilla.payments.checkout import RECEIPTS_MAX, SandboxOutcome
from manilla.web.receipts import contents
from manilla.web.receipts.contents import PaymentFacts
from tests.checkout.shop import ACCOUNT, HOSTED, Checkout, Shop
from tests.mail.outbox_reader import letters_to
from tests.merchants.test_logo import picture
from tests.people.accounts import new_email
from tests.web import markup

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


async def paid(shop: Shop) -> Checkout:
    checkout = await shop.sell(customer_name="Bisi Ade", customer_email="bisi@example.com")
    await shop.pay(await shop.choose(checkout, HOSTED))
    await shop.is_settled(checkout)
    return checkout


async def mail(shop: Shop, checkout: Checkout, address: str) -> int:
    body = f"email={address}".encode()
    target = Checkout(checkout.at("receipt")).target
    return (await shop.site.send("POST", target, FORM, body)).status


async def test_a_customer_keeps_the_receipt_after_the_link_has_expired(shop: Shop) -> None:
    checkout = await paid(shop)
    for link in (checkout, shop.link(checkout, ends_in=timedelta(minutes=-1))):
        page = await shop.site.send("GET", Checkout(link.at("receipt")).target)
        assert page.status == 200
        assert "₦1,015.00" in page.body.decode()
        assert not markup.problems(page.body.decode())
        pdf = await shop.site.send("GET", Checkout(link.at("receipt.pdf")).target)
        assert (pdf.status, pdf.body[:5]) == (200, b"%PDF-")


async def test_a_receipt_says_what_was_received_and_returned_and_how_it_was_paid(
    shop: Shop,
) -> None:
    merchant = await shop.merchant(Environment.PRODUCTION)
    rules = MerchantUpdate(overpaid=OverpaidRule.SETTLE)
    await merchants.change(shop.services.db, shop.services.keyring, merchant.new.id, rules)
    checkout = await shop.sell(description="")
    await shop.pay(await shop.choose(checkout, ACCOUNT), amount=1265)
    await shop.is_settled(checkout)
    page = await shop.site.send("GET", Checkout(checkout.at("receipt")).target)
    text = " ".join(re.sub("<[^>]*>", " ", page.body.decode()).split())
    for part in ("Paid ₦1,015.00 Received ₦1,265.00", "Paid by Bank transfer"):
        assert part in text
    assert "Description" not in text
    assert "—" not in text
    pdf = await shop.site.send("GET", Checkout(checkout.at("receipt.pdf")).target)
    assert b"+Inter" in pdf.body

    payment = await shop.payment(checkout)
    nothing, surplus = Money("NGN", 0), Money("NGN", 250_00)
    facts = PaymentFacts(since=payment.created_at, refunded=nothing, returned=surplus, way=None)
    receipt = contents.of_payment(payment, "Ada Stores", "https://ada", facts, names_customer=False)
    assert ("Returned", "₦250.00") in receipt.groups[0]


async def test_a_receipt_does_not_name_the_customer_to_others_who_have_the_link(
    shop: Shop,
) -> None:
    checkout = await paid(shop)
    page = await shop.site.send("GET", Checkout(checkout.at("receipt")).target)
    assert b"Bisi" not in page.body
    assert b"bisi@" not in page.body


async def test_an_unpaid_payment_has_no_receipt(shop: Shop) -> None:
    checkout = await shop.sell()
    for name in ("receipt", "receipt.pdf"):
        reply = await shop.site.send("GET", Checkout(checkout.at(name)).target)
        assert (reply.status, reply.location) == (303, checkout.target)
    address = new_email()
    assert await mail(shop, checkout, address) == 303
    assert await letters_to(shop.services.db, shop.services.letters, address) == []


async def test_a_customer_gets_the_receipt_by_email_a_few_times(shop: Shop) -> None:
    checkout, address = await paid(shop), new_email()
    for _ in range(RECEIPTS_MAX):
        assert await mail(shop, checkout, address) == 303
    assert await mail(shop, checkout, new_email()) == 429
    letters = await letters_to(shop.services.db, shop.services.letters, address)
    assert [checkout.trx_id in letter.text for letter in letters] == [True] * RECEIPTS_MAX


async def test_a_receipt_by_email_has_the_merchants_logo_and_contact(shop: Shop) -> None:
    merchant = await shop.new_merchant()
    db, merchant_id, address = shop.services.db, merchant.new.id, new_email()
    await branding.change(db, merchant_id, "", "help@ada.example", "0803 000 0000")
    await branding.set_logo(db, merchant_id, await logo.encode(picture("PNG")))
    checkout = await shop.sell(merchant)
    await shop.pay(await shop.choose(checkout, HOSTED))
    await shop.is_settled(checkout)
    assert await mail(shop, checkout, address) == 303
    [letter] = await letters_to(db, shop.services.letters, address)
    assert "contact Ada Stores: help@ada.example or 0803 000 0000." in " ".join(letter.text.split())
    url = (await branding.find(db, merchant_id)).logo_url
    assert f'src="{shop.services.base_url}{url}"' in letter.html


@pytest.mark.parametrize("address", ["", "nobody", "a@b@c", "x" * 100 + "@example.com"])
async def test_a_wrong_address_is_refused(shop: Shop, address: str) -> None:
    assert await mail(shop, await paid(shop), address) == 400


async def test_the_sandbox_sends_no_email(shop: Shop) -> None:
    checkout, address = await shop.sell_in_sandbox(), new_email()
    await shop.pretend(checkout, SandboxOutcome.PAY)
    page = await shop.site.send("GET", checkout.target)
    assert b"Send the receipt to my email" not in page.body
    assert await mail(shop, checkout, address) == 409
    assert await letters_to(shop.services.db, shop.services.letters, address) == []
