"""An export has the same rows as the page, and no cell that a spreadsheet would execute."""

import csv
import io
import re
import zipfile
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from xml.etree import ElementTree

import pytest

from manilla.kit.environment import Environment
from manilla.kit.fields import Columns, as_csv
from manilla.kit.money import Money
from manilla.merchants import wallets
from manilla.services import Services
from manilla.web import exports
from tests.dashboard.merchant_dashboard import unchunked
from tests.support.client import Site, new_merchant
from tests.web.signed_in_user import SignedInUser, member

Row = tuple[object, ...]
SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\r=1", '=HYPERLINK("//evil")')
DAY = datetime(2026, 1, 31, 23, 30, tzinfo=UTC)
COLUMNS: Columns[Row] = {
    "Text": lambda row: row[0],
    "Amount": lambda row: row[1],
    "Time": lambda row: row[2],
}


async def _pages(*pages: Sequence[Row]) -> AsyncIterator[Sequence[Row]]:
    for page in pages:
        yield page


async def _rows_of_csv(*pages: Sequence[Row]) -> list[list[str]]:
    content = b"".join([chunk async for chunk in as_csv(COLUMNS, _pages(*pages))])
    return list(csv.reader(io.StringIO(content.decode(), newline="")))


def _cells(book: bytes) -> list[list[tuple[str, str]]]:
    """Returns the type and text of each cell. Formulas have a separate type."""
    with zipfile.ZipFile(io.BytesIO(book)) as archive:
        assert archive.testzip() is None
        sheet = ElementTree.fromstring(archive.read("xl/worksheets/sheet1.xml"))
    assert not list(sheet.iter(f"{SHEET}f"))
    return [
        [(cell.get("t", "n"), "".join(cell.itertext())) for cell in row.iter(f"{SHEET}c")]
        for row in sheet.iter(f"{SHEET}row")
    ]


async def test_no_csv_cell_is_a_formula() -> None:
    header, *rows = await _rows_of_csv([(text, Decimal("-1.50"), DAY) for text in FORMULAS])
    assert header == ["Text", "Amount", "Time"]
    assert [row[0] for row in rows] == [f"'{text}" for text in FORMULAS]
    # Numbers are exported as numbers, even if they are negative.
    assert {row[1] for row in rows} == {"-1.50"}
    assert {row[2] for row in rows} == {"2026-01-31T23:30:00.000000Z"}


async def test_line_breaks_quotes_and_page_boundaries_do_not_change_the_rows() -> None:
    first, second = ('a,"b"\nc', None, None), ("₦ ẹ", 7, None)
    _, *rows = await _rows_of_csv([first], [], [second])
    assert rows == [['a,"b"\nc', "", ""], ["₦ ẹ", "7", ""]]


async def test_an_excel_export_has_texts_and_exact_numbers() -> None:
    exact = Decimal("123456789012345678.91")
    rows = [*((text, Decimal("7250.5"), DAY) for text in FORMULAS), ("ends", exact, None)]
    book = b"".join([chunk async for chunk in exports.as_xlsx(COLUMNS, _pages(rows))])
    titles, *found = _cells(book)
    assert [text for _, text in titles] == ["Text", "Amount", "Time"]
    assert [row[1] for row in found[:-1]] == [("n", "7250.5")] * len(FORMULAS)
    assert {row[0][0] for row in found} == {"inlineStr"}
    assert found[0][0][1] == "=1+1"
    assert found[-1][1] == ("inlineStr", "123456789012345678.91")


async def test_an_excel_export_shows_all_decimals() -> None:
    amounts = [Decimal("22.50"), Decimal("22.500"), Decimal(22)]
    rows = [("", amount, None) for amount in amounts]
    book = b"".join([chunk async for chunk in exports.as_xlsx(COLUMNS, _pages(rows))])
    with zipfile.ZipFile(io.BytesIO(book)) as parts:
        styles = parts.read("xl/styles.xml").decode()
    assert re.findall(r'formatCode="([^"]*)"', styles) == ["0.00", "0.000"]


@pytest.fixture(scope="module")
async def owner(site: Site, services: Services) -> SignedInUser:
    merchant = await new_merchant(site, services.db, services.keyring)
    for number in range(60):
        await wallets.fund(
            services.db,
            merchant.new.id,
            Environment.SANDBOX,
            Money("NGN", 1 + number),
            f"=cmd {number}" if number % 2 else f"Gift {number}",
        )
    return await member(services, site, merchant.new.id)


async def test_an_export_has_exactly_the_rows_of_the_filtered_list(owner: SignedInUser) -> None:
    path = "/sandbox/wallets/NGN?kind=funding"
    shown: list[str] = []
    address: str | None = path
    while address:
        page = (await owner.get(address)).body.decode()
        shown += re.findall(r'data-label="Reference".*?data-copy="([^"]*)"', page)
        onward = re.search(r'href="([^"]*after=[^"]*)">Older', page)
        address = onward.group(1).replace("&amp;", "&") if onward else None
    file = await owner.get(f"{path}&format=csv")
    assert re.search(r'filename="statement-ngn-\d+-\d+\.csv"', file.headers["content-disposition"])
    assert file.headers["cache-control"] == "no-store"
    _, *rows = csv.reader(io.StringIO(unchunked(file).decode(), newline=""))
    assert [row[2] for row in rows] == shown
    assert len(shown) >= 60
    assert {row[3][:5] for row in rows if "cmd" in row[3]} == {"'=cmd"}
    book = unchunked(await owner.get(f"{path}&format=xlsx"))
    assert [row[2][1] for row in _cells(book)[1:]] == shown
    nothing = await owner.get("/sandbox/wallets/NGN?kind=payout&format=csv")
    assert len(unchunked(nothing).decode().splitlines()) == 1


@pytest.mark.parametrize(
    "query",
    ["since=yesterday", "until=2026-02-30", "after=nonsense", "after=WyIwIl0", "q=%00", "q=%7F"],
)
async def test_an_impossible_filter_returns_an_error_page(owner: SignedInUser, query: str) -> None:
    for format_ in ("", "&format=csv"):
        if "after" in query and format_:
            continue  # An export always starts with the first row.
        reply = await owner.get(f"/sandbox/wallets/NGN?{query}{format_}")
        assert reply.status == 400
        assert b"<h1>Request failed</h1>" in reply.body
