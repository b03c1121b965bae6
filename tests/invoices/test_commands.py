"""The commands `manilla invoice` and `manilla tax`."""

from datetime import datetime
from pathlib import Path

import pytest

from manilla.cli.fees import invoices, tax_returns
from manilla.invoices import issuing
from manilla.kit.clock import LAGOS
from manilla.platform import settings as platform
from manilla.settings import Settings
from tests.cli.in_process import InProcessCommand, environment_of
from tests.invoices.books import Books


@pytest.fixture
async def command(settings: Settings, books: Books) -> InProcessCommand:
    for key in issuing.SETTINGS:
        await platform.change(books.db, key, getattr(books.settings, key))
    return InProcessCommand(invoices.app, environment_of(settings))


async def test_invoices_are_issued_listed_shown_and_cancelled(
    command: InProcessCommand, books: Books, tmp_path: Path
) -> None:
    await books.charge(1_000, books.at(3), tax=75)
    month, owner = f"{books.month:%Y-%m}", ("--merchant", str(books.merchant_id))
    [issued] = await command.printed("issue", month, *owner)
    assert (issued["type"], issued["total"]) == ("invoice", 10.75)
    assert await command.printed("issue", month, *owner) == []
    assert await command.printed("list", "--month", month, *owner) == [issued]
    number = issued["number"]
    referenced = await command.printed("reference", number, "IRN-1", "--qr", "signed")
    assert referenced["authority_reference"] == "IRN-1"
    shown = await command.printed("show", number, "--save-to", str(tmp_path))
    assert [line["amount"] for line in shown["lines"]] == [10, 0.75]
    assert (tmp_path / f"{number}.pdf").read_bytes().startswith(b"%PDF-")
    assert b"<" in (tmp_path / f"{number}.xml").read_bytes()
    note, again = await command.printed("credit", number, "--reason", "Wrong name")
    assert (note["type"], again["type"]) == ("credit_note", "invoice")


async def test_a_month_that_has_not_ended_is_refused(command: InProcessCommand) -> None:
    assert "one hour after" in await command.refused("issue", "2099-01")
    assert "2026-11" in await command.refused("issue", "2099-13")


async def test_a_tax_is_shown_and_remitted(
    command: InProcessCommand, books: Books, tmp_path: Path
) -> None:
    in_development = {**command.environment, "MANILLA_MODE": "development"}
    tax = InProcessCommand(tax_returns.app, in_development)
    await books.charge(1_000, books.at(3), tax=75)
    remitted = await tax.printed("remit", books.tax, "0.50", "--reference", "REF-1")
    assert (remitted["tax"], remitted["amount"]) == (books.tax, 0.5)
    assert "Only ₦0.25" in await tax.refused("remit", books.tax, "0.50", "--reference", "REF-2")
    file = tmp_path / "returns.pdf"
    shown = await tax.printed("return", f"{books.month:%Y-%m}", "--save-to", str(file))
    [own] = [each for each in shown if each["tax"] == books.tax]
    assert (own["collected"], own["closing"]) == (0.75, 0.75)
    assert file.read_bytes().startswith(b"%PDF-")
    ended = await tax.run("return", f"{books.month:%Y-%m}")
    running = await tax.run("return", f"{datetime.now(LAGOS):%Y-%m}")
    assert ("not final" in ended.stderr, "not final" in running.stderr) == (False, True)
