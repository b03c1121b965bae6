"""The cells and the moved merchants, cached, so that every request knows a merchant's cell."""

from collections.abc import Mapping

import msgspec

from manilla.cells import registry
from manilla.cells.registry import KnownCell
from manilla.kit import changes
from manilla.kit.changes import ChangeWatch
from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Unavailable


class MerchantMoves(Unavailable):
    """The merchant is being moved to another cell, or the proxy does not know its new cell yet."""

    message = "The service is briefly unavailable for this merchant. Please try again."


class CellMap(msgspec.Struct, frozen=True):
    """The cells that this installation knows, and the merchants that were moved."""

    cells: Mapping[str, KnownCell]
    moves: Mapping[int, str]
    # Merchants whose requests this cell rejects, because they are being moved or live elsewhere.
    closed: frozenset[int] = frozenset()

    @property
    def this(self) -> KnownCell | None:
        """This cell, or None if this installation is not a cell."""
        return next((cell for cell in self.cells.values() if cell.is_this), None)

    @property
    def others(self) -> list[KnownCell]:
        return [cell for cell in self.cells.values() if not cell.is_this]

    def home_of(self, merchant_id: int) -> KnownCell | None:
        """Returns the merchant's cell, or None if no known cell has the merchant."""
        moved_to = self.moves.get(merchant_id)
        if moved_to is not None:
            return self.cells.get(moved_to)
        return next((cell for cell in self.cells.values() if cell.numbers(merchant_id)), None)

    def is_elsewhere(self, merchant_id: int) -> bool:
        home = self.home_of(merchant_id)
        return home is not None and not home.is_this

    def check_here(self, merchant_id: int) -> None:
        """Raises an error if this cell must not act for the merchant at the moment."""
        if merchant_id in self.closed or (self.cells and self.is_elsewhere(merchant_id)):
            raise MerchantMoves


async def load(db: Database | Connection) -> CellMap:
    cells = {cell.name: cell for cell in await registry.list_cells(db)}
    return CellMap(cells, await registry.moves(db), await registry.list_closed(db))


class CellDirectory:
    """Keeps the cells in memory, at most a second old."""

    def __init__(self, db: Database, watch: ChangeWatch) -> None:
        self._db = db
        self.now = CellMap({}, {})
        watch.follow(changes.CELLS, self._refresh)

    async def _refresh(self, _version: int) -> None:
        self.now = await load(self._db)
