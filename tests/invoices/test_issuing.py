"""One invoice for each merchant, month and currency, with numbers without gaps."""

import asyncio
from datetime import datetime, tzinfo

import asyncpg
import pytest

from manilla.invoices import fees, issuing, store
from manilla.invoices.invoice import InvoiceRefused, Party, read_month
from manilla.kit.clock import next_month
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger.scope import Tenant
from manilla.merchants import merchants
from manilla.merchants.merchants import CommissionBearer, MerchantStatus, MerchantUpdate
from tests.disputes.steps import LOST, Disputes
from tests.invoices.books import PAYOUT_FEE, Books
from tests.payments.shop import Shop
from tests.payouts.model import Killed
from tests.payouts.model_machine import dying_at


async def test_an_invoice_groups_the_months_fees_and_taxes_by_account_and_kind(
    books: Books,
) -> None:
    await books.charge(1_000, books.at(1), tax=75)
    await books.charge(2_000, books.at(28), tax=150)
    await books.charge(500, books.at(15), account=PAYOUT_FEE)
    [invoice] = await books.issue()
    assert [(line.account, line.count, line.minor) for line in invoice.lines] == [
        ("commission", 2, 3_000),
        ("payout_fee", 1, 500),
        (f"tax:{books.tax}", 2, 225),
    ]
    assert (invoice.fee, invoice.taxes, invoice.total) == (
        Money("NGN", 3_500),
        {books.tax: Money("NGN", 225)},
        Money("NGN", 3_725),
    )
    assert (invoice.type, invoice.number) == ("invoice", f"{books.settings.invoice_prefix}000001")


async def test_a_posting_belongs_to_the_month_in_lagos(books: Books) -> None:
    following = next_month(books.month)
    await books.charge(100, books.at(1, hour=0))
    await books.charge(200, books.at(1, hour=0, month=following))
    await books.charge(400, books.at(1, hour=-0.001))  # type: ignore[arg-type]
    await books.issue()
    await books.issue(following)
    assert [amount for _, _, amount in await books.issued()] == [100, 200]


async def test_a_month_without_fees_has_no_invoice_and_takes_no_number(books: Books) -> None:
    assert await books.issue() == []
    await books.charge(100, books.at(3))
    [invoice] = await books.issue()
    assert invoice.number.endswith("000001")


async def test_a_month_in_which_more_was_returned_than_charged_has_a_credit_note(
    books: Books,
) -> None:
    await books.charge(1_000, books.at(3), tax=75)
    await books.charge(-1_500, books.at(9), tax=-112)
    [note] = await books.issue()
    assert (note.type, note.amount_minor, note.total) == ("credit_note", -537, Money("NGN", 537))


async def test_each_currency_has_an_invoice_also_one_without_decimals(
    books: Books, db: Database
) -> None:
    await db.execute(
        "INSERT INTO wallet (merchant_id, environment, currency) VALUES ($1, 'production', 'XOF')",
        books.merchant_id,
    )
    await books.charge(1_000, books.at(3))
    await books.charge(1_000, books.at(3), currency="XOF")
    issued = await books.issue()
    assert sorted(str(each.total.amount) for each in issued) == ["10.00", "1000"]


async def test_sandbox_fees_are_not_invoiced(books: Books) -> None:
    await books.charge(100, books.at(3))
    tenant = Tenant(books.merchant_id, Environment.SANDBOX)
    await books.issue()
    page = await store.page(books.db, tenant, store.InvoiceFilter())
    assert page.rows == []


async def test_a_lost_dispute_in_the_next_month_is_credited_in_that_month(
    books: Books, shop: Shop
) -> None:
    following = next_month(books.month)
    await shop.set_commission("10", CommissionBearer.MERCHANT)
    await shop.fund("1000")
    disputes = Disputes(shop)
    disputes.settings = type(disputes.settings)(dispute_commission="returned")
    paid = await disputes.pay()
    await books.redate(paid.started.trx_id, books.at(20))
    ids = await books.db.records(
        "SELECT commission_trx_id AS id FROM payment WHERE trx_id = $1", paid.started.trx_id
    )
    await books.redate(ids[0]["id"], books.at(20))
    await disputes.open(paid)
    await disputes.report(paid.reported(LOST))
    [dispute] = await disputes.of(paid)
    await books.redate(dispute.trx_id, books.at(2, month=following))
    await books.issue()
    await books.issue(following)
    month, later = f"{books.month:%Y-%m}", f"{following:%Y-%m}"
    assert await books.issued() == [(month, 1, 10_000), (later, 2, -10_000)]


async def test_concurrent_issuers_leave_no_gap_and_issue_nothing_twice(books: Books) -> None:
    month = books.month
    for _ in range(4):
        await books.charge(100, books.at(3, month=month))
        month = next_month(month)
    months = [books.month]
    while len(months) < 4:
        months.append(next_month(months[-1]))
    await asyncio.gather(*(books.issue(each) for each in months * 3))
    assert [serial for _, serial, _ in await books.issued()] == [1, 2, 3, 4]
    assert len({each for each, _, _ in await books.issued()}) == 4


async def test_the_job_issues_each_merchants_invoice_once(books: Books) -> None:
    await books.charge(100, books.at(3))
    assert await books.run_job() is None
    assert await books.run_job() is None
    assert [amount for _, _, amount in await books.issued()] == [100]


@pytest.mark.parametrize("point", ["after_invoice_is_numbered", "after_invoice_is_issued"])
async def test_a_crash_while_invoices_are_issued_leaves_no_gap(books: Books, point: str) -> None:
    await books.charge(100, books.at(3))
    with dying_at(point), pytest.raises(Killed):
        await books.run_job()
    assert await books.run_job() is None
    assert [(serial, amount) for _, serial, amount in await books.issued()] == [(1, 100)]


async def test_only_ended_months_without_invoices_get_a_job(books: Books) -> None:
    await books.db.execute("DELETE FROM job WHERE kind = 'invoices'")
    await books.run_job()
    await books.tasks.schedule()
    found = await books.db.records("SELECT subject FROM job WHERE kind = 'invoices'")
    subjects = {row["subject"] for row in found}
    assert f"{books.month:%Y-%m}" not in subjects
    assert f"{next_month(books.month):%Y-%m}" in subjects
    await books.db.execute("DELETE FROM job WHERE kind = 'invoices'")


async def test_a_month_that_has_not_ended_is_rejected(books: Books) -> None:
    with pytest.raises(InvoiceRefused, match="one hour after"):
        await fees.check_ended(books.db, read_month("2099-01"))


async def test_invoices_wait_for_transactions_that_began_in_the_month(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    await books.charge(100, books.at(3))
    ends = books.at(1, month=read_month("2099-01"))
    monkeypatch.setattr(fees, "bounds", lambda _: (books.at(1), ends))
    monkeypatch.setattr(fees, "datetime", _Later)
    with pytest.raises(InvoiceRefused, match="still running"):
        async with books.db.transaction():
            await fees.check_ended(books.db, books.month)


class _Later:
    @staticmethod
    def now(zone: tzinfo) -> datetime:
        return datetime(2100, 1, 1, tzinfo=zone)


async def test_an_operator_without_a_tax_id_issues_nothing(books: Books) -> None:
    await books.charge(100, books.at(3))
    books.settings = type(books.settings)(invoice_prefix="X", invoices_since="2010-01")
    with pytest.raises(InvoiceRefused, match="legal_tax_id"):
        await books.issue()
    assert await books.run_job() == 900.0
    assert await books.issued() == []


async def test_a_disabled_merchant_gets_its_last_invoice(books: Books) -> None:
    await books.charge(100, books.at(3))
    await merchants.change(
        *(books.db, books.services.keyring, books.merchant_id),
        MerchantUpdate(status=MerchantStatus.DISABLED, status_reason="closed"),
    )
    assert await books.run_job() is None
    assert [amount for _, _, amount in await books.issued()] == [100]


async def test_a_merchant_that_lives_in_another_cell_gets_no_invoice_here(
    books: Books, owner: Database
) -> None:
    await books.charge(100, books.at(3))
    await owner.execute(
        "INSERT INTO cell (name, base_url, first_merchant, last_merchant)"
        " VALUES ('elsewhere', 'https://elsewhere.example', 8000000, 8000001)"
    )
    await owner.execute(
        "INSERT INTO merchant_fence (merchant_id, state, cell) VALUES ($1, 'left', 'elsewhere')",
        books.merchant_id,
    )
    try:
        assert await books.issue() == []
    finally:
        await owner.execute("DELETE FROM merchant_fence WHERE merchant_id = $1", books.merchant_id)
        await owner.execute("DELETE FROM cell WHERE name = 'elsewhere'")


async def test_a_cancelled_invoice_is_credited_and_issued_again(books: Books) -> None:
    await books.charge(1_000, books.at(3), tax=75)
    [before] = await books.issue()
    party = Party("Ada Foods Ltd", "2 Marina, Lagos", "87654321-0001")
    await issuing.set_recipient(books.db, books.merchant_id, party)
    note, after = await issuing.issue_again(
        books.db, books.settings, before.number, "The tax id was missing."
    )
    assert (note.type, note.corrects, note.total) == ("credit_note", before.number, before.total)
    assert (after.customer.name, after.customer.tax_id) == ("Ada Foods Ltd", "87654321-0001")
    assert [amount for _, _, amount in await books.issued()] == [1_075, -1_075, 1_075]


async def test_only_the_latest_invoice_of_a_month_can_be_cancelled(books: Books) -> None:
    await books.charge(1_000, books.at(3))
    [first] = await books.issue()
    again = books.db, books.settings
    note, _ = await issuing.issue_again(*again, first.number, "wrong name")
    for number in (first.number, note.number):
        with pytest.raises(InvoiceRefused, match="latest"):
            await issuing.issue_again(*again, number, "again")


async def test_a_late_posting_is_found_and_corrected_by_cancelling(books: Books) -> None:
    await books.charge(1_000, books.at(3))
    [first] = await books.issue()
    await books.charge(50, books.at(4))
    assert [each for each in await books.broken_rules() if "invoices_equal_the_ledger" in each]
    await issuing.issue_again(books.db, books.settings, first.number, "A late posting.")
    assert await books.broken_rules() == []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE fee_invoice SET amount_minor = 1 WHERE number = $1",
        "UPDATE fee_invoice SET lines = '[]' WHERE number = $1",
        "UPDATE fee_invoice SET customer = '{}' WHERE number = $1",
    ],
)
async def test_an_issued_invoice_never_changes(books: Books, owner: Database, change: str) -> None:
    await books.charge(1_000, books.at(3))
    [invoice] = await books.issue()
    with pytest.raises(Exception, match=r"never|append|rewrit|change"):
        await owner.execute(change, invoice.number)
    assert await store.find(books.db, invoice.number) == invoice


async def test_the_application_cannot_delete_an_invoice(books: Books) -> None:
    await books.charge(1_000, books.at(3))
    [invoice] = await books.issue()
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await books.db.execute("DELETE FROM fee_invoice WHERE number = $1", invoice.number)
    assert await store.find(books.db, invoice.number) == invoice


async def test_the_authoritys_reference_is_recorded_and_audited(books: Books) -> None:
    await books.charge(1_000, books.at(3))
    [invoice] = await books.issue()
    reference = f"{invoice.number}-59854B81-20261201"
    after = await issuing.record_reference(books.db, invoice.number, reference, "signed")
    assert (after.authority_reference, after.authority_qr) == (reference, "signed")
    entries = await books.db.records(
        "SELECT detail::text FROM audit WHERE action = 'invoice.reference' AND subject = $1",
        f"invoice:{invoice.number}",
    )
    assert reference in entries[0]["detail"]


@pytest.mark.parametrize(
    ("reference", "qr"), [("", ""), ("a\nb", ""), ("x" * 201, ""), ("x", "\0")]
)
async def test_an_invalid_reference_is_rejected(books: Books, reference: str, qr: str) -> None:
    await books.charge(1_000, books.at(3))
    [invoice] = await books.issue()
    with pytest.raises(Refusal):
        await issuing.record_reference(books.db, invoice.number, reference, qr)
