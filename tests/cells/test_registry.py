"""A cell's name and range, and the list of the other cells."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from manilla.cells import registry
from manilla.cells.registry import BadCell, CellNotFound, NotACell
from manilla.kit import ids
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.merchants import merchants
from manilla.merchants.merchants import NoNumbersLeft
from manilla.settings import Settings
from tests.cli.in_process import BASE_URL, InProcessCommand


@pytest.fixture
async def db(own: Settings) -> AsyncIterator[Database]:
    opened = await Database.open(own.database_url, size=3, name="tests")
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture
def keyring(own: Settings) -> Keyring:
    return Keyring(own.master_keys)


async def _merchant(db: Database, keyring: Keyring) -> merchants.NewMerchant:
    return await merchants.create(db, keyring, name="Ada", email="ada@example.com")


async def test_new_merchants_get_the_numbers_of_the_range_until_it_is_used_up(
    db: Database, keyring: Keyring
) -> None:
    await registry.create(db, "b", 1_000_001, 1_000_002)
    created = [(await _merchant(db, keyring)).id for _ in range(2)]
    assert created == [1_000_001, 1_000_002]
    with pytest.raises(NoNumbersLeft):
        await _merchant(db, keyring)


async def test_an_existing_installation_keeps_its_merchants_as_a_cell(
    db: Database, keyring: Keyring
) -> None:
    first = await _merchant(db, keyring)
    with pytest.raises(BadCell, match=f"Merchant {first.id} exists"):
        await registry.create(db, "b", 1_000_001, 2_000_000)
    assert await registry.this(db) is None
    await registry.create(db, "a", 1, 1_000_000)
    assert (await _merchant(db, keyring)).id == first.id + 1


async def test_both_keys_of_a_merchant_start_with_its_number(
    db: Database, keyring: Keyring
) -> None:
    await registry.create(db, "b", 1_000_001, 2_000_000)
    new = await _merchant(db, keyring)
    for key in (new.production.merchant_key, new.production.api_key):
        assert ids.number(key[:7].upper()) == new.id
    for key in (new.sandbox.merchant_key, new.sandbox.api_key):
        assert ids.number(key.removeprefix("test_")[:7].upper()) == new.id


async def test_the_database_keeps_the_name_and_the_range(own: Settings, db: Database) -> None:
    await registry.create(db, "a", 1, 1_000_000)
    connection = await asyncpg.connect(own.database_url)
    try:
        for statement in (
            "UPDATE cell SET last_merchant = 2000000",
            "UPDATE cell SET name = 'z'",
            "UPDATE cell SET is_this = false, base_url = 'https://a.example'",
            "DELETE FROM cell",
        ):
            with pytest.raises(asyncpg.RaiseError, match="never change"):
                await connection.execute(statement)
        with pytest.raises(asyncpg.ExclusionViolationError):
            await connection.execute(
                "INSERT INTO cell (name, base_url, first_merchant, last_merchant)"
                " VALUES ('b', 'https://b.example', 1000000, 2000000)"
            )
        with pytest.raises(asyncpg.GeneratedAlwaysError):
            await connection.execute(
                "INSERT INTO merchant (id, name, email, status, currencies, version)"
                " VALUES (5000000, 'x', 'x@example.com', 'pending', '{NGN}', 1)"
            )
    finally:
        await connection.close()


async def test_of_two_concurrent_commands_only_one_names_the_cell(db: Database) -> None:
    results = await asyncio.gather(
        registry.create(db, "a", 1, 10), registry.create(db, "b", 11, 20), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in results) == ["BadCell", "KnownCell"]


@pytest.mark.parametrize(
    ("name", "first", "last", "text"),
    [
        ("A", 1, 2, "lowercase"),
        ("a_b", 1, 2, "lowercase"),
        ("a", 2, 1, "between 1 and"),
        ("a", 0, 1, "between 1 and"),
        ("a", 1, 32**7, "between 1 and"),
    ],
)
async def test_invalid_names_and_ranges_are_rejected(
    db: Database, name: str, first: int, last: int, text: str
) -> None:
    with pytest.raises(BadCell, match=text):
        await registry.create(db, name, first, last)


async def test_another_cell_has_a_name_a_range_and_a_url_of_its_own(
    db: Database, keyring: Keyring
) -> None:
    with pytest.raises(NotACell):
        await registry.add(db, "b", "https://b.example", 11, 20)
    await registry.create(db, "a", 1, 10)
    with pytest.raises(BadCell, match="overlaps"):
        await registry.add(db, "b", "https://b.example", 10, 20)
    with pytest.raises(BadCell, match="already"):
        await registry.add(db, "a", "https://b.example", 11, 20)
    with pytest.raises(BadCell, match="not a URL"):
        await registry.add(db, "b", "b.example", 11, 20)
    await registry.add(db, "b", "https://b.example/", 11, 20)
    assert [(cell.name, cell.base_url) for cell in await registry.list_cells(db)] == [
        ("a", None),
        ("b", "https://b.example"),
    ]
    assert await registry.token_for(db, keyring, "b") is None
    await registry.change(db, keyring, "b", token="cell_secret")
    assert await registry.token_for(db, keyring, "b") == "cell_secret"
    with pytest.raises(BadCell, match="this cell"):
        await registry.change(db, keyring, "a", token="cell_secret")
    with pytest.raises(CellNotFound):
        await registry.change(db, keyring, "c", token="cell_secret")


async def test_a_token_reads_until_the_next_one_is_issued(db: Database) -> None:
    await registry.create(db, "a", 1, 10)
    await registry.add(db, "b", "https://b.example", 11, 20)
    first = await registry.issue_token(db, "b")
    assert await registry.reader(db, first) == "b"
    second = await registry.issue_token(db, "b")
    assert await registry.reader(db, first) is None
    assert await registry.reader(db, second) == "b"
    with pytest.raises(BadCell, match="this cell"):
        await registry.issue_token(db, "a")


async def test_a_cell_with_moved_merchants_cannot_be_removed(db: Database) -> None:
    await registry.create(db, "a", 1, 10)
    await registry.add(db, "b", "https://b.example", 11, 20)
    async with db.transaction() as connection:
        await registry.record_home(connection, 3, "b")
    assert await registry.moves(db) == {3: "b"}
    with pytest.raises(BadCell, match="1 merchants"):
        await registry.remove(db, "b")
    async with db.transaction() as connection:
        await registry.record_home(connection, 3, "a")
    assert await registry.moves(db) == {}
    await registry.remove(db, "b")
    assert [cell.name for cell in await registry.list_cells(db)] == ["a"]


async def test_commands_name_this_cell_and_manage_the_others(cells: InProcessCommand) -> None:
    text = await cells.refused("add", "b", "--url", "https://b.example", *_range(11, 20))
    assert text == NotACell.message
    this = await cells.printed("create", "a", *_range(1, 10))
    assert (this["name"], this["base_url"], this["is_this"]) == ("a", BASE_URL, True)
    other = await cells.printed(
        *("add", "b", "--url", "https://b.example", *_range(11, 20), "--token", "-"),
        given="cell_secret\n",
    )
    assert (other["first_merchant"], other["last_merchant"]) == (11, 20)
    assert (await cells.printed("token", "b"))["token"].startswith("cell_")
    changed = await cells.printed("set", "b", "--url", "https://new.example")
    assert changed["base_url"] == "https://new.example"
    assert await cells.printed("remove", "b") == {"name": "b", "removed": True}


def _range(first: int, last: int) -> tuple[str, ...]:
    return "--first", str(first), "--last", str(last)
