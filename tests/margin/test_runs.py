"""Plans are computed over stored transactions, and providers' fees compared with plans."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from manilla.kit.environment import Environment
from manilla.kit.price import PriceTerms
from manilla.margin import figures, plans, runs, transactions
from manilla.margin.figures import BadPeriod, MarginGroup
from manilla.margin.plans import NoPlan
from manilla.margin.runs import Run, RunLimit
from manilla.margin.transactions import Traded, TradedTransaction
from manilla.merchants.merchants import CommissionBearer
from manilla.prices import price
from manilla.prices.price import PlanTerms, PlanVersion, Priced, PriceDirection, PriceLine, Way
from tests.margin.trading import WAY, Trading

MERCHANT, CUSTOMER = CommissionBearer.MERCHANT, CommissionBearer.CUSTOMER
LIMIT = RunLimit(transactions=1_000_000, seconds=600)
PERCENT = PriceTerms(10_000, Decimal("1.5"), maximum_minor=200_000, waived_below_minor=250_000)


def line(terms: PriceTerms, **changed: Any) -> PriceLine:
    values: dict[str, Any] = {
        "direction": PriceDirection.PAYMENT,
        "currency": "NGN",
        "terms": terms,
    }
    return PriceLine(**(values | changed))


def plan(*lines: PriceLine, name: str = "try") -> PlanVersion:
    return PlanVersion(name, 1, datetime(2026, 1, 1, tzinfo=UTC), PlanTerms(title="T", lines=lines))


def sold(amount_minor: int, **changed: Any) -> TradedTransaction:
    values: dict[str, Any] = {
        "kind": Traded.PAYMENT,
        "merchant_id": 7,
        "trx_id": "TXN",
        "environment": Environment.PRODUCTION,
        "currency": "NGN",
        "amount_minor": amount_minor,
        "method_code": WAY,
        "channel": None,
        "provider": "providera",
        "charged_minor": 0,
        "taken_minor": 0,
        "bearer": MERCHANT,
        "handled_minor": amount_minor,
    }
    return TradedTransaction(**(values | changed))


async def run(trading: Trading, version: PlanVersion, **changed: Any) -> Run:
    return await plans.try_plan(trading.db, trading.filter(**changed), version, LIMIT)


async def test_a_plan_is_compared_with_what_was_charged(trading: Trading) -> None:
    await trading.charge("1.5", MERCHANT)
    await trading.pay(1000)
    await trading.pay(10_000)
    payout = await trading.pay_out(1000)
    assert payout
    before = await trading.records()
    found = await run(trading, plan(line(PERCENT)))
    assert await trading.records() == before
    assert (found.is_complete, found.transactions) == (True, 3)
    by_kind = {row.kind: row for row in found.rows}
    paid = by_kind[Traded.PAYMENT]
    # 1,000.00 does not pay the fixed part of 100.00.
    assert (paid.actual_minor, paid.computed.minor) == (1500 + 15_000, 1500 + 25_000)
    kept = by_kind[Traded.PAYOUT]
    assert (kept.unknown, kept.actual_minor, kept.computed.minor) == (1, 5000, 5000)


async def test_what_the_customer_pays_does_not_depend_on_the_way(trading: Trading) -> None:
    await trading.charge("1.5", CUSTOMER)
    await trading.pay(1000)
    version = plan(line(PriceTerms(700)), line(PriceTerms(900), method=WAY))
    [row] = (await run(trading, version)).rows
    assert row.computed.minor == 700
    await trading.charge("1.5", MERCHANT)
    await trading.pay(1000)
    [row] = (await run(trading, version)).rows
    assert row.computed.minor == 700 + 900


async def test_a_provider_fee_that_differs_from_its_plan_is_shown(trading: Trading) -> None:
    await trading.charge("1.5", CUSTOMER)
    await trading.pay(1000)
    async for page in transactions.pages(trading.db, trading.filter()):
        taken = page[0].taken_minor
    assert taken

    async def fees(*lines: PriceLine) -> runs.ComparedWay:
        versions = [plan(*lines, name="provider-providera")]
        wanted = trading.filter()
        [row] = (await plans.provider_fees(trading.db, wanted, versions, LIMIT)).rows
        return row

    equal, lower = await fees(line(PriceTerms(taken))), await fees(line(PriceTerms(taken - 50)))
    assert (equal.compared, equal.difference_minor) == (1, 0)
    assert (lower.compared, lower.actual_minor, lower.difference_minor) == (1, taken, -50)
    unknown = await fees(line(PriceTerms(1), currency="USD"))
    assert (unknown.compared, unknown.difference_minor) == (0, 0)


async def test_transactions_that_cost_more_than_they_earn_are_listed(trading: Trading) -> None:
    await trading.charge("10", MERCHANT)
    await trading.pay(1000)
    assert (await transactions.losses(trading.db, trading.filter())).rows == []
    await trading.charge("0", MERCHANT)
    started, _ = await trading.pay(1000)
    await trading.pay(1000)
    page = await transactions.losses(trading.db, trading.filter(), limit=1)
    assert [each.trx_id for each in page.rows] == [started.trx_id]
    rest = await transactions.losses(trading.db, trading.filter(), after=page.next, limit=1)
    assert len(rest.rows) == 1
    assert started.trx_id not in {each.trx_id for each in rest.rows}


async def test_a_period_without_transactions_is_empty(trading: Trading) -> None:
    month = {"since": date(2020, 2, 1), "until": date(2020, 2, 29)}
    found = await run(trading, plan(line(PERCENT)), **month)
    assert found == Run([], 0, is_complete=True)
    assert await trading.rows(MarginGroup.DETAIL, **month) == []
    assert (await transactions.losses(trading.db, trading.filter(**month))).rows == []


async def test_a_period_that_ends_before_it_starts_is_rejected(trading: Trading) -> None:
    wanted = trading.filter(since=date(2026, 2, 1), until=date(2026, 1, 1))
    with pytest.raises(BadPeriod):
        await figures.rows(trading.db, wanted, MarginGroup.WAY)
    with pytest.raises(BadPeriod):
        await plans.try_plan(trading.db, wanted, plan(line(PERCENT)), LIMIT)


async def pages(*rows: TradedTransaction) -> AsyncIterator[list[TradedTransaction]]:
    for row in rows:
        yield [row]


async def compared(version: PlanVersion, *rows: TradedTransaction, limit: RunLimit = LIMIT) -> Run:
    computed = plans.by_version(version)
    return await runs.compare(
        pages(*rows), lambda _each: True, lambda each: each.charged_minor, computed, limit
    )


async def test_a_currency_without_decimals_has_whole_units() -> None:
    terms = PriceTerms(0, Decimal("1.5"))
    version = plan(line(terms, currency="XOF"))
    [row] = (await compared(version, sold(333, currency="XOF", charged_minor=4))).rows
    assert (row.computed.minor, row.difference_minor) == (5, 1)
    assert str(row.computed.amount) == "5"


async def test_currencies_are_never_added() -> None:
    rows = (sold(1000), sold(1000, currency="USD"))
    found = await compared(plan(line(PriceTerms(7))), *rows)
    assert [(each.currency, each.compared) for each in found.sums()] == [("NGN", 1), ("USD", 0)]


async def test_a_plan_of_ten_thousand_lines_is_searched_once_per_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[str | None] = []
    find = price.find_line

    def found_line(versions: Sequence[PlanVersion], priced: Priced) -> Any:
        searched.append(priced.method)
        return find(versions, priced)

    monkeypatch.setattr(price, "find_line", found_line)
    lines = [line(PriceTerms(number), method=f"m-{number}") for number in range(10_000)]
    version = plan(*lines)
    rows = [sold(1000, method_code=f"m-{number % 3}") for number in range(3000)]
    found = await compared(version, *rows)
    assert set(searched) == {"m-0", "m-1", "m-2"}
    assert len(searched) == 3
    assert sum(row.computed.minor for row in found.rows) == 1000 * (0 + 1 + 2)


async def test_a_run_stops_at_its_limit_and_says_so() -> None:
    rows = [sold(1000)] * 10
    found = await compared(plan(line(PriceTerms(7))), *rows, limit=RunLimit(4, 600))
    assert (found.is_complete, found.transactions) == (False, 4)
    late = await compared(plan(line(PriceTerms(7))), *rows, limit=RunLimit(1000, 0))
    assert (late.is_complete, late.transactions) == (False, 1)


def test_a_channel_finds_the_line_of_its_way() -> None:
    version = plan(line(PriceTerms(1)), line(PriceTerms(2), way=Way.CARD))
    computed = plans.by_version(version)
    assert computed(sold(1000, channel="card")) == 2
    assert computed(sold(1000)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"title": 1}',
        '{"title": "x", "lines": [{}]}',
        "direction,currency,percent\npayment,NGN,101",
        "direction,currency,percent\npayment,NGN,-1",
        "direction,currency,percent,minimum,maximum\npayment,NGN,1,200,100",
        "direction,currency,percent\n" + "payment,NGN,1\n" * 10_000,
    ],
)
def test_a_text_that_is_no_plan_is_rejected(text: str) -> None:
    with pytest.raises(NoPlan):
        plans.read(text)


def test_a_pasted_plan_is_the_stored_form() -> None:
    version = plan(line(PERCENT))
    assert plans.read(msgspec.json.encode(version.content).decode()).content == version.content
