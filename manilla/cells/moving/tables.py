"""What a move does with each table that has rows of merchants (`sql/tables.py`)."""

from manilla.sql.tables import TABLES, Move


def _moved(move: Move) -> tuple[str, ...]:
    return tuple(table.name for table in TABLES if table.move is move)


REPLICATED = _moved(Move.REPLICATED)
COPIED = _moved(Move.COPIED)
# Maps each table to the column that numbers its rows.
APPENDED = {table.name: table.numbered_by for table in TABLES if table.move is Move.APPENDED}

# No process of a cell can change the rows of a fenced merchant in these tables.
FENCED = (
    *(table for table in REPLICATED if table != "move_marker"),
    *APPENDED,
    *COPIED,
    *_moved(Move.MOVED),
)


def key_of(table: str) -> str:
    """Returns the column with the merchant's number."""
    return "id" if table == "merchant" else "merchant_id"
