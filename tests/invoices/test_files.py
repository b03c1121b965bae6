"""An invoice's PDF and UBL files, against the schemas of UBL 2.1."""

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from lxml import etree  # type: ignore[import-untyped]

from manilla.invoices import files, issuing, ubl
from manilla.invoices.invoice import Invoice, Party
from manilla.kit.database.connections import Database
from manilla.mail import queries
from manilla.mail.kinds import MailKind
from manilla.people.roles import Role
from manilla.prices import store as prices
from manilla.services import Services
from tests.invoices.books import PAYOUT_FEE, Books
from tests.prices.building import tax
from tests.support import pdf_text
from tests.support.client import Site
from tests.web.signed_in_user import member

SCHEMAS = Path(__file__).parent / "ubl21"
NAMES = {"cbc": ubl.CBC, "cac": ubl.CAC}
PARTY = Party("Ada & Söhne <Foods> Ltd", "2 Marina, Lagos", "87654321-0001")


@pytest.fixture(scope="module")
def schemas() -> dict[str, etree.XMLSchema]:
    return {
        name: etree.XMLSchema(etree.parse(SCHEMAS / f"UBL-{name}-2.1.xsd"))
        for name in ("Invoice", "CreditNote")
    }


def valid(schemas: dict[str, etree.XMLSchema], invoice: Invoice) -> etree._Element:
    """Returns the document, after it was validated with the schema of its type."""
    document = etree.fromstring(ubl.write(invoice))
    schema = schemas[etree.QName(document).localname]
    assert schema.validate(document), schema.error_log
    return document


def text(document: etree._Element, path: str) -> str:
    found: str | None = document.findtext(path, namespaces=NAMES)
    assert found is not None, path
    return found


async def test_an_invoice_is_valid_ubl_with_the_fields_that_the_authority_asks_for(
    books: Books, schemas: dict[str, etree.XMLSchema]
) -> None:
    await issuing.set_recipient(books.db, books.merchant_id, PARTY)
    await books.charge(1_000, books.at(3), tax=75)
    await books.charge(-250, books.at(4), account=PAYOUT_FEE)
    [invoice] = await books.issue()
    invoice = await issuing.record_reference(books.db, invoice.number, "IRN-1", "signed")
    document = valid(schemas, invoice)
    supplier, customer = (
        "cac:AccountingSupplierParty/cac:Party/",
        "cac:AccountingCustomerParty/cac:Party/",
    )
    company = "cac:PartyTaxScheme/cbc:CompanyID"
    total = "cac:LegalMonetaryTotal/cbc:"
    assert etree.QName(document).localname == "Invoice"
    assert text(document, "cbc:ID") == invoice.number
    assert text(document, "cbc:InvoiceTypeCode") == "380"
    assert text(document, supplier + company) == "12345678-0001"
    assert text(document, customer + company) == PARTY.tax_id
    assert text(document, customer + "cac:PartyName/cbc:Name") == PARTY.name
    assert text(document, "cac:TaxTotal/cbc:TaxAmount") == "0.75"
    assert text(document, total + "TaxExclusiveAmount") == "7.50"
    assert text(document, total + "TaxInclusiveAmount") == "8.25"
    assert text(document, total + "PayableAmount") == "0.00"
    assert text(document, "cac:AdditionalDocumentReference/cbc:ID") == "IRN-1"
    lines = document.findall("cac:InvoiceLine/cbc:LineExtensionAmount", NAMES)
    assert [line.text for line in lines] == ["10.00", "-2.50"]


@pytest.mark.parametrize(
    ("fees", "taxes", "taxable"),
    [
        ([1_000], [75], "10.00"),
        ([6, 6, 6], [0, 0, 0], None),  # the taxes are below a minor unit
        ([7] * 20, [1] * 20, "1.40"),  # each tax was rounded up
        ([1_000, 5_000], [75, 0], "10.00"),  # only one of the fees was taxed
    ],
)
async def test_a_tax_with_one_rate_shows_its_percentage_and_base(
    books: Books,
    schemas: dict[str, etree.XMLSchema],
    fees: list[int],
    taxes: list[int],
    taxable: str | None,
) -> None:
    await set_rate(books, "7.5", books.at(1, month=date(1990, 1, 1)))
    for fee, minor in zip(fees, taxes, strict=True):
        await books.charge(fee, books.at(3), tax=minor)
    [invoice] = await books.issue()
    document = valid(schemas, invoice)
    subtotal = "cac:TaxTotal/cac:TaxSubtotal/"
    assert document.findtext(subtotal + "cbc:TaxableAmount", namespaces=NAMES) == taxable
    percent = document.findtext(subtotal + "cac:TaxCategory/cbc:Percent", namespaces=NAMES)
    assert percent == (None if taxable is None else "7.5")


async def test_a_tax_whose_rate_changed_in_the_month_shows_no_percentage(
    books: Books, schemas: dict[str, etree.XMLSchema]
) -> None:
    await set_rate(books, "7.5", books.at(1, month=date(1990, 1, 1)))
    await set_rate(books, "10", books.at(15))
    await books.charge(1_000, books.at(3), tax=75)
    await books.charge(1_000, books.at(20), tax=100)
    [invoice] = await books.issue()
    assert invoice.percent(books.tax) is None
    assert b"TaxableAmount" not in ubl.write(invoice)
    valid(schemas, invoice)


async def set_rate(books: Books, percent: str, since: datetime) -> None:
    rule = tax(books.tax, since=since, percent=Decimal(percent))
    async with books.db.transaction() as connection:
        await prices.add_rule(connection, rule, "ada")


async def test_a_credit_note_is_valid_ubl_and_names_the_invoice_that_it_cancels(
    books: Books, schemas: dict[str, etree.XMLSchema]
) -> None:
    await books.charge(1_000, books.at(3), tax=75)
    await set_rate(books, "7.5", books.at(1, month=date(1990, 1, 1)))
    [invoice] = await books.issue()
    note, _ = await issuing.issue_again(books.db, books.settings, invoice.number, "Wrong name")
    document = valid(schemas, note)
    reference = "cac:BillingReference/cac:InvoiceDocumentReference/cbc:ID"
    assert etree.QName(document).localname == "CreditNote"
    assert text(document, reference) == invoice.number
    assert text(document, "cbc:CreditNoteTypeCode") == "381"
    assert text(document, "cac:LegalMonetaryTotal/cbc:TaxInclusiveAmount") == "10.75"
    assert text(document, "cac:CreditNoteLine/cbc:CreditedQuantity") == "1"
    assert text(document, "cac:TaxTotal/cac:TaxSubtotal/cbc:TaxableAmount") == "10.00"


async def test_an_invoice_of_taxes_without_fees_is_valid_ubl(
    books: Books, schemas: dict[str, etree.XMLSchema]
) -> None:
    await books.charge(0, books.at(3), tax=5_000)
    [invoice] = await books.issue()
    document = valid(schemas, invoice)
    assert text(document, "cac:LegalMonetaryTotal/cbc:TaxInclusiveAmount") == "50.00"


async def test_a_currency_without_decimals_has_none_in_the_files(
    books: Books, schemas: dict[str, etree.XMLSchema], db: Database
) -> None:
    await db.execute(
        "INSERT INTO wallet (merchant_id, environment, currency) VALUES ($1, 'production', 'XOF')",
        books.merchant_id,
    )
    await books.charge(1_500, books.at(3), currency="XOF")
    [invoice] = await books.issue()
    document = valid(schemas, invoice)
    assert text(document, "cac:LegalMonetaryTotal/cbc:TaxInclusiveAmount") == "1500"


async def test_the_pdf_shows_numbers_parties_lines_taxes_and_the_authoritys_reference(
    books: Books,
) -> None:
    await issuing.set_recipient(books.db, books.merchant_id, PARTY)
    await books.charge(123_456_789, books.at(3), tax=75)
    [invoice] = await books.issue()
    invoice = await issuing.record_reference(books.db, invoice.number, "IRN-1", "signed")
    shown = pdf_text.read(await files.write_pdf(invoice))
    for expected in (
        *(f"Invoice {invoice.number}", PARTY.name, "Manilla Operations Ltd", "87654321-0001"),
        *("₦1,234,567.89", "₦0.75", "₦1,234,568.64", "IRN-1", "Commission: adjustment"),
        f"{books.month:%B %Y}",
    ):
        assert expected in shown.replace("\n", " "), expected


async def test_the_email_about_an_invoice_has_both_files(
    books: Books, services: Services, site: Site
) -> None:
    await member(services, site, books.merchant_id, Role.OWNER)
    await books.charge(1_000, books.at(3))
    [invoice] = await books.issue()
    [row] = await books.db.records(
        "SELECT id FROM mail WHERE merchant_id = $1 AND kind = $2",
        *(books.merchant_id, MailKind.INVOICE_ISSUED),
    )
    mail = await queries.find(books.db, row["id"])
    assert mail is not None
    attached = await files.attach(books.db, mail)
    assert [each.name for each in attached] == [f"{invoice.number}.pdf", f"{invoice.number}.xml"]
