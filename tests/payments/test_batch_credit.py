"""One SQL statement credits several payments, exactly as `states.conclude` credits each of them."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.merchants.merchants import CommissionBearer, MerchantUpdate
from manilla.payments import states
from manilla.payments.batch_credit import CreditedPayments
from manilla.payments.payment import Charge
from manilla.providers.port import ChargeState, ReportedChargeStatus
from manilla.services import Services
from tests.payments import webhooks
from tests.payments.shop import Shop, Started
from tests.support.client import Site, new_merchant
from tests.support.provider_simulator import ProviderSimulator

METHOD = "providera-ngn"


async def opened(shop: Shop, **changed: Any) -> tuple[Started, Charge]:
    started = await shop.start(**changed)
    return started, await shop.choose(started, METHOD)


def paid(charge: Charge, amount: Money | None = None) -> ChargeState:
    return ChargeState(
        ReportedChargeStatus.PAID,
        amount or charge.amount,
        fee=Money(charge.currency, 150),
        provider_reference=f"at-provider-{charge.reference}",
    )


@pytest.fixture
def new_shop(
    services: Services,
    simulator: ProviderSimulator,
    site: Site,
    db: Database,
    keyring: Keyring,
) -> Callable[[], Awaitable[Shop]]:
    async def create() -> Shop:
        merchant = await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)
        return Shop(services, simulator, merchant)

    return create


@pytest.fixture
def credited(shop: Shop) -> CreditedPayments:
    return shop.services.charges._credited


# Maps tables to the columns that a credit writes, except those that differ for every payment.
WRITTEN = {
    "payment": "status, error_code, credited_charge, refunded_minor, received_minor,"
    " (commission_trx_id IS NULL)::text, (updated_at > created_at)::text",
    "charge": "status, paid_minor, reason, error_code, credit_minor, provider_reference",
    "timeline": "number, event, from_status, to_status, detail, facts::text",
    "notification": "event, type, status, url, state, convert_from(body, 'UTF8')",
    "job": "kind, subject",
}
POSTED = """
    SELECT p.kind, e.line, e.account, e.amount_minor, e.balance_minor
      FROM posting p JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
     WHERE p.merchant_id = $1 ORDER BY p.id, e.line"""


async def written(shop: Shop, started: Started) -> dict[str, list[tuple[Any, ...]]]:
    """Returns all rows about the payment, with its ids and times replaced."""
    db, merchant_id = shop.services.db, shop.merchant.new.id
    found = {
        table: [
            tuple(record)
            for record in await db.records(
                f"SELECT {columns} FROM {table} WHERE merchant_id = $1 ORDER BY 1, 2", merchant_id
            )
        ]
        for table, columns in WRITTEN.items()
    }
    found["posting"] = [tuple(record) for record in await db.records(POSTED, merchant_id)]
    payment = await shop.payment(started)
    texts = {started.trx_id: "TRX", payment.ref_trx: "REF", str(payment.commission_trx_id): "COM"}

    def replaced(value: Any) -> Any:
        if isinstance(value, str):
            for own, name in texts.items():
                value = value.replace(own, name)
            value = re.sub(r'"timestamp":\d+', '"timestamp":0', value)
        return value

    return {table: [tuple(map(replaced, row)) for row in rows] for table, rows in found.items()}


@pytest.mark.parametrize("bearer", list(CommissionBearer))
@pytest.mark.parametrize("percent", ["0", "2.5"])
async def test_both_ways_to_credit_a_payment_write_the_same(
    new_shop: Callable[[], Awaitable[Shop]], percent: str, bearer: CommissionBearer
) -> None:
    results = []
    for is_shared in (True, False):
        shop = await new_shop()
        await shop.fund("1000")
        await shop.set_commission(percent, bearer)
        started, charge = await opened(shop)
        if is_shared:
            assert await shop.services.charges._credited.credit(charge, paid(charge))
        else:
            await states.conclude(shop.services.db, charge, paid(charge))
        results.append(await written(shop, started))
        assert await shop.status(started) == "success"
    assert results[0] == results[1]


async def test_a_batch_credits_many_payments_of_one_wallet(
    shop: Shop, credited: CreditedPayments
) -> None:
    await shop.fund("1000")
    await shop.set_commission("2", CommissionBearer.MERCHANT)
    charges = [(await opened(shop))[1] for _ in range(10)]
    results = await asyncio.gather(*(credited.credit(each, paid(each)) for each in charges * 2))
    assert sorted(results) == [False] * 10 + [True] * 10
    assert await shop.balance() == 100_000 + 10 * 98_000
    assert await shop.account("commission") == 10 * 2_000


async def test_of_two_paid_charges_of_a_payment_one_is_credited(
    shop: Shop, credited: CreditedPayments
) -> None:
    started, first = await opened(shop)
    second = await shop.choose(started, "providerb-ngn")
    results = await asyncio.gather(*(credited.credit(each, paid(each)) for each in (first, second)))
    assert sorted(results) == [False, True]
    assert await shop.balance() == 100_000


async def is_untouched(shop: Shop, started: Started, charge: Charge) -> bool:
    return (
        await shop.status(started) == "pending"
        and (await shop.charge(charge)).is_undecided
        and await shop.balance() == 0
        and await shop.notifications(started) == []
    )


async def test_another_amount_is_not_credited(shop: Shop, credited: CreditedPayments) -> None:
    started, charge = await opened(shop)
    for amount in (Money("NGN", charge.amount_minor - 1), Money("USD", charge.amount_minor)):
        assert not await credited.credit(charge, paid(charge, amount))
    assert await is_untouched(shop, started, charge)


# Each pair has an update made after the payment was loaded, and the update that reverts it.
CHANGES = [
    ("charge SET amount_minor = amount_minor + 1", "charge SET amount_minor = amount_minor - 1"),
    ("charge SET credit_minor = 1", "charge SET credit_minor = 0"),
    ("charge SET status = 'expired'", "charge SET status = 'open'"),
    ("payment SET received_minor = 1", "payment SET received_minor = NULL"),
    ("payment SET amount_minor = amount_minor + 1", "payment SET amount_minor = amount_minor - 1"),
    (
        "payment SET status = 'failed', error_code = 'EXPIRED_SESSION'",
        "payment SET status = 'pending', error_code = NULL",
    ),
    ("payment SET link_id = 'a'", "payment SET link_id = NULL"),
    (
        "wallet SET balance_minor = balance_minor + 8999999999999900001",
        "wallet SET balance_minor = balance_minor - 8999999999999900001",
    ),
]


@pytest.mark.parametrize(("change", "undo"), CHANGES)
async def test_the_statement_skips_a_payment_that_changed_after_it_was_loaded(
    shop: Shop, credited: CreditedPayments, owner: Database, change: str, undo: str
) -> None:
    started, charge = await opened(shop, customer_email="ada@example.com")
    load = credited._payments_of

    async def change_after_loading(items: Any) -> Any:
        loaded = await load(items)
        await owner.execute(f"UPDATE {change} WHERE merchant_id = $1", shop.merchant.new.id)
        return loaded

    credited._payments_of = change_after_loading  # type: ignore[assignment,method-assign]
    try:
        assert not await credited.credit(charge, paid(charge))
    finally:
        del credited._payments_of
    await owner.execute(f"UPDATE {undo} WHERE merchant_id = $1", shop.merchant.new.id)
    assert await is_untouched(shop, started, charge)
    assert await shop.account("clearing:providera") == 0


@pytest.mark.parametrize("amount", ["999999.99", "1"])
async def test_a_contradicting_webhook_prevents_the_shared_credit(
    shop: Shop, credited: CreditedPayments, site: Site, amount: str
) -> None:
    started, charge = await opened(shop)
    message = webhooks.paid("providera", charge.reference, amount)
    assert (await webhooks.send(site, "providera", message)).status == 200
    assert not await credited.credit(charge, paid(charge))
    assert await is_untouched(shop, started, charge)


async def test_a_payment_with_a_receipt_needs_its_own_transaction(
    shop: Shop, credited: CreditedPayments
) -> None:
    await shop.change(MerchantUpdate(sends_receipts=True))
    started, charge = await opened(shop, customer_email="ada@example.com")
    assert not await credited.credit(charge, paid(charge))
    assert await is_untouched(shop, started, charge)
