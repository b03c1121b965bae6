"""Customers move with their merchant: accounts, the transfers into them, and saved ways to pay."""

from datetime import UTC, datetime

import asyncpg
import msgspec
import pytest

from manilla.cells.moving.stored import Step
from manilla.customers import account_store
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.providers.port import AccountTransfer, Payer, ReportedChargeStatus
from manilla.saved_ways import store
from manilla.saved_ways.way import SavedWay, WayKind, WayStatus
from tests.customers.steps import BVN, Customers
from tests.moving.movers import Mover
from tests.payments.shop import Shop
from tests.support.client import new_merchant

PROVIDER, NUMBER = "paystack", "9911223344"


def customers_of(mover: Mover, cell: str = "lagos") -> Customers:
    payer = mover.payers[cell]
    return Customers(Shop(payer.services, payer.simulator, payer.merchant))


def transfer(reference: str) -> AccountTransfer:
    return AccountTransfer(
        reference=reference,
        status=ReportedChargeStatus.PAID,
        paid=Money.of("100", "NGN"),
        payer=Payer(name="Chidi Eze"),
        account_number=NUMBER,
    )


async def report(customers: Customers, reference: str) -> None:
    await customers.services.receiving.report(PROVIDER, transfer(reference))


async def save_card(customers: Customers) -> SavedWay:
    """Adds a saved card, as after a payment that has been archived."""
    now, merchant_id = datetime.now(UTC), customers.tenant.merchant_id
    way = SavedWay(
        merchant_id=merchant_id,
        id=trx_ids.WAY_IDS.new(merchant_id),
        environment=customers.tenant.environment,
        customer_reference="pupil-17",
        kind=WayKind.CARD,
        status=WayStatus.ACTIVE,
        provider=PROVIDER,
        currency="NGN",
        label="Visa •••• 4081",
        email="ada@example.com",
        consent_text="I allow it.",
        consented_at=now,
        created_at=now,
        updated_at=now,
        payment_trx_id=trx_ids.new(merchant_id),
    )
    sealed = customers.keyring.seal(b"AUTH_1", way.context)
    way = msgspec.structs.replace(way, token_sealed=sealed)
    async with customers.db.transaction() as connection:
        await store.insert(connection, way)
    return way


async def unknown_accounts(db: Database) -> int:
    return await db.number("SELECT count(*) FROM operator_case WHERE kind = 'unknown_account'")


async def test_a_moved_customer_keeps_accounts_transfers_and_cards(mover: Mover) -> None:
    lagos, abuja = customers_of(mover), customers_of(mover, "abuja")
    account = await lagos.account_without_provider(NUMBER)
    await report(lagos, "T-1")
    card = await save_card(lagos)
    balance = await lagos.shop.balance()
    await mover.move()

    moved = await account_store.account(abuja.db, account.merchant_id, account.id)
    assert moved == await lagos.now(account)
    customer = await abuja.customer_of(account)
    assert customer.personal_numbers(abuja.keyring).bvn == BVN
    way = await store.way(abuja.db, card.merchant_id, card.id)
    assert way is not None
    assert way.token_sealed is not None
    assert abuja.keyring.open(way.token_sealed, way.context) == b"AUTH_1"
    assert await abuja.db.has_row(
        "SELECT true FROM job WHERE kind = 'account' AND subject = $1", account.id
    )
    # Providers may still send webhooks to the first cell.
    for reference in ("T-1", "T-2"):
        await report(lagos, reference)
    assert await unknown_accounts(lagos.db) == 0
    for reference in ("T-1", "T-2", "T-2"):
        await report(abuja, reference)
    assert len(await abuja.payments()) == 2
    assert await abuja.shop.balance() == balance + 100_00
    assert await mover.broken("abuja") == []
    assert await mover.broken("lagos") == []


async def test_a_transfer_that_is_reported_during_a_move_is_received_afterwards(
    mover: Mover,
) -> None:
    lagos, abuja = customers_of(mover), customers_of(mover, "abuja")
    await lagos.account_without_provider(NUMBER)
    await mover.move_until(Step.FENCE)
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError):  # its job runs again later
        await report(lagos, "T-1")
    await mover.resume()
    await report(lagos, "T-1")
    await report(abuja, "T-1")
    assert len(await abuja.payments()) == 1
    assert await mover.broken("abuja") == []


async def test_a_number_of_a_moved_merchant_can_belong_to_a_new_customer(mover: Mover) -> None:
    lagos = customers_of(mover)
    await lagos.account_without_provider(NUMBER)
    await mover.move()
    site = mover.pair.lagos.site.from_new_ip()
    other = await new_merchant(*(site, lagos.db, lagos.keyring), environment=Environment.PRODUCTION)
    new = Customers(Shop(lagos.services, lagos.shop.simulator, other))
    await new.account_without_provider(NUMBER)
    await report(new, "T-9")
    assert await new.shop.balance() == 100_00
    assert await mover.broken("lagos") == []
