"""Generates the stored functions that know the tables of transactions, for the archive.

They are derived from `sql/tables.py` and `transaction_types.py`. The functions `archivable` and
`archive_remove` call them.
"""

from collections.abc import Iterable

from manilla.sql.tables import TABLES
from manilla.transaction_types import ROOTS, TransactionType, children_of

_ARCHIVED = tuple((table.name, table.archived) for table in TABLES if table.archived is not None)
_FUNCTION = """
CREATE OR REPLACE FUNCTION {signature}
SET search_path = public, pg_temp
SET enable_seqscan = off
-- Planning a statement for each transaction takes longer than executing it.
SET plan_cache_mode = force_generic_plan
AS $$ BEGIN
    {body}
END $$"""


def functions() -> list[str]:
    return [_archive_ids(), _archive_rows(), _archive_lock(), _archive_delete()]


def _archive_ids() -> str:
    """Returns the ids of a transaction, of its parts, and of the transactions that belong to it.

    Returns null if one of them is open or has changed since `p_until`, or if another table refers
    to the transaction.
    """
    return _function(
        "archive_ids(p_merchant_id bigint, p_trx_id text, p_until timestamptz)"
        " RETURNS text[] LANGUAGE plpgsql STABLE",
        [f"RETURN coalesce({', '.join(map(_ids_of_closed, ROOTS))});"],
    )


def _ids_of_closed(root: TransactionType) -> str:
    parts = [(part.table, "trx_id", part.id, part.is_open) for part in root.parts]
    # A transaction that belongs to another one has no ids besides its own.
    parts += [(each.name, each.parent_column, "trx_id", each.is_open) for each in children_of(root)]
    columns = ", ".join(["t.trx_id", *(f"t.{each.column}" for each in root.other_ids)])
    ids = [f"array_remove(ARRAY[{columns}], NULL)"]
    key = "t.merchant_id = p_merchant_id AND t.{} = p_trx_id"
    of_root = key.format("trx_id")
    wanted = [of_root, f"NOT ({root.is_open})", "t.updated_at < p_until"]
    for table, column, part_id, is_open in parts:
        rows = f"FROM {table} t WHERE {key.format(column)}"
        if part_id is not None:
            ids.append(f"ARRAY(SELECT t.{part_id} {rows})")
        if is_open is not None:
            wanted.append(f"NOT EXISTS (SELECT {rows} AND ({is_open} OR t.updated_at >= p_until))")
    wanted += (f"NOT EXISTS (SELECT FROM {table} t WHERE {of_root})" for table in root.kept_by)
    return f"""
        (SELECT {" || ".join(ids)}
           FROM {root.name} t
          WHERE {" AND ".join(wanted)})"""


def _archive_rows() -> str:
    """Returns all rows of a transaction as one JSON object: each table's name with its rows."""
    postings = (
        "ARRAY(SELECT id FROM posting WHERE merchant_id = p_merchant_id AND trx_id = ANY (p_ids))"
    )
    tables = [
        f"'{name}', (SELECT jsonb_agg(to_jsonb(t) ORDER BY {archived.order}) FROM {name} t"
        f" WHERE {_belongs(archived.column, postings)})"
        for name, archived in _ARCHIVED
    ]
    return _function(
        "archive_rows(p_merchant_id bigint, p_ids text[]) RETURNS jsonb LANGUAGE plpgsql STABLE",
        ["RETURN jsonb_strip_nulls(jsonb_build_object(", ",\n        ".join(tables), "));"],
    )


def _archive_lock() -> str:
    return _function(
        "archive_lock(p_merchant_id bigint, p_ids text[]) RETURNS void LANGUAGE plpgsql",
        (
            f"PERFORM FROM {root.name} t WHERE {_belongs('trx_id')} ORDER BY t.trx_id FOR UPDATE;"
            for root in ROOTS
        ),
    )


def _archive_delete() -> str:
    """Deletes all rows except postings and entries, which `archive_remove` replaces."""
    return _function(
        "archive_delete(p_merchant_id bigint, p_ids text[], p_postings bigint[])"
        " RETURNS void LANGUAGE plpgsql",
        (
            f"DELETE FROM {name} t WHERE {_belongs(archived.column, 'p_postings')};"
            for name, archived in _ARCHIVED
            if name not in ("posting", "entry")
        ),
    )


def _function(signature: str, lines: Iterable[str]) -> str:
    return _FUNCTION.format(signature=signature, body="\n    ".join(lines))


def _belongs(column: str, postings: str = "") -> str:
    ids = postings if column == "posting_id" else "p_ids"
    return f"t.merchant_id = p_merchant_id AND t.{column} = ANY ({ids})"
