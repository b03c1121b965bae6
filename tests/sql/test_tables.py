"""Each type of transaction is complete in `transaction_types.py` and `sql/tables.py`."""

import pytest

from manilla.kit.database.connections import Database
from manilla.sql.tables import TABLES, Move
from manilla.transaction_types import COLUMNS, TYPES, TransactionType

ROWS = {table.name: table for table in TABLES}


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
async def test_the_table_of_a_type_has_the_columns_that_all_types_have(
    owner: Database, kind: TransactionType
) -> None:
    columns = [
        *COLUMNS,
        *(each.column for each in kind.other_ids),
        *filter(None, (kind.parent_column, kind.searched.name, kind.searched.email)),
    ]
    assert set(columns) <= await _columns(owner, kind.name)
    for part in kind.parts:
        assert {"merchant_id", "trx_id"} <= await _columns(owner, part.table)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_all_rows_of_a_type_are_archived_and_moved(kind: TransactionType) -> None:
    for name in (kind.name, *(part.table for part in kind.parts)):
        archived = ROWS[name].archived
        assert archived is not None, f"{name} would stay when its transactions are archived"
        assert archived.column == "trx_id"
        assert ROWS[name].move is Move.REPLICATED


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind.parent is not None])
def test_a_type_that_belongs_to_another_type_has_no_further_ids(kind: TransactionType) -> None:
    """`archive_ids` and the search by id look for ids in the first two levels."""
    assert kind.parent is not None
    assert kind.parent.parent is None
    assert kind.other_ids == ()
    assert [part for part in kind.parts if part.id or part.is_open] == []


def test_every_table_that_is_archived_belongs_to_a_type_or_to_all_types() -> None:
    of_types = {name for kind in TYPES for name in (kind.name, *(p.table for p in kind.parts))}
    of_all = {"posting", "entry", "timeline", "notification", "clearing_movement"}
    assert {table.name for table in TABLES if table.archived is not None} == of_types | of_all


async def _columns(owner: Database, table: str) -> set[str]:
    rows = await owner.records(
        "SELECT column_name FROM information_schema.columns WHERE table_name = $1", table
    )
    return {row["column_name"] for row in rows}
