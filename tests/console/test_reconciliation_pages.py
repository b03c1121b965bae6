"""The console's reconciliation pages: import, figures, sign-off, and downloads of the report."""

import csv
import io
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.console import reconciliation
from manilla.kit.clock import start_of_day
from manilla.kit.database.connections import Database
from manilla.kit.money import Money
from manilla.people.roles import ConsoleRole
from manilla.providers import accounts, balances
from manilla.services import Services
from tests.console.conftest import SCRIPT, PopulatedConsole
from tests.dashboard.merchant_dashboard import unchunked
from tests.reconciliation.ledger_samples import Account, day, noon
from tests.support import pdf_text
from tests.support.rows import first_short
from tests.web.signed_in_user import SignedInUser

IMPORT = "/reconciliation/import"
HEAD = "booked_at,amount,reference,kind,description"
FORMULA = '=HYPERLINK("http://x")'


@pytest.fixture
async def visitor(services: Services, populated: PopulatedConsole) -> SignedInUser:
    await populated.administrator.step_up(services)
    return populated.administrator


@pytest.fixture
async def account(services: Services, owner: Database) -> AsyncIterator[Account]:
    """A Kora account that no other test uses."""
    account = Account(services.db, owner)
    await accounts.add(services.db, "kora", account.name)
    await services.rails.load()
    yield account
    await owner.execute("DELETE FROM method WHERE provider = $1", account.name)
    await owner.execute("DELETE FROM provider_account WHERE name = $1", account.name)
    await services.rails.load()


def _file(*rows: str) -> bytes:
    return "\n".join([HEAD, *rows, ""]).encode()


def _at(account: Account) -> str:
    return f"/reconciliation/{account.name}/NGN/{day(3)}"


async def _upload(
    visitor: SignedInUser, account: Account, content: bytes, name: str = "july.csv"
) -> str:
    """Uploads a statement, and returns the page that follows the upload."""
    reply = await visitor.upload(IMPORT, {"provider": account.name}, name, content)
    return await visitor.follow(reply) if reply.status == 303 else reply.body.decode()


async def _lines(account: Account) -> int:
    query = "SELECT count(*) FROM statement_line WHERE provider = $1"
    count: int = await account.db.value(query, account.name)
    return count


async def test_a_file_is_imported_once_and_the_page_says_what_was_new(
    visitor: SignedInUser, account: Account
) -> None:
    row = f"{noon(3).isoformat()},-50,,fee,Fee"
    assert "Imported 1 line: 1 new, 0 already known." in await _upload(visitor, account, _file(row))
    both = _file(row, f"{noon(3).isoformat()},75,,charge,Charge")
    page = await _upload(visitor, account, both)
    assert "Imported 2 lines: 1 new, 1 already known." in page
    assert str(day(3)) in page
    assert await _lines(account) == 2
    entries = await audit.list_entries(account.db, AuditFilter(subject=f"provider:{account.name}"))
    imports = [entry for entry in entries if entry.action == "statement.import"]
    assert [entry.actor_name for entry in imports] == [visitor.email] * 2
    assert imports[0].detail == {"lines": 2, "new": 1, "changed": 0}


async def test_an_invalid_line_is_named_and_nothing_is_imported(
    visitor: SignedInUser, account: Account
) -> None:
    good = f"{noon(3).isoformat()},-50,,fee,Fee"
    page = await _upload(visitor, account, _file(good, "2026-02-30,5,,,", f"{day(3)},x,,,{SCRIPT}"))
    assert "Nothing was imported, because 2 lines are invalid." in page
    assert "Line 3: booked_at" in page
    assert "Line 4: amount" in page
    assert f'<option value="{account.name}" selected>' in page
    assert SCRIPT not in page
    assert await _lines(account) == 0


@pytest.mark.parametrize(
    ("name", "content", "error"),
    first_short(
        [
            ("july.xlsx", b"PK\x03\x04", "Choose a CSV file."),
            ("july.csv", b"a,b\n1,2\n", "Missing: booked_at, amount."),
            ("july.csv", b"\xff\xfe\x00", "not UTF-8"),
            ("", b"", "Choose a file."),
            ("july.csv", b" " * (reconciliation.FILE_BYTES_MAX + 1), "over 8 MiB"),
            ("july.csv", f"{HEAD}\n0001-01-01,5,,,\n".encode(), "not a time of a statement"),
        ]
    ),
)
async def test_a_file_that_is_no_statement_is_rejected(
    visitor: SignedInUser, account: Account, name: str, content: bytes, error: str
) -> None:
    assert error in await _upload(visitor, account, content, name)
    assert await _lines(account) == 0


async def test_a_file_for_an_unknown_account_is_rejected(visitor: SignedInUser) -> None:
    for name in ("", "nobody"):
        reply = await visitor.upload(
            IMPORT, {"provider": name}, "july.csv", _file("2026-01-31,5,,,")
        )
        assert reply.status == 400
        assert b"Choose an account." in reply.body


async def test_only_roles_that_may_do_so_import_and_sign(
    populated: PopulatedConsole, account: Account
) -> None:
    await account.imports(account.line(-100))
    support, operations = (
        populated.people[role] for role in (ConsoleRole.SUPPORT, ConsoleRole.OPERATIONS)
    )
    content = _file(f"{day(3)},5,,,")
    assert (
        await support.upload(IMPORT, {"provider": account.name}, "a.csv", content)
    ).status == 403
    assert "Import statement" not in (await support.get("/reconciliation")).body.decode()
    assert "Imported 1 line" in await _upload(operations, account, content)
    for person in (support, operations):
        assert (await person.post(f"{_at(account)}/sign-off", {"note": "x"})).status == 403
        page = (await person.get(_at(account))).body.decode()
        assert "Not signed" in page
        assert "/sign-off" not in page


async def test_an_administrator_signs_and_sees_what_changed_afterwards(
    services: Services, visitor: SignedInUser, account: Account
) -> None:
    await account.imports(account.line(-100))
    seen = await _seen(visitor, account)
    rejected = await visitor.post(f"{_at(account)}/sign-off", {"seen": seen})
    assert rejected.status == 422
    assert "Explain in a note why you sign it off" in rejected.body.decode()

    given = {"seen": seen, "note": "Asked Kora"}
    page = await visitor.follow(await visitor.post(f"{_at(account)}/sign-off", given))
    assert f"You signed off {day(3)}." in page
    assert visitor.email in page
    assert "Asked Kora" in page
    assert "Changed after sign-off" not in page

    await account.imports(account.line(-250))
    changed = (await visitor.get(_at(account))).body.decode()
    assert "Changed after sign-off" in changed
    assert "-₦1.00" in changed
    assert "-₦3.50" in changed
    stale = await visitor.post(f"{_at(account)}/sign-off", given)
    assert "The figures have changed since you opened the page." in stale.body.decode()


async def test_signing_needs_a_recent_confirmation_of_identity(
    services: Services, visitor: SignedInUser, account: Account
) -> None:
    await account.imports(account.line(-100))
    query = "UPDATE session SET stepped_up_at = NULL WHERE person_id = $1"
    await services.db.execute(query, visitor.person_id)
    reply = await visitor.post(f"{_at(account)}/sign-off", {"note": "x"})
    assert b'name="step_up_secret"' in reply.body
    assert b"Not signed" in (await visitor.get(_at(account))).body


async def test_the_providers_balance_is_shown_with_its_source(
    visitor: SignedInUser, account: Account
) -> None:
    await account.imports(account.line(-100))
    page = (await visitor.get(_at(account))).body.decode()
    assert "balance is not known: the statement has no balance" in page
    at = start_of_day(day(3)) + timedelta(hours=25)
    await balances.save(account.db, account.name, Money("NGN", 77700), Money("NGN", 77600), at)
    page = (await visitor.get(_at(account))).body.decode()
    assert "The provider reported its balance on" in page
    assert "₦777.00" in page
    assert "₦776.00" in page
    assert "₦777.00" in (await visitor.get("/reconciliation")).body.decode()
    with_balance = f"booked_at,amount,balance_after\n{noon(3).isoformat()},5,123.45\n"
    await _upload(visitor, account, with_balance.encode())
    page = (await visitor.get(_at(account))).body.decode()
    assert "balance after the day" in page
    assert "₦123.45" in page


async def test_the_files_have_the_figures_the_balance_and_the_sign_off(
    visitor: SignedInUser, account: Account
) -> None:
    row = f'{noon(3).isoformat()},-50,,fee,"{FORMULA.replace(chr(34), chr(34) * 2)}"'
    await _upload(visitor, account, _file(row))
    at = start_of_day(day(3)) + timedelta(hours=25)
    await balances.save(account.db, account.name, Money("NGN", 77700), Money("NGN", 77600), at)
    given = {"seen": await _seen(visitor, account), "note": "=1+1"}
    await visitor.follow(await visitor.post(f"{_at(account)}/sign-off", given))

    file = unchunked(await visitor.get(f"{_at(account)}?format=csv")).decode()
    figures, line = csv.DictReader(io.StringIO(file))
    assert (figures["row"], line["row"]) == ("day", "unmatched")
    assert (figures["statement"], figures["provider_balance"]) == ("-50.00", "777.00")
    assert (figures["provider_balance_from"], figures["balance_difference"]) == (
        *("the provider", "1.00"),
    )
    assert (figures["sign_off"], figures["signed_by"]) == ("signed", visitor.email)
    assert (figures["note"], line["description"]) == ("'=1+1", f"'{FORMULA}")
    listed = await visitor.get(f"/reconciliation?format=csv&provider={account.name}")
    [shown] = csv.DictReader(io.StringIO(unchunked(listed).decode()))
    assert (shown["sign_off"], shown["note"]) == ("signed", "'=1+1")

    sheet = await visitor.get(f"{_at(account)}/sheet")
    assert sheet.headers["content-type"] == "application/pdf"
    text = pdf_text.read(sheet.body).replace("\n", " ")
    for part in (
        *("Our ledger", "Provider's balance", "-₦50.00", "₦777.00", "₦776.00"),
        *("reported by the provider on", "1 unmatched", "Only", "Note: =1+1"),
        f"Signed by {visitor.email} on",
        "Head of the ledger's hash chain: ",
        "Head of the audit log: ",
    ):
        assert part.lower() in text.lower(), part
    assert "Signature:" not in text

    await _upload(visitor, account, _file(row, f"{noon(3).isoformat()},-7,,fee,Late"))
    text = pdf_text.read((await visitor.get(f"{_at(account)}/sheet")).body).replace("\n", " ")
    assert "Changed after sign-off:" in text
    assert "-₦57.00" in text


async def test_the_sheet_of_an_unsigned_day_has_room_for_a_signature(
    visitor: SignedInUser, account: Account
) -> None:
    await account.imports(account.line(-100))
    text = pdf_text.read((await visitor.get(f"{_at(account)}/sheet")).body)
    assert "Not signed in Manilla." in text
    assert "The provider's balance: not known." in text
    assert "Signature:" in text


async def _seen(visitor: SignedInUser, account: Account) -> str:
    page = (await visitor.get(_at(account))).body.decode()
    return page.partition('name="seen" value="')[2].partition('"')[0]
