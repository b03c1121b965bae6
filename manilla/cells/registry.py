"""The cells that this installation knows: itself, if it has a name, and the other cells.

A cell is a complete installation with its own database. A merchant lives in exactly one cell.
"""

import hashlib
import re

import msgspec

from manilla.audit import audit
from manilla.kit import changes, ids
from manilla.kit.crypto import Keyring, SealedColumn
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import columns
from manilla.kit.errors import Refusal
from manilla.kit.http import is_web_address
from manilla.ledger.trx_ids import MERCHANT_ID_MAX
from manilla.merchants import queries

NAME = r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?"
_NAME = re.compile(NAME)


class BadCell(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = "The cell's data is not valid."


class CellNotFound(Refusal):
    status, code = 404, "CELL_NOT_FOUND"
    message = "There is no such cell."


class NotACell(Refusal):
    message = "This installation is not a cell yet: give it a name with `manilla cell create`."


class KnownCell(msgspec.Struct, frozen=True):
    name: str
    base_url: str | None  # None for this cell, whose URL is in its processes' settings
    first_merchant: int  # the range of the numbers that the cell gives to new merchants
    last_merchant: int
    is_this: bool

    def numbers(self, merchant_id: int) -> bool:
        """Returns whether the merchant's number is in this cell's range."""
        return self.first_merchant <= merchant_id <= self.last_merchant


class MovedMerchant(msgspec.Struct, frozen=True):
    merchant_id: int
    cell: str


_CELL = f"SELECT {columns(KnownCell)} FROM cell"


def token_context(name: str) -> str:
    """Returns the associated data that binds an encrypted token to its row."""
    return f"cell:{name}:token"


SEALED = SealedColumn("cell", "token_sealed", ("name",), lambda row: token_context(row["name"]))


async def list_cells(db: Database | Connection) -> list[KnownCell]:
    """Returns all cells, sorted by their ranges of merchant numbers."""
    return await db.rows(KnownCell, f"{_CELL} ORDER BY first_merchant")


async def this(db: Database | Connection) -> KnownCell | None:
    """Returns this cell, or None if this installation is not a cell."""
    return await db.row(KnownCell, f"{_CELL} WHERE is_this")


async def required_this(db: Database | Connection) -> KnownCell:
    found = await this(db)
    if found is None:
        raise NotACell
    return found


async def get(db: Database | Connection, name: str) -> KnownCell:
    found = await db.row(KnownCell, f"{_CELL} WHERE name = $1", name)
    if found is None:
        raise CellNotFound(f"There is no cell {name!r}. `manilla cell list` shows all cells.")
    return found


async def create(db: Database, name: str, first: int, last: int) -> KnownCell:
    """Makes this installation a cell. Its name and its range never change."""
    async with db.transaction() as connection:
        await changes.announce(connection, changes.CELLS)
        current = await this(connection)
        if current is not None:
            raise BadCell(f"This installation is already the cell {current.name!r}.")
        await _check(connection, name, first, last)
        outside = await queries.first_outside(connection, first, last)
        if outside is not None:
            raise BadCell(f"Merchant {outside} exists, but the range does not include its number.")
        # A trigger rejects new merchants with a number outside the range.
        await connection.execute(
            "INSERT INTO cell (name, first_merchant, last_merchant, is_this)"
            " VALUES ($1, $2, $3, true)",
            *(name, first, last),
        )
        await audit.record(connection, "cell.create", f"cell:{name}", first=first, last=last)
        return await required_this(connection)


async def add(db: Database, name: str, base_url: str, first: int, last: int) -> KnownCell:
    """Adds another cell."""
    base_url = _checked_url(base_url)
    async with db.transaction() as connection:
        await changes.announce(connection, changes.CELLS)
        await required_this(connection)
        await _check(connection, name, first, last)
        await connection.execute(
            "INSERT INTO cell (name, base_url, first_merchant, last_merchant)"
            " VALUES ($1, $2, $3, $4)",
            *(name, base_url, first, last),
        )
        await audit.record(
            connection, "cell.add", f"cell:{name}", base_url=base_url, first=first, last=last
        )
        return await get(connection, name)


async def change(
    db: Database,
    keyring: Keyring,
    name: str,
    *,
    base_url: str | None = None,
    token: str | None = None,
) -> KnownCell:
    """Changes another cell's URL, or the token that this cell uses to query it."""
    url = None if base_url is None else _checked_url(base_url)
    sealed = None if token is None else keyring.seal(token.encode(), token_context(name))
    async with db.transaction() as connection:
        await changes.announce(connection, changes.CELLS)
        await _other(connection, name)
        await connection.execute(
            "UPDATE cell SET base_url = coalesce($2, base_url),"
            " token_sealed = coalesce($3, token_sealed) WHERE name = $1",
            *(name, url, sealed),
        )
        await audit.record(
            connection, "cell.change", f"cell:{name}", base_url=url, has_new_token=token is not None
        )
        return await get(connection, name)


async def remove(db: Database, name: str) -> None:
    """Removes another cell, unless a merchant was moved to it."""
    async with db.transaction() as connection:
        await changes.announce(connection, changes.CELLS)
        await _other(connection, name)
        count = await connection.number("SELECT count(*) FROM moved_merchant WHERE cell = $1", name)
        if count:
            raise BadCell(f"{count} merchants were moved to the cell {name!r}.")
        await connection.execute("DELETE FROM cell WHERE name = $1", name)
        await audit.record(connection, "cell.remove", f"cell:{name}")


async def issue_token(db: Database, name: str) -> str:
    """Returns a new token that the other cell uses to query this one. It replaces the old token."""
    token = ids.new_key("cell_")
    async with db.transaction() as connection:
        await _other(connection, name)
        await connection.execute(
            "UPDATE cell SET reads_with_hash = $2 WHERE name = $1", name, hash_token(token)
        )
        await audit.record(connection, "cell.token", f"cell:{name}")
    return token


async def reader(db: Database, token: str) -> str | None:
    """Returns the name of the cell that may query this cell with the token."""
    name: str | None = await db.value(
        "SELECT name FROM cell WHERE reads_with_hash = $1", hash_token(token)
    )
    return name


async def token_for(db: Database, keyring: Keyring, name: str) -> str | None:
    """Returns the token that this cell uses to query the other cell, or None if it has none."""
    sealed: bytes | None = await db.value("SELECT token_sealed FROM cell WHERE name = $1", name)
    return None if sealed is None else keyring.open(sealed, token_context(name)).decode()


def hash_token(token: str) -> bytes:
    """Hashes a token. A fast hash is enough, because the token has 160 random bits."""
    return hashlib.sha256(token.encode()).digest()


async def moves(db: Database | Connection) -> dict[int, str]:
    """Maps moved merchants to their cells. Other merchants live in the cell of their number."""
    rows = await db.rows(MovedMerchant, f"SELECT {columns(MovedMerchant)} FROM moved_merchant")
    return {row.merchant_id: row.cell for row in rows}


async def list_closed(db: Database | Connection) -> frozenset[int]:
    """Returns the merchants whose requests this cell rejects."""
    rows = await db.records("SELECT merchant_id FROM merchant_fence WHERE state <> 'copying'")
    return frozenset(row["merchant_id"] for row in rows)


async def record_home(connection: Connection, merchant_id: int, name: str) -> None:
    """Records that the merchant lives in the cell with this name, which can be this cell.

    A move calls this function in both cells, each in the transaction that ends the move there.
    """
    await changes.announce(connection, changes.CELLS)
    home = await get(connection, name)
    await connection.execute("DELETE FROM moved_merchant WHERE merchant_id = $1", merchant_id)
    if not home.numbers(merchant_id):
        await connection.execute(
            "INSERT INTO moved_merchant (merchant_id, cell) VALUES ($1, $2)",
            *(merchant_id, name),
        )


async def _other(connection: Connection, name: str) -> KnownCell:
    cell = await get(connection, name)
    if cell.is_this:
        raise BadCell(f"{name!r} is this cell. Name another cell.")
    return cell


async def _check(connection: Connection, name: str, first: int, last: int) -> None:
    if not _NAME.fullmatch(name):
        raise BadCell(
            "A cell's name has up to 30 lowercase letters, digits and hyphens, and starts with a"
            " letter."
        )
    if not 1 <= first <= last <= MERCHANT_ID_MAX:
        raise BadCell(f"A range of merchant numbers lies between 1 and {MERCHANT_ID_MAX}.")
    for cell in await list_cells(connection):
        if cell.name == name:
            raise BadCell(f"There is already a cell {name!r}.")
        if first <= cell.last_merchant and cell.first_merchant <= last:
            raise BadCell(
                f"The range overlaps with the range of the cell {cell.name!r}, which is"
                f" {cell.first_merchant} to {cell.last_merchant}."
            )


def _checked_url(text: str) -> str:
    url = text.rstrip("/")
    if not is_web_address(url) or "?" in url or "@" in url:
        raise BadCell(f"{text!r} is not a URL such as https://a.pay.example.com.")
    return url


async def fenced_seconds(db: Database) -> float:
    """Returns for how long a move has rejected a merchant's requests: the longest such time, or 0.

    This cell rejects the requests until the move has reached its step `depart`, or is aborted.
    """
    seconds: float = await db.value(
        """
        SELECT coalesce(extract(epoch FROM now() - min(since)), 0)::float8 FROM merchant_fence
         WHERE state IN ('closing', 'leaving')"""
    )
    return seconds
