"""The API's endpoints for invoices, through signed HTTP requests."""

from lxml import etree  # type: ignore[import-untyped]

from manilla.api.invoices import INVOICES
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from tests.invoices.books import Books
from tests.support.client import Merchant, Site, new_merchant


async def test_an_invoice_is_listed_and_returned_with_its_amounts(books: Books) -> None:
    await books.charge(1_000, books.at(3), tax=75)
    [invoice] = await books.issue()
    listed = await books.merchant.get(f"{INVOICES}?month={books.month:%Y-%m}&limit=1")
    got = await books.merchant.get(f"{INVOICES}/{invoice.number}")
    assert listed.json == {"data": [got.json], "next_cursor": None}
    assert got.json["number"] == invoice.number
    assert (got.json["fee"], got.json["total"]) == (10.00, 10.75)
    assert got.json["taxes"] == [{"name": books.tax, "amount": 0.75}]
    assert got.json["supplier"]["tax_id"] == "12345678-0001"


async def test_the_list_continues_at_its_cursor(books: Books) -> None:
    await books.charge(1_000, books.at(3))
    [first] = await books.issue()
    await books.charge(2_000, books.at(3, month=books.following))
    [second] = await books.issue(books.following)
    page = await books.merchant.get(f"{INVOICES}?limit=1")
    rest = await books.merchant.get(f"{INVOICES}?limit=1&cursor={page.json['next_cursor']}")
    numbers = [reply.json["data"][0]["number"] for reply in (page, rest)]
    assert numbers == [second.number, first.number]


async def test_an_invoices_files_have_their_media_types(books: Books) -> None:
    await books.charge(1_000, books.at(3))
    [invoice] = await books.issue()
    pdf = await books.merchant.get(f"{INVOICES}/{invoice.number}.pdf")
    xml = await books.merchant.get(f"{INVOICES}/{invoice.number}.xml")
    assert (pdf.status, pdf.headers["content-type"]) == (200, "application/pdf")
    assert pdf.body.startswith(b"%PDF-")
    assert (xml.status, xml.headers["content-type"]) == (200, "application/xml")
    assert etree.QName(etree.fromstring(xml.body)).localname == "Invoice"


async def test_unknown_numbers_endings_and_filters_are_rejected(books: Books) -> None:
    await books.charge(1_000, books.at(3))
    [invoice] = await books.issue()
    for name in ("NONE000001", f"{invoice.number}.doc", f"{invoice.number}.pdf.xml"):
        reply = await books.merchant.get(f"{INVOICES}/{name}")
        assert (reply.status, reply.json["error_code"]) == (404, "INVOICE_NOT_FOUND")
    assert (await books.merchant.get(f"{INVOICES}?month=12")).status == 400


async def test_invoices_of_others_and_of_the_sandbox_are_unknown(
    books: Books, site: Site, db: Database, keyring: Keyring
) -> None:
    await books.charge(1_000, books.at(3))
    [invoice] = await books.issue()
    other = await new_merchant(site, db, keyring, environment=Environment.PRODUCTION)
    sandbox = Merchant(site.from_new_ip(), books.merchant.new, Environment.SANDBOX)
    for merchant in (other, sandbox):
        assert (await merchant.get(f"{INVOICES}/{invoice.number}")).status == 404
        assert (await merchant.get(INVOICES)).json["data"] == []
