"""Importing a provider statement from a CSV file either succeeds completely or changes nothing."""

import pytest

from manilla.kit.database.connections import Database
from manilla.kit.money import Money
from manilla.providers.port import LineKind
from manilla.reconciliation import files, importing
from manilla.reconciliation.files import BadStatement
from manilla.reconciliation.lines import ImportResult
from tests.reconciliation.ledger_samples import Account, day, naira

HEAD = b"booked_at,amount,reference\n"


async def test_every_column_is_read() -> None:
    [line] = files.read(
        b"line_id,booked_at,amount,currency,kind,reference,provider_reference,description,"
        b"balance_after\n"
        b"7,2026-01-31T12:00:00Z,-1250.50,NGN,transfer,TXN1,KPY-1,'=Rent,10\n"
    )
    assert (line.line_id, line.amount, line.kind) == ("7", naira(-125050), LineKind.TRANSFER)
    assert (line.reference, line.provider_reference) == ("TXN1", "KPY-1")
    assert (line.description, line.balance_after) == ("=Rent", naira(1000))


@pytest.mark.parametrize(
    "time",
    [
        "2026-01-31 13:00:00",
        "2026-01-31T12:00:00+00:00",
        "31/01/2026 13:00:00",
        "31/01/2026 1:00:00 PM",
        "31/01/2026 13:00",
    ],
)
def test_times_without_a_zone_are_in_lagos(time: str) -> None:
    [line] = files.read(HEAD + f'{time},"1,250.50",\n'.encode())
    assert line.booked_at.isoformat().startswith("2026-01-31T1")
    assert line.booked_at.timestamp() == 1769860800
    assert line.amount == naira(125050)


def test_identical_rows_are_different_lines_with_the_same_ids_in_every_file() -> None:
    row, other = b"2026-01-31,-50,\n", b"2026-01-30,5,\n"
    first = [line.line_id for line in files.read(HEAD + row + row)]
    second = [line.line_id for line in files.read(HEAD + other + row + row + row)]
    assert len(set(first)) == 2
    assert second[1:3] == first
    assert len(set(second)) == 4


def test_every_invalid_row_is_named_with_its_line() -> None:
    rows = (
        b"2026-01-31,5,\n2026-02-30,5,\n2026-01-31,5.001,\n2026-01-31,x,\n"
        b"2026-01-31,5,a,b\n2026-01-31\n"
    )
    with pytest.raises(BadStatement) as raised:
        files.read(HEAD + rows)
    assert [f"line {number}:" in raised.value.text for number in range(2, 8)] == [
        *(False, True, True, True, True, True),
    ]


@pytest.mark.parametrize(
    ("text", "minor"), [("-2,500.50", -250_050), ("+1,500", 150_000), ("-0.5", -50)]
)
def test_an_amount_may_have_a_sign_and_groups_of_thousands(text: str, minor: int) -> None:
    [line] = files.read(HEAD + f'2026-01-31,"{text}",\n'.encode())
    assert line.amount == Money("NGN", minor)


@pytest.mark.parametrize("text", ["1500,50", "-2,5", "1.500", "1.500,50"])
def test_an_amount_with_two_meanings_is_rejected(text: str) -> None:
    with pytest.raises(BadStatement, match="line 2: amount"):
        files.read(HEAD + f'2026-01-31,"{text}",\n'.encode())


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "Missing: booked_at, amount"),
        (HEAD, "no lines"),
        (b"booked_at,amount,amuont\n2026-01-31,5,5\n", "amuont"),
        (b"booked_at,amount,amount\n2026-01-31,5,5\n", "twice"),
        (b"\xff\xfe" + HEAD, "UTF-8"),
        (b"line_id,booked_at,amount\n1,2026-01-31,5\n1,2026-01-31,6\n", "line_id 1 occurs twice"),
        (b"booked_at,amount,kind\n2026-01-31,5,gift\n", "kind 'gift'"),
        (b"booked_at,amount,currency\n2026-01-31,5,QQQ\n", "QQQ"),
        (b'booked_at,amount\n"2026-01-31,5\n', "CSV"),
    ],
)
def test_an_invalid_file_is_rejected(raw: bytes, message: str) -> None:
    with pytest.raises(BadStatement) as raised:
        files.read(raw)
    assert message in raised.value.text


async def test_overlapping_files_import_each_line_once(account: Account) -> None:
    trx_id = await account.post(500)
    row = f"{day(3)} 12:00:00,5.00,{trx_id}\n".encode()
    fee = f"{day(2)} 12:00:00,-0.10,\n".encode()
    first = await importing.import_file(account.db, account.name, HEAD + row + fee + fee)
    again = await importing.import_file(account.db, account.name, HEAD + row + fee + fee + fee)
    assert (first, again) == (ImportResult(3, 3, 0), ImportResult(4, 1, 0))
    assert await account.findings() == [("only on the statement", None, -10)] * 3


async def test_an_invalid_file_imports_nothing(account: Account, db: Database) -> None:
    rows = f"{day(3)},5.00,\n{day(3)},?,\n".encode()
    with pytest.raises(BadStatement):
        await importing.import_file(account.db, account.name, HEAD + rows)
    stored = "SELECT count(*) FROM statement_line WHERE provider = $1"
    assert await db.number(stored, account.name) == 0


def test_a_line_of_very_many_values_is_rejected_before_it_is_parsed() -> None:
    with pytest.raises(BadStatement, match="Line 2 is longer"):
        files.read(HEAD + b"," * (files.LINE_LENGTH_MAX + 1))
