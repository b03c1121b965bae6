"""The wallet's balance and statement. Each line's balance follows from the previous line's."""

import asyncio
from datetime import timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.listing import Page
from manilla.kit.money import Money
from manilla.ledger.scope import Tenant
from manilla.ledger.statement import StatementFilter
from manilla.lookup import statement, wallet_statement
from manilla.lookup.wallet_statement import StatementTotals, WalletLine
from manilla.merchants import merchants, wallets
from manilla.merchants.merchants import CommissionBearer, MerchantUpdate
from manilla.payouts import decisions
from manilla.services import Services
from tests.lists.pages import every, get, page
from tests.payments import steps
from tests.payments.shop import Shop
from tests.payouts.payout_merchant import ACCOUNT, MANUAL, PayoutMerchant, exact, method
from tests.support.client import Merchant, new_merchant

BALANCE, LIST = "/api/v1/balance", "/api/v1/balance-transactions"
START = Decimal(1_000_000)


async def _balance(payer: PayoutMerchant) -> Any:
    reply = await payer.merchant.get(BALANCE)
    assert reply.status == 200, reply.body
    return exact(reply)


async def _do_business(payer: PayoutMerchant) -> dict[str, str]:
    """Creates a payment and its refund, and one delivered, one failed and one open payout."""
    paid = await steps.new_payment(payer.merchant, "success", customer_name="Ada Obi")
    await payer.simulator.run_job_now("payment.sandbox", paid)
    body = {"trx_id": paid, "ref_trx": f"REFUND-{paid}", "amount": 250}
    refund = await payer.merchant.post("/api/v1/initiate-refund", body)
    delivered, failed = [
        (await payer.send(await payer.order(), X_Sandbox_Scenario=scenario)).json["trx_id"]
        for scenario in ("success", "failed")
    ]
    for trx_id in (delivered, failed):
        await payer.simulator.run_job_now("payout.sandbox", trx_id)
    return {
        "payment": paid,
        "refund": refund.json["trx_id"],
        "delivered": delivered,
        "failed": failed,
        "open": await payer.pay_out(MANUAL),
    }


async def test_the_balance_shows_what_is_available_and_what_open_payouts_cost(
    sandbox_payer: PayoutMerchant, db: Database
) -> None:
    fresh = await _balance(sandbox_payer)
    assert fresh["environment"] == "sandbox"
    ngn = {"currency_code": "NGN", "available": START, "in_flight": 0, "withheld": 0, "short": 0}
    assert ngn in fresh["balances"]
    trx_id = await sandbox_payer.pay_out(MANUAL)
    payout = await sandbox_payer.payout(trx_id)
    (during,) = [b for b in (await _balance(sandbox_payer))["balances"] if b["in_flight"]]
    assert during["in_flight"] == payout.payable.amount
    assert during["available"] == START - payout.payable.amount
    await decisions.reject(db, sandbox_payer.services.rails, trx_id, "The bank is closed.")
    assert await _balance(sandbox_payer) == fresh


async def test_balances_of_other_environments_and_merchants_are_not_shown(
    sandbox_payer: PayoutMerchant, db: Database, keyring: Keyring
) -> None:
    await sandbox_payer.pay_out(MANUAL)
    merchant = sandbox_payer.merchant
    in_production = msgspec.structs.replace(merchant, environment=Environment.PRODUCTION)
    other = await new_merchant(merchant.site, db, keyring, environment=Environment.PRODUCTION)
    for stranger in (in_production, other):
        answer = (await stranger.get(BALANCE)).json
        assert answer["environment"] == "production"
        assert {(b["available"], b["in_flight"]) for b in answer["balances"]} == {(0, 0)}
        assert await every(stranger, LIST) == []


async def test_the_statement_is_gapless_and_ends_at_the_balance(
    sandbox_payer: PayoutMerchant,
) -> None:
    made = await _do_business(sandbox_payer)
    merchant = sandbox_payer.merchant
    lines = await every(merchant, LIST, limit=2)
    assert lines == (await page(merchant, LIST))["data"]
    before = Decimal(0)
    for line in reversed(lines):
        before += Decimal(str(line["amount"]))
        assert Decimal(str(line["balance_after"])) == before
    (balance,) = [
        b for b in (await _balance(sandbox_payer))["balances"] if b["currency_code"] == "NGN"
    ]
    assert before == balance["available"]
    kinds = [(line["kind"], line["trx_id"]) for line in lines]
    assert kinds[:-1] == [
        ("payout", made["open"]),
        ("payout_refund", made["failed"]),
        ("payout", made["failed"]),
        ("payout", made["delivered"]),
        ("refund", made["refund"]),
        ("payment", made["payment"]),
    ]
    assert (kinds[-1][0], lines[-1]["ref_trx"]) == ("funding", None)
    assert set(lines[0]) == {
        *("trx_id", "ref_trx", "kind", "amount", "balance_after", "currency_code", "created_at")
    }


async def test_a_page_is_the_same_if_its_postings_are_too_far_apart_to_share_a_statement(
    sandbox_payer: PayoutMerchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _do_business(sandbox_payer)
    merchant = sandbox_payer.merchant
    lines = await every(merchant, LIST, limit=3)
    monkeypatch.setattr(statement, "TOGETHER_MAX", -1)
    assert await every(merchant, LIST, limit=3) == lines


async def test_statements_requested_at_the_same_time_have_the_lines_of_their_caller(
    sandbox_payer: PayoutMerchant, db: Database, keyring: Keyring
) -> None:
    await _do_business(sandbox_payer)
    merchant = sandbox_payer.merchant
    other = await new_merchant(merchant.site, db, keyring)
    lines, others = await every(merchant, LIST), await every(other, LIST)
    assert len(others) == 1
    requested: list[tuple[Merchant, dict[str, Any], list[Any]]] = [
        (merchant, {"limit": 2}, lines[:2]),
        (other, {}, others),
        (merchant, {"currency_code": "NGN"}, lines),
        (merchant, {"currency_code": "KES"}, []),
        (merchant, {"limit": 3, "since": lines[3]["created_at"]}, lines[:3]),
        (merchant, {"ref_trx": lines[0]["ref_trx"]}, lines[:1]),
    ]
    pages = await asyncio.gather(*(page(who, LIST, **query) for who, query, _ in requested))
    assert [each["data"] for each in pages] == [expected for _, _, expected in requested]


async def test_lines_have_the_references_of_their_transactions_and_can_be_found_by_them(
    sandbox_payer: PayoutMerchant,
) -> None:
    made = await _do_business(sandbox_payer)
    merchant = sandbox_payer.merchant
    lines = await every(merchant, LIST)
    references = {line["trx_id"]: line["ref_trx"] for line in lines}
    assert references[made["refund"]] == f"REFUND-{made['payment']}"
    assert references[made["delivered"]] == (await sandbox_payer.payout(made["delivered"])).ref_trx
    for trx_id in made.values():
        found = await page(merchant, LIST, ref_trx=references[trx_id])
        assert found["data"] == [line for line in lines if line["trx_id"] == trx_id]
    assert (await page(merchant, LIST, ref_trx="unknown")) == {"data": [], "next_cursor": None}


async def test_a_commission_has_the_reference_of_its_payment(shop: Shop) -> None:
    await shop.set_commission("1.5", CommissionBearer.MERCHANT)
    await shop.fund("15")
    started = await shop.start()
    await shop.pay(await shop.choose(started, "providera-ngn"))
    await shop.until(started, "success")
    reference = started.info["ref_trx"]
    found = await page(shop.merchant, LIST, ref_trx=reference)
    lines = [(line["kind"], line["amount"], line["ref_trx"]) for line in found["data"]]
    assert sorted(lines) == [("commission", -15, reference), ("payment", 1000, reference)]


async def test_each_line_of_the_wallets_page_has_a_reference_a_name_and_its_fee(
    sandbox_payer: PayoutMerchant,
) -> None:
    async with method(sandbox_payer.services, "a", fee_fixed="25"):
        made = await _do_business(sandbox_payer)
    lines = (await _lines(sandbox_payer.merchant, sandbox_payer.services)).rows
    references = {line["trx_id"]: line["ref_trx"] for line in await _api(sandbox_payer.merchant)}
    assert {line.trx_id: line.ref_trx for line in lines} == references
    found = {(line.kind, line.trx_id): (line.name, line.source, line.fee_minor) for line in lines}
    beneficiary = "SANDBOX BENEFICIARY"
    assert {key: found[key] for key in found if key[0] != "funding"} == {
        ("payment", made["payment"]): ("Ada Obi", "payment", 0),
        ("refund", made["refund"]): ("Ada Obi", "refund", 0),
        ("payout", made["delivered"]): (beneficiary, "payout", 2_500),
        ("payout", made["failed"]): (beneficiary, "payout", 2_500),
        ("payout_refund", made["failed"]): (beneficiary, "payout", -2_500),
        ("payout", made["open"]): (ACCOUNT, "payout", 0),
    }


async def test_a_periods_totals_lead_from_the_opening_to_the_closing_balance(
    sandbox_payer: PayoutMerchant,
) -> None:
    payer = sandbox_payer
    async with method(payer.services, "a", fee_fixed="25"):
        await _do_business(payer)
    lines = (await _lines(payer.merchant, payer.services)).rows
    whole = await _totals(payer, StatementFilter())
    assert [each.amount for each in msgspec.structs.astuple(whole)] == [
        *(0, START + 1000 + 1000, 25, 250 + 1000 + 1000 + 1000),
        lines[0].balance.amount,
    ]
    # Without the funding and the last payout:
    period = StatementFilter(since=lines[-2].posted_at, until=lines[0].posted_at)
    part = await _totals(payer, period)
    assert [each.amount for each in msgspec.structs.astuple(part)] == [
        *(START, 1000 + 1000, 25, 250 + 1000 + 1000),
        lines[1].balance.amount,
    ]
    later = StatementFilter(since=lines[0].posted_at + timedelta(seconds=1))
    empty = await _totals(payer, later)
    assert empty == StatementTotals(
        *(lines[0].balance, *[Money("NGN", 0)] * 3, lines[0].balance),
    )


async def test_the_wallets_page_shows_the_commission_as_a_fee_of_its_payment(shop: Shop) -> None:
    await shop.set_commission("1.5", CommissionBearer.MERCHANT)
    await shop.fund("15")
    started = await shop.start(customer_email="ada@example.com")
    await shop.pay(await shop.choose(started, "providera-ngn"))
    await shop.until(started, "success")
    found = {line.kind: line for line in (await _lines(shop.merchant, shop.services)).rows}
    fee = found["commission"]
    shown = fee.ref_trx, fee.name, fee.fee_minor, fee.source_id
    assert shown == (started.info["ref_trx"], "ada@example.com", 1_500, started.trx_id)
    about = _tenant(shop.merchant), "NGN"
    totals = await wallet_statement.totals(shop.services.db, *about, StatementFilter())
    assert totals is not None
    amounts = totals.received, totals.fees, totals.sent
    assert amounts == (Money("NGN", 101_500), Money("NGN", 1_500), Money("NGN", 0))


def _tenant(merchant: Merchant) -> Tenant:
    return Tenant(merchant.new.id, merchant.environment)


async def _lines(merchant: Merchant, services: Services) -> Page[WalletLine]:
    return await wallet_statement.lines(services.db, _tenant(merchant), "NGN", StatementFilter())


async def _api(merchant: Merchant) -> list[Any]:
    return await every(merchant, LIST)


async def _totals(payer: PayoutMerchant, wanted: StatementFilter) -> StatementTotals:
    about = payer.services.db, _tenant(payer.merchant), "NGN"
    found = await wallet_statement.totals(*about, wanted)
    assert found is not None
    assert found.opening + found.received - found.fees - found.sent == found.closing
    return found


async def test_the_statement_takes_times_and_no_status(sandbox_payer: PayoutMerchant) -> None:
    await _do_business(sandbox_payer)
    merchant = sandbox_payer.merchant
    lines = await every(merchant, LIST)
    second, fifth = lines[1]["created_at"], lines[4]["created_at"]
    expected = [line for line in lines if fifth <= line["created_at"] < second]
    assert await every(merchant, LIST, since=fifth, until=second, limit=1) == expected
    far = {"since": "0001-01-01T00:00:00+14:00", "until": "9999-12-31T23:59:59-14:00"}
    assert await every(merchant, LIST, **far) == lines
    reply = await get(merchant, LIST, status="success")
    assert (reply.status, set(reply.json["errors"])) == (400, {"status"})


async def test_the_statement_merges_wallets_and_can_show_one(
    sandbox_payer: PayoutMerchant, services: Any
) -> None:
    merchant, db = sandbox_payer.merchant, sandbox_payer.services.db
    await merchants.change(
        db, services.keyring, merchant.new.id, MerchantUpdate(currencies=["NGN", "USD"])
    )
    for number in range(1, 6):
        for currency in ("USD", "NGN"):
            money = Money.of(number, currency)
            await wallets.fund(db, merchant.new.id, merchant.environment, money, "for a test")
    lines = await every(merchant, LIST, limit=3)
    assert len(lines) == 12
    assert [line["currency_code"] for line in lines[:10]] == ["NGN", "USD"] * 5
    assert [line["amount"] for line in lines[:10:2]] == [5, 4, 3, 2, 1]
    for currency in ("USD", "NGN"):
        one = await every(merchant, LIST, currency_code=currency, limit=2)
        assert one == [line for line in lines if line["currency_code"] == currency]
    assert await every(merchant, LIST, currency_code="GBP") == []


async def test_a_line_that_waited_for_the_wallet_is_not_dated_before_the_one_below_it(
    sandbox_payer: PayoutMerchant,
) -> None:
    merchant, db = sandbox_payer.merchant, sandbox_payer.services.db
    whose = merchant.new.id, merchant.environment
    async with db.transaction() as early:
        # With this query, the transaction starts before the next posting's transaction.
        await early.value("SELECT now()")
        await wallets.fund(db, *whose, Money.of(1, "NGN"), "first")
        await wallets.fund(early, *whose, Money.of(2, "NGN"), "second")
    lines = await every(merchant, LIST)
    assert [line["amount"] for line in lines[:2]] == [2, 1]
    times = [line["created_at"] for line in lines]
    assert times == sorted(times, reverse=True)


async def test_an_empty_currency_is_rejected(sandbox_payer: PayoutMerchant) -> None:
    reply = await sandbox_payer.merchant.get(f"{LIST}?currency_code=")
    assert (reply.status, set(reply.json["errors"])) == (400, {"currency_code"})
