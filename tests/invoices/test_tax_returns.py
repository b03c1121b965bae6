"""A tax's return equals the ledger, and a remittance is never above what is owed."""

import asyncio
from datetime import datetime

import asyncpg
import msgspec
import pytest

from manilla.approvals import approvals
from manilla.approvals.approvals import Approvals
from manilla.approvals.changes import ApprovalRequested, apply_or_ask
from manilla.audit.actor import Actor, ActorKind, acting
from manilla.cli.output import as_row
from manilla.invoices import fees, files, remittance, returns
from manilla.invoices.remittance import RemittanceRefused, Remitted, TaxRemittance
from manilla.invoices.returns import TaxReturn
from manilla.kit.clock import LAGOS, next_month
from manilla.kit.database.connections import Database
from manilla.kit.money import Money
from manilla.ledger import provider_funds
from manilla.settings import Settings
from tests.invoices.books import Books
from tests.support import pdf_text


def naira(minor: int) -> Money:
    return Money("NGN", minor)


async def tax_return(books: Books, month: object = None) -> TaxReturn:
    found = await returns.of_month(books.db, month or books.month)  # type: ignore[arg-type]
    [own] = [each for each in found if each.tax == books.tax]
    return own


async def remit(books: Books, minor: int, **changed: object) -> Remitted:
    order = msgspec.structs.replace(TaxRemittance(books.tax, naira(minor), "REF-1"), **changed)
    async with books.db.transaction() as connection:
        return await remittance.remit(connection, order)


async def test_a_return_shows_each_months_liability(books: Books) -> None:
    following = next_month(books.month)
    await books.charge(1_000, books.at(1, hour=0), tax=75)
    await books.charge(-200, books.at(20), tax=-15)
    await books.charge(400, books.at(1, hour=0, month=following), tax=30)
    remitted = await remit(books, 60)
    await books.redate(remitted.trx_id, books.at(20, month=following))
    first, second = await tax_return(books), await tax_return(books, following)
    assert [amount.minor for _, amount in first.figures] == [0, 75, 15, 0, 60]
    assert [amount.minor for _, amount in second.figures] == [60, 30, 0, 60, 30]


async def test_the_closing_liability_of_the_latest_month_is_the_account_in_the_ledger(
    books: Books, db: Database
) -> None:
    await books.charge(1_000, books.at(3), tax=75)
    await books.charge(1_000, books.at(3, month=next_month(books.month)), tax=75)
    total = await db.value(
        "SELECT sum(amount_minor)::bigint FROM entry WHERE account = $1", f"tax:{books.tax}"
    )
    closing = (await tax_return(books, next_month(books.month))).closing
    assert closing.minor == total == 150


async def test_a_remittance_above_the_liability_is_rejected(books: Books) -> None:
    await books.charge(1_000, books.at(3), tax=75)
    with pytest.raises(RemittanceRefused, match=r"Only ₦0\.75"):
        await remit(books, 76)
    await remit(books, 75)
    with pytest.raises(RemittanceRefused, match=r"Only ₦0\.00"):
        await remit(books, 1)


async def test_concurrent_remittances_never_exceed_the_liability(books: Books) -> None:
    await books.charge(1_000, books.at(3), tax=75)
    results = await asyncio.gather(*(remit(books, 50) for _ in range(5)), return_exceptions=True)
    assert sum(isinstance(each, Remitted) for each in results) == 1
    assert (await returns.balances(books.db, books.tax))[books.tax, "NGN"] == 25


@pytest.mark.parametrize(
    "changed",
    [{"amount": naira(0)}, {"amount": naira(-5)}, {"reference": ""}, {"trx_id": "TXN1"}],
)
async def test_a_bad_remittance_is_rejected(books: Books, changed: dict[str, object]) -> None:
    await books.charge(1_000, books.at(3), tax=75)
    with pytest.raises(RemittanceRefused):
        await remit(books, 5, **changed)


async def test_a_form_that_is_submitted_twice_remits_once(books: Books) -> None:
    await books.charge(1_000, books.at(3), tax=75)
    once = provider_funds.new_id()
    await remit(books, 5, trx_id=once)
    with pytest.raises(RemittanceRefused, match="already"):
        await remit(books, 5, trx_id=once)


async def test_every_remittance_needs_a_second_administrator(books: Books) -> None:
    await books.charge(1_000, books.at(3), tax=75)
    services = Approvals(books.db, books.services.keyring, is_production_mode=True)
    asked = await apply_or_ask(services, TaxRemittance(books.tax, naira(1), "REF-1"))
    assert isinstance(asked, ApprovalRequested)
    assert (await returns.balances(books.db, books.tax))[books.tax, "NGN"] == 75
    [waiting] = [each for each in await approvals.waiting(books.db) if each.id == asked.approval_id]
    assert waiting.subject == f"tax:{books.tax}:NGN"
    with acting(Actor(ActorKind.PERSON, 2, "ben")):
        await approvals.approve(services, asked.approval_id)
    assert (await returns.balances(books.db, books.tax))[books.tax, "NGN"] == 74


async def test_the_returns_pdf_shows_all_figures(books: Books) -> None:
    await books.charge(1_000, books.at(3), tax=123_475)
    shown = pdf_text.read(await files.write_returns(books.month, [await tax_return(books)]))
    for expected in ("Opening liability", "₦1,234.75", "Closing liability", "adjustment"):
        assert expected in shown, expected


async def test_a_return_of_a_month_that_is_still_running_is_not_final(books: Books) -> None:
    await books.charge(1_000, books.at(3), tax=75)
    ended = await tax_return(books)
    this_month = datetime.now(LAGOS).date().replace(day=1)
    running = await tax_return(books, this_month)
    assert (ended.is_final, running.is_final) == (True, False)
    assert [as_row(returns.COLUMNS, each)["final"] for each in (ended, running)] == [True, False]
    for found, is_shown in ((ended, False), (running, True)):
        shown = pdf_text.read(await files.write_returns(found.month, [found]))
        assert (returns.NOT_FINAL[:28] in shown) == is_shown


async def test_a_return_reads_the_entries_of_each_posting_of_the_month_by_index(
    books: Books, settings: Settings
) -> None:
    number = 20_000
    connection = await asyncpg.connect(settings.migration_url)  # without time limits
    async with connection.transaction():
        await connection.execute(
            """
            INSERT INTO posting (merchant_id, environment, currency, kind, trx_id, posted_at)
            SELECT $1, 'production', 'NGN', 'adjustment', 'MANY-' || n, $2
              FROM generate_series(1, $3::int) AS n""",
            *(books.merchant_id, books.at(3), number),
        )
        await connection.execute(
            """
            INSERT INTO entry (merchant_id, posting_id, line, environment, currency, account,
                               amount_minor)
            SELECT merchant_id, id, line, 'production', 'NGN',
                   CASE line WHEN 1 THEN 'bank' ELSE $2 END, CASE line WHEN 1 THEN -7 ELSE 7 END
              FROM posting CROSS JOIN generate_series(1, 2) AS line
             WHERE merchant_id = $1 AND trx_id LIKE 'MANY-%'""",
            *(books.merchant_id, f"tax:{books.tax}"),
        )
    await connection.execute("ANALYZE posting, entry")  # as autovacuum would do
    month = fees.bounds(books.month)
    plan = [row[0] for row in await connection.fetch("EXPLAIN " + returns.MOVED, *month)]
    await connection.close()
    found = await tax_return(books)
    assert found.collected == naira(7 * number)
    assert found.kinds[0].count == number
    assert not [step for step in plan if "Seq Scan on entry" in step], plan
