"""The invariants detect fees and taxes that differ from what was stored."""

from collections.abc import AsyncIterator
from decimal import Decimal

import pytest

from manilla.kit.database.connections import Database
from manilla.kit.price import PriceTerms
from manilla.ledger.invariants import check, find
from manilla.prices import store
from manilla.prices.invariants import PRICES
from manilla.prices.price import PriceDirection, TaxBearer
from tests.payouts.payout_merchant import PayoutMerchant
from tests.prices.building import CARD, line, plan, tax
from tests.prices.conftest import UsePrices
from tests.support.rolled_back import rolled_back


@pytest.fixture
async def paid(
    payer: PayoutMerchant, use_prices: UsePrices, owner: Database
) -> AsyncIterator[PayoutMerchant]:
    """A merchant with payouts whose plan and taxes are stored."""
    merchant_id, db = payer.merchant.new.id, payer.services.db
    terms = [CARD, PriceTerms(50_00, Decimal("0.125"), 60_00, 70_00), PriceTerms()]
    lines = [line(each, direction=PriceDirection.PAYOUT) for each in terms]
    async with db.transaction() as connection:
        for number, each in enumerate(lines, 1):
            version = plan(each, plan="own", version=number, merchant_id=merchant_id)
            await store.add_version(connection, version, "ada")
        rules = []
        for rule in (tax(), tax("levy", included=True), tax("duty", borne_by=TaxBearer.PLATFORM)):
            number = await store.add_rule(connection, rule, "ada")
            rules.append(tax(rule.name, number, included=rule.content.included))
    for number, each in enumerate(lines, 1):
        use_prices(merchant_id, plan(each, version=number), *rules)
        for amount in (100, 2_500, 100.01):
            await payer.pay_out(payout_amount=amount)
    yield payer
    await owner.execute("DELETE FROM tax_rule")


async def test_stored_prices_satisfy_the_invariants(paid: PayoutMerchant) -> None:
    assert [each for each in await check(paid.services.db, PRICES) if each.count] == []


@pytest.mark.parametrize(
    ("change", "invariant"),
    [
        (
            "UPDATE price_version SET content ="
            " jsonb_set(content, '{lines,0,terms,fixed_minor}', '7') WHERE version = 1",
            "fees_equal_their_plan",
        ),
        (
            "UPDATE tax_rule SET content = jsonb_set(content, '{percent}', '\"8\"')"
            " WHERE name = 'vat'",
            "taxes_equal_their_rule",
        ),
        (
            "DELETE FROM tax_rule; ALTER TABLE payout DISABLE TRIGGER ALL;"
            " UPDATE payout SET price = price - 'taxes' WHERE price ? 'taxes'",
            "tax_liabilities_equal_their_transactions",
        ),
    ],
)
async def test_a_change_of_what_was_stored_is_found(
    paid: PayoutMerchant, owner: Database, change: str, invariant: str
) -> None:
    assert paid.merchant is not None

    async with rolled_back(owner, change) as connection:
        found = [each.name for each in PRICES if (await find(connection, each)).count]

    assert found == [invariant]
