"""Customers pay with payment links, through simulated providers and in the sandbox."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from manilla.kit.database.connections import Database
from manilla.kit.ratelimit import RateLimitExceeded
from manilla.merchants.merchants import MerchantStatus, MerchantUpdate
from manilla.payments import states
from manilla.payments.checkout import SandboxOutcome
from manilla.payments.payment import PaymentStatus
from manilla.payments.payment_links import paying, store
from manilla.payments.payment_links.link import LinkNotFound, LinkStatus
from manilla.payments.payment_links.paying import (
    AmountNotPossible,
    CustomerInput,
    LinkClosed,
    PaymentInProgress,
    PaymentNotPossible,
)
from tests.payments.payment_links.customers import (
    AMOUNT_MINOR,
    current,
    new_link,
    start,
    statuses,
    tenant_of,
)
from tests.payments.shop import Shop
from tests.payments.steps import setting
from tests.support.rows import first_short

HOSTED, ACCOUNT = "providera-ngn", "providera_ngn_va"


async def test_a_link_creates_an_ordinary_payment_and_counts_what_it_earned(shop: Shop) -> None:
    link = await new_link(shop, description="Six yards", success_redirect="https://shop.example/")
    started = await start(shop, link, name="Ada Obi", email="ada@example.com")
    payment = await shop.payment(started)
    await shop.pay(await shop.choose(started, HOSTED))
    await shop.until(started, "success")
    assert payment.ref_trx.startswith("LINK-")
    assert payment.description == "Adire cloth\nSix yards"
    assert (payment.customer_name, payment.customer_email) == ("Ada Obi", "ada@example.com")
    assert payment.success_redirect == "https://shop.example/"
    assert payment.cancel_redirect == shop.services.base_url + link.path
    assert await shop.balance() == AMOUNT_MINOR
    after = await current(shop, link)
    assert (after.paid_count, after.paid_minor, after.status) == (1, AMOUNT_MINOR, "active")


async def test_a_payment_of_a_link_is_an_event_but_sends_no_notification(shop: Shop) -> None:
    started = await start(shop, await new_link(shop))
    await shop.pay(await shop.choose(started, HOSTED))
    await shop.until(started, "success")
    assert await shop.notifications(started) == []
    events = (await shop.merchant.get("/api/v1/events")).json["data"]
    assert [(each["type"], each["trx_id"]) for each in events] == [
        ("payment.success", started.trx_id)
    ]


async def test_many_customers_pay_with_one_link_at_the_same_time(shop: Shop) -> None:
    link = await new_link(shop, amount_minor=None)
    started = await asyncio.gather(*(start(shop, link, f"{n}.50") for n in range(1, 7)))
    for each in started:
        await shop.pay(await shop.choose(each, HOSTED))
    for each in started:
        await shop.until(each, "success")
    after = await current(shop, link)
    assert (after.paid_count, after.paid_minor) == (6, 2400)
    assert await shop.balance() == 2400


async def test_concurrent_customers_of_a_link_for_a_single_payment_share_one_payment(
    shop: Shop,
) -> None:
    link = await new_link(shop, single_use=True)
    started = await asyncio.gather(*(start(shop, link) for _ in range(8)))
    assert len({each.payment_url for each in started}) == 1
    assert await store.count_payments(shop.services.db, link) == 1


async def test_a_paid_link_for_a_single_payment_starts_no_other_payment(shop: Shop) -> None:
    link = await new_link(shop, single_use=True)
    started = await start(shop, link)
    await shop.pay(await shop.choose(started, HOSTED))
    await shop.until(started, "success")
    with pytest.raises(LinkClosed):
        await start(shop, link)
    assert (await current(shop, link)).status is LinkStatus.USED


async def test_a_canceled_payment_leaves_a_link_for_a_single_payment_usable(shop: Shop) -> None:
    link = await new_link(shop, single_use=True)
    canceled = await start(shop, link)
    await shop.services.checkout.cancel(canceled.trx_id)
    second = await start(shop, link)
    await shop.pay(await shop.choose(second, HOSTED))
    await shop.until(second, "success")
    assert canceled.trx_id != second.trx_id
    assert await shop.balance() == AMOUNT_MINOR


async def test_another_amount_is_rejected_while_a_single_payment_is_in_progress(
    shop: Shop,
) -> None:
    link = await new_link(shop, single_use=True, amount_minor=None)
    first = await start(shop, link, "500")
    with pytest.raises(PaymentInProgress, match=r"₦500\.00") as refused:
        await start(shop, link, "5")
    assert refused.value.payment_url == first.payment_url
    assert (await start(shop, link, "500")).payment_url == first.payment_url


async def test_money_that_arrives_late_for_a_used_link_is_held_in_suspense(shop: Shop) -> None:
    link = await new_link(shop, single_use=True)
    late = await start(shop, link)
    account = await shop.choose(late, ACCOUNT)
    await states.expire(shop.services.db, account.merchant_id, late.trx_id)
    second = await start(shop, link)
    await shop.pay(await shop.choose(second, HOSTED))
    await shop.until(second, "success")
    await shop.pay(account)
    await shop.until_charge(account, "suspense")
    assert await shop.cases() == [("link_already_paid", account.reference)]
    assert await statuses(shop, late, second) == [PaymentStatus.FAILED, PaymentStatus.SUCCESS]
    assert (await shop.balance(), await shop.account("suspense")) == (AMOUNT_MINOR, AMOUNT_MINOR)
    assert (await current(shop, link)).paid_count == 1


async def test_of_two_payments_paid_at_the_same_time_a_single_use_link_credits_one(
    shop: Shop,
) -> None:
    link = await new_link(shop, single_use=True)
    first = await start(shop, link)
    charges = [await shop.choose(first, ACCOUNT)]
    await states.expire(shop.services.db, charges[0].merchant_id, first.trx_id)
    second = await start(shop, link)
    charges.append(await shop.choose(second, HOSTED))
    for charge in charges:
        await shop.pay(charge)
    ask = shop.services.charges.ask
    await asyncio.gather(*(ask(charge) for charge in charges))
    assert await statuses(shop, first, second) in (
        [PaymentStatus.FAILED, PaymentStatus.SUCCESS],
        [PaymentStatus.PENDING, PaymentStatus.SUCCESS],
    )
    assert (await shop.balance(), await shop.account("suspense")) == (AMOUNT_MINOR, AMOUNT_MINOR)
    assert [kind for kind, _ in await shop.cases()] == ["link_already_paid"]


async def test_a_sandbox_link_for_a_single_payment_credits_one(sandbox_shop: Shop) -> None:
    shop = sandbox_shop
    link = await new_link(shop, single_use=True)
    first = await start(shop, link)
    await states.expire(shop.services.db, shop.merchant.new.id, first.trx_id)
    second = await start(shop, link)
    pretend = shop.services.checkout.pretend
    await asyncio.gather(*(pretend(each.trx_id, SandboxOutcome.PAY) for each in (first, second)))
    assert (await statuses(shop, first, second)).count(PaymentStatus.SUCCESS) == 1
    assert (await current(shop, link)).paid_minor == AMOUNT_MINOR


async def test_a_late_sandbox_payment_through_a_used_link_is_not_credited(
    sandbox_shop: Shop,
) -> None:
    shop = sandbox_shop
    link, merchant_id = await new_link(shop, single_use=True), shop.merchant.new.id
    late = await start(shop, link)
    await states.expire(shop.services.db, merchant_id, late.trx_id)
    second = await start(shop, link)
    for each in (second, late):
        paid = states.PaymentEvent.PAID
        await states.end_in_sandbox(shop.services.db, merchant_id, each.trx_id, paid)
    assert await statuses(shop, late, second) == [PaymentStatus.FAILED, PaymentStatus.SUCCESS]
    assert (await current(shop, link)).paid_minor == AMOUNT_MINOR


async def test_a_sandbox_link_creates_sandbox_payments(sandbox_shop: Shop) -> None:
    link = await new_link(sandbox_shop)
    payment = await sandbox_shop.payment(await start(sandbox_shop, link))
    assert payment.is_sandbox
    assert payment.remarks == "SANDBOX_TRANSACTION"


async def test_a_disabled_link_starts_nothing_but_a_started_payment_is_credited(
    shop: Shop,
) -> None:
    link = await new_link(shop)
    started = await start(shop, link)
    await store.disable(shop.services.db, tenant_of(shop), link.id)
    with pytest.raises(LinkClosed):
        await start(shop, link)
    await shop.pay(await shop.choose(started, HOSTED))
    await shop.until(started, "success")
    after = await current(shop, link)
    assert (after.status, after.paid_count) == (LinkStatus.DISABLED, 1)


async def test_an_expired_link_starts_nothing(shop: Shop, db: Database) -> None:
    link = await new_link(shop, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    with pytest.raises(LinkClosed):
        await start(shop, link)
    assert link.status is LinkStatus.EXPIRED
    assert await store.count_payments(db, link) == 0


async def test_a_disabled_merchant_takes_no_payments_with_its_links(shop: Shop) -> None:
    link = await new_link(shop)
    await shop.change(MerchantUpdate(status=MerchantStatus.DISABLED))
    with pytest.raises(PaymentNotPossible):
        await start(shop, link)
    assert not (await shop.services.link_payments.view(link.id)).can_be_paid


async def test_a_payment_above_the_merchants_limit_is_rejected(shop: Shop) -> None:
    link = await new_link(shop, amount_minor=None)
    async with setting(shop.services, "payment_limits_unverified", "NGN:1000"):
        with pytest.raises(AmountNotPossible):
            await start(shop, link, "1000.01")
        await start(shop, link, "1000")
    assert await store.count_payments(shop.services.db, link) == 1


async def test_one_address_cannot_start_any_number_of_payments(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paying, "ADDRESS_LIMIT", 2)
    links = [await new_link(shop) for _ in range(3)]
    begin = shop.services.link_payments.start
    for link in links[:2]:
        await begin(link.id, CustomerInput(), "198.51.100.7")
    with pytest.raises(RateLimitExceeded):
        await begin(links[2].id, CustomerInput(), "198.51.100.7")
    assert await store.count_payments(shop.services.db, links[2]) == 0


async def test_one_link_cannot_start_any_number_of_payments(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paying, "LINK_LIMIT", 2)
    link = await new_link(shop)
    for _ in range(2):
        await start(shop, link)
    with pytest.raises(RateLimitExceeded):
        await start(shop, link)
    assert await store.count_payments(shop.services.db, link) == 2


@pytest.mark.parametrize(
    "link_id", first_short(["", "x", "PL" + "0" * 29, "TXN" + "0" * 30, "PL" + "Z" * 29])
)
async def test_an_unknown_id_finds_no_link(shop: Shop, link_id: str) -> None:
    with pytest.raises(LinkNotFound):
        await shop.services.link_payments.view(link_id)
