"""A plan's fee for a dispute, and taxes of a payment that a dispute took back."""

from collections.abc import AsyncIterator

import pytest

from manilla.disputes import fields
from manilla.disputes.dispute import Dispute
from manilla.kit.price import PriceTerms
from manilla.merchants.merchants import CommissionBearer
from manilla.platform.settings import PlatformSettings
from manilla.posting_kinds import PostingKind
from manilla.prices import store
from manilla.prices.price import PriceDirection
from manilla.prices.store import OWN
from manilla.providers.port import ReportedDisputeStatus
from tests.disputes.steps import LOST, WON, Disputes, money, naira
from tests.payments.shop import Shop
from tests.prices.building import line, plan, tax
from tests.prices.conftest import UsePrices

FEE = PriceTerms(fixed_minor=300_00)


@pytest.fixture
async def disputes(shop: Shop) -> AsyncIterator[Disputes]:
    """The disputes of a merchant whose plan has a fee for them."""
    steps = Disputes(shop)
    await _add_version(steps, 1, FEE)
    yield steps
    assert await steps.broken_rules() == []


async def _add_version(steps: Disputes, number: int, terms: PriceTerms) -> None:
    version = plan(
        line(terms, direction=PriceDirection.DISPUTE),
        plan=OWN,
        version=number,
        merchant_id=steps.tenant.merchant_id,
    )
    async with steps.db.transaction() as connection:
        await store.add_version(connection, version, "ada")


async def test_the_plans_fee_is_charged_when_the_dispute_is_opened(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.shop.fund("500")
    before = await disputes.money()
    opened = await disputes.open(paid)

    assert await disputes.money() == before | {"wallet": before["wallet"] - 1300, "withheld": 1000}
    assert fields.describe(opened, []).fee == 300
    assert await _accounts(disputes, opened) == {"commission": 300_00}


@pytest.mark.parametrize("outcome", [WON, LOST])
async def test_the_platform_bears_the_providers_fee_if_the_plan_has_its_own(
    disputes: Disputes, outcome: ReportedDisputeStatus
) -> None:
    paid = await disputes.pay()
    await disputes.shop.fund("500")
    await disputes.open(paid)
    ended = disputes.one(await disputes.report(paid.reported(outcome, fee=naira("120"))))

    assert (ended.fee, ended.fee_minor) == (naira("300"), 120_00)
    assert await _accounts(disputes, ended) == {
        "commission": 300_00,
        "provider_fee:providera": -120_00,
        "clearing:providera": 120_00,
    }


async def test_a_later_version_does_not_change_the_fee_of_an_open_dispute(
    disputes: Disputes,
) -> None:
    paid = await disputes.pay()
    opened = await disputes.open(paid)
    await _add_version(disputes, 2, PriceTerms(fixed_minor=900_00))
    ended = disputes.one(await disputes.report(paid.reported(LOST)))
    assert (await disputes.now(ended)).fee == opened.fee == naira("300")


async def test_a_fee_that_the_wallet_cannot_cover_becomes_a_debt(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.empty_wallet()
    opened = await disputes.open(paid)
    assert await disputes.money() == money(owed=1300, withheld=1000)
    assert opened.short == naira("1300")


async def test_a_fee_of_zero_frees_the_merchant_of_the_providers_fee(disputes: Disputes) -> None:
    await _add_version(disputes, 2, PriceTerms())
    paid = await disputes.pay()
    await disputes.open(paid)
    ended = disputes.one(await disputes.report(paid.reported(LOST, fee=naira("120"))))
    assert ended.fee == naira("0")
    assert await disputes.owed() == 0


@pytest.mark.parametrize(
    ("included", "earned", "owed", "paid_back"),
    [(False, 0, 11_25, 150_00), (True, -10_47, 10_47, 150_00)],
)
@pytest.mark.parametrize("bearer", CommissionBearer)
async def test_a_returned_commission_returns_no_tax(
    shop: Shop,
    use_prices: UsePrices,
    bearer: CommissionBearer,
    included: bool,
    earned: int,
    owed: int,
    paid_back: int,
) -> None:
    priced = plan(line(PriceTerms(fixed_minor=150_00)), plan=OWN, merchant_id=shop.merchant.new.id)
    use_prices(shop.merchant.new.id, priced, tax(included=included))
    await shop.set_commission("0", bearer)
    await shop.fund("500")
    disputes = Disputes(shop)
    disputes.settings = PlatformSettings(dispute_commission="returned")
    paid = await disputes.pay()
    amount = str((await shop.payment(paid.started)).quote.customer_pays.amount)
    await disputes.open(paid, amount)
    lost = disputes.one(await disputes.report(paid.reported(LOST, amount)))

    assert lost.commission_minor == paid_back
    assert (await shop.account("commission"), await shop.account("tax:vat")) == (earned, owed)
    assert await disputes.broken_rules() == []


async def _accounts(disputes: Disputes, dispute: Dispute) -> dict[str, int]:
    """Returns what the postings of the dispute's fee changed, without the wallet."""
    records = await disputes.db.records(
        """
        SELECT e.account, sum(e.amount_minor)::bigint AS minor FROM posting p
          JOIN entry e ON e.merchant_id = p.merchant_id AND e.posting_id = p.id
         WHERE p.merchant_id = $1 AND p.trx_id = $2 AND p.kind LIKE $3 || '%'
           AND e.account NOT LIKE 'wallet%'
         GROUP BY e.account""",
        *(dispute.merchant_id, dispute.trx_id, PostingKind.DISPUTE_FEE),
    )
    return {record["account"]: record["minor"] for record in records}
