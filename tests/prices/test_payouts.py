"""Payouts and settlements with a plan and taxes."""

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest

from manilla.kit.price import PriceTerms
from manilla.ledger.invariants import check
from manilla.ledger.scope import Tenant
from manilla.ledger.statement import StatementFilter
from manilla.lookup import wallet_statement
from manilla.prices.price import PriceDirection, TaxBearer
from tests.payouts.payout_merchant import PayoutMerchant
from tests.prices.building import STAMP_DUTY, line, plan, tax
from tests.prices.conftest import UsePrices
from tests.support.invariants import ALL

FEE = line(PriceTerms(50_00), direction=PriceDirection.PAYOUT)


async def _account(payer: PayoutMerchant, name: str) -> int:
    minor: int = await payer.services.db.value(
        "SELECT coalesce(sum(amount_minor), 0)::bigint FROM entry"
        " WHERE merchant_id = $1 AND account = $2",
        *(payer.merchant.new.id, name),
    )
    return minor


async def _balance(payer: PayoutMerchant) -> int:
    minor: int = await payer.services.db.value(
        "SELECT balance_minor FROM wallet WHERE merchant_id = $1 AND environment = $2"
        " AND currency = 'NGN'",
        *(payer.merchant.new.id, payer.merchant.environment),
    )
    return minor


async def _set_account(payer: PayoutMerchant, number: str) -> None:
    """Sets the settlement account, as if its waiting time had passed."""
    await payer.services.db.execute(
        """
        INSERT INTO settlement_account (merchant_id, environment, currency, method_code,
               beneficiary, bank_name, account_name, set_by, effective_at)
        VALUES ($1, $2, 'NGN', 'providera_ngn_transfer', $3, 'GTBank', 'ADA', 'ada@example.com',
                now() - interval '2 days')""",
        *(payer.merchant.new.id, payer.merchant.environment),
        json.dumps({"bank_code": "058", "account_number": number}),
    )


async def _send(payer: PayoutMerchant, **changed: Any) -> str:
    """Sends a payout, which the provider leaves pending."""
    await payer.simulator.control("a/faults", {"settle_seconds": 3600})
    trx_id = await payer.pay_out(**changed)
    await payer.check_now(trx_id)
    return trx_id


async def _verify_ledger(payer: PayoutMerchant) -> None:
    assert [each for each in await check(payer.services.db, ALL) if each.count] == []


async def test_a_payout_pays_the_fee_of_its_plan_and_the_taxes(
    payer: PayoutMerchant, use_prices: UsePrices
) -> None:
    await payer.fund("10000")
    use_prices(payer.merchant.new.id, plan(FEE), tax(), STAMP_DUTY)
    before = await _balance(payer)

    reply = await payer.ask(payout_amount=10_000)

    info = reply.json["info"]
    assert (info["fee"], info["payable_amount"]) == (50, 10_103.75)
    assert info["commission_parts"] == [{"kind": "fixed", "amount": 50}]
    assert [(each["name"], each["base"], each["amount"]) for each in info["taxes"]] == [
        ("stamp_duty", "transfer", 50),
        ("vat", "fee", 3.75),
    ]
    assert before - await _balance(payer) == 1_010_375
    assert await _account(payer, "payout_fee") == 50_00
    assert (await _account(payer, "tax:vat"), await _account(payer, "tax:stamp_duty")) == (
        375,
        5000,
    )
    await payer.check_until(reply.json["trx_id"], "completed")
    verified = (await payer.verify(reply.json["trx_id"])).json
    assert (verified["taxes"], verified["commission_parts"]) == (
        info["taxes"],
        info["commission_parts"],
    )
    await _verify_ledger(payer)


async def test_a_failed_payout_returns_its_taxes(
    payer: PayoutMerchant, use_prices: UsePrices
) -> None:
    await payer.fund("10000")
    use_prices(payer.merchant.new.id, plan(FEE), tax(), STAMP_DUTY)
    before = await _balance(payer)
    trx_id = await _send(payer, payout_amount=10_000)

    await payer.settle("a", trx_id, "failed")
    await payer.check_until(trx_id, "failed")

    assert await _balance(payer) == before
    assert (await _account(payer, "tax:vat"), await _account(payer, "tax:stamp_duty")) == (0, 0)
    await _verify_ledger(payer)


async def test_a_failed_payout_keeps_a_tax_whose_rule_says_so(
    payer: PayoutMerchant, use_prices: UsePrices
) -> None:
    kept = tax("levy", percent=None, fixed_minor=20_00, returned=False)
    use_prices(payer.merchant.new.id, plan(FEE), tax(), kept)
    before = await _balance(payer)
    trx_id = await _send(payer, payout_amount=1_000)

    await payer.settle("a", trx_id, "failed")
    await payer.check_until(trx_id, "failed")

    assert before - await _balance(payer) == 20_00
    assert (await _account(payer, "tax:vat"), await _account(payer, "tax:levy")) == (0, 20_00)
    records = await payer.services.db.records(
        "SELECT body FROM notification WHERE merchant_id = $1 AND trx_id = $2 AND url <> ''",
        *(payer.merchant.new.id, trx_id),
    )
    assert [json.loads(each["body"])["refunded_amount"] for each in records] == [1_053.75]
    tenant = Tenant(payer.merchant.new.id, payer.merchant.environment)
    found = await wallet_statement.lines(payer.services.db, tenant, "NGN", StatementFilter())
    fees = {line.kind: line.fee_minor for line in found.rows if line.trx_id == trx_id}
    assert fees == {"payout": 73_75, "payout_refund": -53_75}
    await _verify_ledger(payer)


@pytest.mark.parametrize(
    ("terms", "fee", "owed"),
    [({"included": True}, 46_51, 3_49), ({"borne_by": TaxBearer.PLATFORM}, 46_25, 3_75)],
)
async def test_a_tax_in_the_fee_of_a_payout_reduces_the_income(
    payer: PayoutMerchant,
    use_prices: UsePrices,
    terms: dict[str, Any],
    fee: int,
    owed: int,
) -> None:
    use_prices(payer.merchant.new.id, plan(FEE), tax(**terms))
    before = await _balance(payer)

    await payer.pay_out(payout_amount=1_000)

    assert before - await _balance(payer) == 1_050_00
    assert (await _account(payer, "payout_fee"), await _account(payer, "tax:vat")) == (fee, owed)
    await _verify_ledger(payer)


async def test_many_payouts_in_one_batch_each_pay_their_taxes(
    payer: PayoutMerchant, use_prices: UsePrices
) -> None:
    use_prices(payer.merchant.new.id, plan(FEE), tax())
    orders = [await payer.order(payout_amount=amount) for amount in (100, 200, 300, 400)]

    replies = await asyncio.gather(*(payer.send(each) for each in orders))

    assert [reply.status for reply in replies] == [200] * 4
    assert (await _account(payer, "payout_fee"), await _account(payer, "tax:vat")) == (20000, 1500)
    await _verify_ledger(payer)


async def test_a_balance_that_covers_the_fee_but_not_the_tax_is_not_enough(
    payer: PayoutMerchant, use_prices: UsePrices
) -> None:
    use_prices(payer.merchant.new.id, plan(FEE), tax())

    reply = await payer.ask(payout_amount=9_950)

    assert (reply.status, reply.json["error_code"]) == (422, "insufficient_balance")
    await _verify_ledger(payer)


async def test_a_salary_is_exempt_and_another_purpose_is_rejected(
    payer: PayoutMerchant, use_prices: UsePrices
) -> None:
    await payer.fund("20000")
    use_prices(payer.merchant.new.id, None, STAMP_DUTY)

    salary = await payer.ask(payout_amount=10_000, purpose="salary")
    other = await payer.ask(payout_amount=10_000, purpose="rent")

    assert salary.json["info"]["purpose"] == "salary"
    assert "taxes" not in salary.json["info"]
    assert (other.status, other.json["errors"].keys()) == (400, {"purpose"})
    await _verify_ledger(payer)


async def test_a_payout_to_another_account_is_not_to_the_own_account(
    payer: PayoutMerchant, use_prices: UsePrices
) -> None:
    await payer.fund("20000")
    use_prices(payer.merchant.new.id, None, STAMP_DUTY)

    without = await payer.ask(payout_amount=10_000, purpose="own_account")
    await _set_account(payer, "9876543210")
    wrong = await payer.ask(payout_amount=10_000, purpose="own_account")

    for reply in (without, wrong):
        assert (reply.status, reply.json["error_code"]) == (422, "invalid_beneficiary")
    await _verify_ledger(payer)


async def test_a_payout_to_the_settlement_account_is_priced_as_a_settlement(
    payer: PayoutMerchant, use_prices: UsePrices
) -> None:
    await payer.fund("20000")
    free = line(PriceTerms(percent=Decimal(1)), direction=PriceDirection.SETTLEMENT)
    use_prices(payer.merchant.new.id, plan(FEE, free), STAMP_DUTY)
    order = await payer.order(payout_amount=10_000, purpose="own_account")
    await _set_account(payer, order["beneficiary"]["account_number"])
    order["beneficiary"] = {**order["beneficiary"], "bank_code": "058"}

    reply = await payer.send(order)

    assert reply.status == 200, reply.body
    assert (reply.json["info"]["fee"], reply.json["info"]["payable_amount"]) == (100, 10_100)
    await _verify_ledger(payer)


@pytest.mark.parametrize("purpose", [["rent"], "salary", "own_account"])
async def test_without_plans_and_taxes_any_purpose_is_ignored(
    payer: PayoutMerchant, use_prices: UsePrices, purpose: object
) -> None:
    use_prices(payer.merchant.new.id, None)

    reply = await payer.ask(payout_amount=1_000, purpose=purpose)

    assert reply.status == 200
    assert {"purpose", "taxes", "commission_parts"}.isdisjoint(reply.json["info"])
