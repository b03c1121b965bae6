"""A card is saved only with the customer's consent, and the customer can withdraw it."""

import html
import json
import re
from urllib.parse import urlsplit

import pytest

from manilla.cli import master_key
from manilla.kit import crypto
from manilla.kit.crypto import Keyring
from manilla.languages.language import languages
from manilla.saved_ways import personal, revoking, store
from manilla.saved_ways.way import SEALED, EndedBy, WayEvent, WayStatus
from tests.mail.outbox_reader import letters_to
from tests.payments.shop import Started
from tests.saved_ways.steps import Lender


async def page(lender: Lender, started: Started, name: str = "") -> str:
    target = started.target.replace(started.trx_id, f"{started.trx_id}{name}")
    reply = await lender.merchant.site.send("GET", target)
    assert reply.status in (200, 303), reply.body
    return reply.body.decode()


async def test_checkout_shows_the_consent_that_it_stores(lender: Lender) -> None:
    customer = await lender.customer()
    started = await lender.start(customer)
    shown = await page(lender, started)
    assert 'name="save"' in shown
    assert "checked" not in shown
    charge = await lender.choose(started, "paystack-ngn")
    way = await store.of_payment(lender.db, charge.merchant_id, started.trx_id)
    assert way is not None
    assert way.consent_text in shown.replace("&#39;", "'")
    assert way.consented_at is not None
    assert (way.status, await lender.ways(customer)) == (WayStatus.PENDING, [])
    await lender.shop.pay(charge)
    await lender.shop.until(started, "success")
    [listed] = await lender.ways(customer)
    assert (listed["label"], listed["expires"]) == ("Verve •••• 4081", "2031-12")
    [notice] = await lender.notices(started.trx_id)
    saved = {key: listed[key] for key in ("id", "kind", "label", "expires")}
    assert notice["data"]["saved_way"] == saved
    assert (await lender.shop.verify(started)).json["saved_way"] == saved


@pytest.mark.parametrize("code", languages())
async def test_the_consent_is_stored_as_the_customer_saw_it(lender: Lender, code: str) -> None:
    started = await lender.start(await lender.customer())
    reply = await lender.merchant.site.send("GET", f"{started.target}&lang={code}")
    shown = html.unescape(reply.body.decode())
    [shown_in] = re.findall(r'name="offers_saving" value="([^"]+)"', shown)
    # Meanwhile, the customer chooses another language in another tab.
    headers = {"Cookie": "manilla_language=ha", "Accept-Language": "yo"}
    charge = await lender.choose(started, "paystack-ngn", shown_in=shown_in, headers=headers)
    way = await store.of_payment(lender.db, charge.merchant_id, started.trx_id)
    assert way is not None
    assert f"<span>{way.consent_text}</span>" in shown
    assert (code == "en") == way.consent_text.startswith("I allow Ada Stores to save this card")


@pytest.mark.parametrize("save", [False, None])
async def test_without_consent_nothing_is_saved(lender: Lender, save: bool | None) -> None:
    customer = await lender.customer()
    started = await lender.start(customer)
    charge = await lender.choose(started, "paystack-ngn", save=save)
    await lender.shop.pay(charge)
    await lender.shop.until(started, "success")
    assert await store.of_payment(lender.db, charge.merchant_id, started.trx_id) is None
    assert "saved_way" not in (await lender.shop.verify(started)).json
    assert await lender.ways(customer) == []


async def test_a_customer_who_removes_the_tick_saves_nothing(lender: Lender) -> None:
    customer = await lender.customer()
    started = await lender.start(customer)
    charge = await lender.choose(started, "paystack-ngn")
    assert (await lender.choose(started, "paystack-ngn", save=False)) is not None
    await lender.shop.pay(charge)
    await lender.shop.until(started, "success")
    assert await lender.ways(customer) == []


async def test_a_payment_without_save_for_saves_nothing(lender: Lender) -> None:
    await lender.customer()
    started = await lender.shop.start()
    assert 'name="save"' not in await page(lender, started)
    charge = await lender.choose(started, "paystack-ngn")  # a forged form
    await lender.shop.pay(charge)
    await lender.shop.until(started, "success")
    assert await store.of_payment(lender.db, charge.merchant_id, started.trx_id) is None


async def test_a_card_that_the_provider_cannot_reuse_is_not_saved(lender: Lender) -> None:
    customer = await lender.customer()
    started = await lender.start(customer)
    charge = await lender.choose(started, "paystack_ngn_va")
    await lender.shop.pay(charge)
    await lender.shop.until(started, "success")
    assert await lender.ways(customer) == []


async def test_repeated_reports_save_one_way(lender: Lender) -> None:
    customer = await lender.customer()
    await lender.shop.simulator.control(
        "paystack/faults", {"webhooks": {"mode": "duplicate", "copies": 20}}
    )
    way = await lender.save_card(customer)
    charge = await lender.charge_of(way.payment_trx_id or "")
    for _ in range(3):
        await lender.shop.services.charges.ask(charge)
    [listed] = await lender.ways(customer)
    assert listed["id"] == way.id
    assert await lender.now(way) == way


async def test_a_payment_for_an_unknown_customer_is_rejected(lender: Lender) -> None:
    reply = await lender.merchant.post("/api/v1/initiate-payment", lender.body(save_for="nobody"))
    assert (reply.status, reply.code) == (404, "CUSTOMER_NOT_FOUND")


async def test_the_customer_revokes_on_our_page(lender: Lender) -> None:
    customer = await lender.customer()
    started, way = await lender.save_card_of(customer)
    # The link in the receipt works after the payment's link has expired, too.
    shown = await page(lender, started, "/way")
    assert "Stop future charges" in shown
    assert way.consent_text in shown
    target = started.target.replace(started.trx_id, f"{started.trx_id}/way")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    altered = await lender.merchant.site.send("POST", target[:-1] + "x", form, b"")
    assert altered.status == 403
    assert (await lender.now(way)).status is WayStatus.ACTIVE
    assert (await lender.merchant.site.send("POST", target, form, b"")).status == 303
    assert "cannot charge it any more" in await page(lender, started, "/way")
    ended = await lender.now(way)
    assert (ended.status, ended.ended_by) == (WayStatus.REVOKED, EndedBy.CUSTOMER)
    assert (await lender.charge(customer, way.id)).code == "way_unusable"


async def test_a_revoked_card_is_deleted_at_its_provider(lender: Lender) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    target = f"/api/v1/customers/{customer}/ways/{way.id}"
    await lender.shop.simulator.control(
        "paystack/faults", {"next": [{"call": "forget_card", "fault": "5xx_before"}]}
    )
    for _ in range(2):
        reply = await lender.merchant.call("DELETE", target)
        assert (reply.status, reply.json["status"]) == (200, "revoked")
    await lender.shop.simulator.run_jobs()
    assert (await lender.now(way)).token_sealed is not None  # the provider did not answer
    await lender.shop.simulator.run_job_now("saved_way", way.id)
    assert (await lender.now(way)).token_sealed is None
    assert len(await lender.requests("paystack", "/deactivate")) == 2


async def test_an_ended_way_never_becomes_usable_again(lender: Lender) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    key = way.merchant_id, way.id
    await revoking.end(lender.db, *key, WayEvent.REVOKED, EndedBy.MERCHANT)
    for event in WayEvent:
        await revoking.end(lender.db, *key, event, EndedBy.PROVIDER)
        assert (await lender.now(way)).status is WayStatus.REVOKED
    await lender.shop.services.charges.ask(await lender.charge_of(way.payment_trx_id or ""))
    assert (await lender.now(way)).status is WayStatus.REVOKED


async def test_the_receipt_names_the_card_and_has_the_link(lender: Lender) -> None:
    await lender.db.execute(
        "UPDATE merchant SET sends_receipts = true WHERE id = $1", lender.merchant.new.id
    )
    customer = await lender.customer()
    email = f"{lender.merchant.new.id}@example.com"
    started, way = await lender.save_card_of(customer, customer_email=email)
    payment = await lender.payment(started.trx_id)
    services = lender.shop.services
    [letter] = await letters_to(services.db, services.letters, email)
    url = services.links.url(payment.trx_id, payment.expires_at, "/way")
    assert f"can charge {way.label} again without you" in " ".join(letter.text.split())
    assert url in letter.text
    assert f'href="{html.escape(url)}"' in letter.html
    parts = urlsplit(url)
    reply = await lender.merchant.site.send("GET", f"{parts.path}?{parts.query}")
    assert "Stop future charges" in reply.body.decode()


async def test_a_new_master_key_rewraps_tokens(lender: Lender, keyring: Keyring) -> None:
    assert SEALED in master_key.PLACES
    customer = await lender.customer()
    way = await lender.save_card(customer)

    async def permit(*_given: object) -> None:
        pass

    assert await crypto.rewrap_column(lender.db, keyring, SEALED, permit) == 0
    assert await lender.now(way) == way


async def test_an_erased_customers_ways_end(lender: Lender) -> None:
    customer = await lender.customer()
    way = await lender.save_card(customer)
    exported = await personal.export(lender.db, way.tenant, customer)
    assert exported["saved_ways"][0]["label"] == "Verve •••• 4081"
    await personal.erase(lender.db, way.tenant, customer)
    ended = await lender.now(way)
    saved = (await lender.payment(way.payment_trx_id or "")).saved_way
    assert saved is not None
    assert json.loads(saved)["label"] == "Erased"
    assert (ended.status, ended.ended_by) == (WayStatus.REVOKED, EndedBy.ERASURE)
    assert (ended.label, ended.email) == ("Erased", "")
