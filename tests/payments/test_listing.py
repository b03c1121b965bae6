"""Listing and filtering payments and refunds, and their statistics."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from manilla.kit import listing as lists
from manilla.kit.clock import LAGOS, last_days
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.listing import BadCursor, Page, in_pages
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone, Scope, Tenant
from manilla.lookup.story import payment_story
from manilla.merchants import merchants
from manilla.payments import figures, listing, store
from manilla.payments.listing import ListedPayment, PaymentFilter
from manilla.payments.payment import PaymentErrorCode, PaymentStatus
from manilla.posting_kinds import PostingFlag, kinds_with
from manilla.refunds import initiate, states
from manilla.refunds import listing as refunds
from manilla.refunds.listing import RefundFilter
from manilla.refunds.refund import RefundStatus
from manilla.services import Services
from manilla.transfers.events import Source, TransferEvent, TransferResult
from tests.payments import steps
from tests.payments.orders import order
from tests.payments.shop import Shop

NOW = datetime.now(UTC)


class PaymentFactory:
    """Inserts payments with a chosen creation time."""

    def __init__(self, db: Database, merchant_id: int) -> None:
        self._db = db
        self.merchant_id = merchant_id
        self.count = 0

    def tenant(self, environment: Environment = Environment.SANDBOX) -> Tenant:
        return Tenant(self.merchant_id, environment)

    async def add(self, at: datetime = NOW, **fields: Any) -> str:
        self.count += 1
        trx_id = trx_ids.floor(at) + trx_ids.new(self.merchant_id)[13:]
        row = {
            "merchant_id": self.merchant_id,
            "trx_id": trx_id,
            "environment": "sandbox",
            "ref_trx": f"order {self.count}",
            "currency": "NGN",
            "amount_minor": 100,
            "commission_minor": 0,
            "commission_bearer": "customer",
            "ipn_url": "https://shop.example",
            "allow_payment_methods": [],
            "is_legacy": False,
            "created_at": at,
            "expires_at": at,
            **fields,
        }
        places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
        await self._db.execute(
            f"INSERT INTO payment ({', '.join(row)}) VALUES ({places})", *row.values()
        )
        return trx_id

    async def found(self, scope: Scope | None = None, **wanted: Any) -> list[str]:
        page = await self.page(scope, **wanted)
        return [row.trx_id for row in page.rows]

    async def page(
        self,
        scope: Scope | None = None,
        *,
        after: str | None = None,
        limit: int = 50,
        **wanted: Any,
    ) -> Page[ListedPayment]:
        scope = scope or self.tenant()
        return await listing.payments(
            self._db, scope, PaymentFilter(**wanted), after=after, limit=limit
        )


NewFactory = Callable[[], Awaitable[PaymentFactory]]


@pytest.fixture
async def new_factory(db: Database, owner: Database, keyring: Keyring) -> AsyncIterator[NewFactory]:
    """Creates merchants with payments that have no postings, and deletes them after the test."""
    made = []

    async def make() -> PaymentFactory:
        new = await merchants.create(db, keyring, name="Lists", email="l@example.com")
        made.append(new.id)
        # The merchant must be older than its oldest payment.
        await db.execute(
            "UPDATE merchant SET created_at = now() - interval '60 days' WHERE id = $1", new.id
        )
        return PaymentFactory(db, new.id)

    yield make
    await owner.execute("DELETE FROM payment WHERE merchant_id = ANY($1::bigint[])", made)


@pytest.fixture
async def payments(new_factory: NewFactory) -> PaymentFactory:
    return await new_factory()


async def test_a_merchant_sees_its_own_payments_in_one_environment(
    payments: PaymentFactory, new_factory: NewFactory
) -> None:
    other = await new_factory()
    mine = await payments.add()
    real = await payments.add(environment="production")
    others = await other.add(ref_trx="order 1")
    assert await payments.found() == [mine]
    assert await payments.found(payments.tenant(Environment.PRODUCTION)) == [real]
    for search in (others, real, others + "-1"):
        assert await payments.found(search=search) == []
    assert set(await payments.found(Everyone(payments.merchant_id))) == {mine, real}
    for each in (mine, real, others):
        assert await payments.found(Everyone(), search=each) == [each]
    assert await payments.found(Everyone(other.merchant_id), search="order 1") == [others]
    assert await payments.found(Everyone(environment=Environment.SANDBOX), search=real) == []


async def test_pages_neither_repeat_nor_skip_while_payments_arrive(
    db: Database, payments: PaymentFactory
) -> None:
    ages = [0, 0, 1, 60, 3600, 7200, 86_400, 86_401, 20 * 86_400, 40 * 86_400]
    made = [await payments.add(NOW - timedelta(seconds=age), amount_minor=age + 1) for age in ages]
    expected = sorted(made, reverse=True)
    for scope in (payments.tenant(), Everyone(payments.merchant_id)):
        seen: list[str] = []
        after = None
        while True:
            page = await payments.page(scope, after=after, limit=3)
            seen += [row.trx_id for row in page.rows]
            after = page.next
            if after is None:
                break
            late = await payments.add(NOW + timedelta(seconds=len(seen)))
            assert late not in seen
        assert seen[-len(expected) :] == expected
        assert len(seen) == len(set(seen))
    pages = in_pages(listing.payments, db, payments.tenant(), PaymentFilter(max_minor=3601))
    whole = [row.trx_id async for rows in pages for row in rows]
    assert whole == await payments.found(max_minor=3601)
    assert set(expected[-4:]).isdisjoint(whole)


async def test_a_sparse_list_ends_a_page_early_and_continues(
    payments: PaymentFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "LOOK_MAX", 4)
    failed = await payments.add(
        NOW - timedelta(days=9), status="failed", error_code="PAYMENT_DECLINED"
    )
    for minutes in range(12):
        await payments.add(NOW - timedelta(minutes=minutes))
    page = await payments.page(status=PaymentStatus.FAILED)
    assert page.rows == []
    pages = 1
    while page.next is not None and not page.rows:
        page = await payments.page(status=PaymentStatus.FAILED, after=page.next)
        pages += 1
    assert [row.trx_id for row in page.rows] == [failed]
    assert pages > 1


async def test_every_filter(payments: PaymentFactory) -> None:
    old = await payments.add(NOW - timedelta(days=3), amount_minor=50, currency="USD")
    declined = await payments.add(
        NOW - timedelta(days=1), status="failed", error_code="PAYMENT_DECLINED"
    )
    paid = await payments.add(amount_minor=900, status="success")
    assert await payments.found() == [paid, declined, old]
    assert await payments.found(status=PaymentStatus.PENDING) == [old]
    assert await payments.found(error_code=PaymentErrorCode.PAYMENT_DECLINED) == [declined]
    assert await payments.found(error_code=PaymentErrorCode.EXPIRED_SESSION) == []
    assert await payments.found(currency="USD") == [old]
    assert await payments.found(min_minor=100) == [paid, declined]
    assert await payments.found(max_minor=100) == [declined, old]
    assert await payments.found(since=NOW - timedelta(days=2)) == [paid, declined]
    assert await payments.found(until=NOW - timedelta(days=1)) == [old]
    assert await payments.found(since=NOW - timedelta(days=1), until=NOW) == [declined]
    assert await payments.found(status=PaymentStatus.SUCCESS, max_minor=100) == []
    assert await payments.found(search=old, since=NOW - timedelta(days=2)) == []


async def test_searches_find_any_reference_and_treat_every_character_literally(
    payments: PaymentFactory,
) -> None:
    ada = await payments.add(customer_name="Ada Obi", customer_email="ada_o@example.com")
    percent = await payments.add(ref_trx="50%_off\\{}", customer_name="Adaeze")
    assert await payments.found(search=ada) == [ada]
    assert await payments.found(search=f"{ada}-2") == [ada]
    assert await payments.found(search="order 1") == [ada]
    assert await payments.found(search="ada") == sorted([percent, ada], reverse=True)
    assert await payments.found(search="ADA OBI") == [ada]
    assert await payments.found(search="ada_o@") == [ada]
    assert await payments.found(search="50%_off\\{}") == [percent]
    assert await payments.found(search="%_OFF") == [percent]
    assert await payments.found(search="a_a") == []
    assert await payments.found(search="%") == [percent]
    assert await payments.found(search="\\") == [percent]


async def test_an_invalid_cursor_is_rejected(payments: PaymentFactory) -> None:
    for bad in ("x", "WyJ4Il0", "WzFd", "WyJUWE5aWlpaWlpaWlpaIl0"):
        with pytest.raises(BadCursor):
            await payments.page(after=bad)


async def test_statistics_use_days_in_lagos_time(db: Database, payments: PaymentFactory) -> None:
    today = last_days(1)[0]
    midnight = datetime(today.year, today.month, today.day, tzinfo=LAGOS)
    await payments.add(midnight, status="success", amount_minor=700)
    await payments.add(midnight - timedelta(milliseconds=1), status="success", amount_minor=40)
    await payments.add(midnight - timedelta(hours=1), status="failed", error_code="EXPIRED_SESSION")
    await payments.add(midnight - timedelta(hours=2))
    await payments.add(midnight, currency="USD", status="success")
    await payments.add(midnight, environment="production", status="success")
    days = await figures.daily(db, payments.tenant(), "NGN")
    assert [day.day for day in days] == last_days(30)
    yesterday, last = days[-2:]
    assert (last.count, last.succeeded, last.volume_minor, last.success_rate) == (1, 1, 700, 1.0)
    assert (yesterday.count, yesterday.succeeded, yesterday.failed) == (3, 1, 1)
    assert (yesterday.volume.minor, yesterday.success_rate) == (40, 0.5)
    assert days[0].success_rate is None
    [all_of_it] = await figures.daily(db, Everyone(payments.merchant_id), "NGN", [today])
    assert all_of_it.count == 2


async def test_refunds_are_listed_and_a_payment_shows_its_full_history(
    services: Services, db: Database, sandbox_shop: Shop
) -> None:
    merchant = sandbox_shop.merchant
    body = order()
    trx_id = steps.trx_id_of(await steps.initiate(merchant, body))
    await steps.complete(services, merchant, trx_id)
    refund = await initiate.start(db, trx_id, "10", "not wanted")
    refused = TransferResult(TransferEvent.FAILED, Source.PROVIDER, guidance="refused")
    await states.apply_result(db, refund, refused)
    second = await initiate.start(db, trx_id, "20", "not wanted")
    tenant = Tenant(merchant.new.id, merchant.environment)

    async def found(**wanted: Any) -> list[str]:
        page = await refunds.refunds(db, tenant, RefundFilter(**wanted))
        return [row.trx_id for row in page.rows]

    both = sorted([refund.trx_id, second.trx_id], reverse=True)
    assert await found() == both
    assert await found(search=trx_id) == await found(search=f"{trx_id}-1") == both
    assert await found(search=second.trx_id, status=RefundStatus.PENDING) == [second.trx_id]
    assert await found(status=RefundStatus.FAILED, by_operator=False) == [refund.trx_id]
    assert await found(search="%") == await found(currency="USD") == await found(until=NOW) == []
    elsewhere = Tenant(merchant.new.id, Environment.PRODUCTION)
    assert (await refunds.refunds(db, elsewhere, RefundFilter())).rows == []
    whole = in_pages(refunds.refunds, db, tenant, RefundFilter())
    assert [row.trx_id async for rows in whole for row in rows] == both
    yesterday = datetime.now(UTC) - timedelta(days=1)
    assert await refunds.count_rejected(db, tenant, yesterday) == 1

    await services.requests.flush()
    story = await payment_story(db, merchant.new.id, trx_id)
    assert story is not None
    assert story.payment == await store.payment(db, merchant.new.id, trx_id)
    assert [(each.method, each.ref_trx) for each in story.requests] == [("POST", body["ref_trx"])]
    assert [each.trx_id for each in story.refunds] == both[::-1]
    assert [each.kind for each in story.postings] == [
        "payment",
        "refund",
        "refund_returned",
        "refund",
    ]
    assert {each.kind for each in story.postings} <= set(kinds_with(PostingFlag.WALLET))
    assert all(sum(entry.amount_minor for entry in p.entries) == 0 for p in story.postings)
    assert story.steps[0].to_status == "success"
    notified = [(each.notification.event, each.notification.state) for each in story.notifications]
    assert notified == [("payment", "waiting"), ("refund", "not_sent")]
    of_the_other = Environment.PRODUCTION
    assert await payment_story(db, merchant.new.id, trx_id, environment=of_the_other) is None
    assert await payment_story(db, merchant.new.id + 1, trx_id) is None
