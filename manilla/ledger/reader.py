"""Reads transactions for many requests at the same time with one statement."""

from collections.abc import Sequence
from typing import Any

import msgspec

from manilla.kit.batch import Batcher
from manilla.kit.db import Database
from manilla.ledger import trx_ids
from manilla.ledger.scope import Tenant
from manilla.ledger.transactions import TransactionNotFound

Columns = tuple[Any, ...]


class Wanted(msgspec.Struct, frozen=True):
    table: str
    columns: str
    tenant: Tenant
    trx_id: str


class TransactionReader:
    def __init__(self, db: Database) -> None:
        self._connection = db.keep_connection()
        self._batcher = Batcher(self._read)

    async def read(self, table: str, columns: str, tenant: Tenant, trx_id: str) -> Columns:
        """Returns the columns of a transaction; raises if the tenant has no such transaction."""
        if trx_ids.merchant_of(trx_id) != tenant.merchant_id:
            raise TransactionNotFound
        found = await self._batcher.submit(Wanted(table, columns, tenant, trx_id))
        if found is None:
            raise TransactionNotFound
        return found

    async def _read(self, wanted: Sequence[Wanted]) -> list[Columns | None]:
        found: list[Columns | None] = [None] * len(wanted)
        for source in {(each.table, each.columns) for each in wanted}:
            places = [
                place for place, each in enumerate(wanted) if (each.table, each.columns) == source
            ]
            rows = await self._connection.records(
                _sql(*source),
                places,
                [wanted[place].tenant.merchant_id for place in places],
                [wanted[place].tenant.environment for place in places],
                [wanted[place].trx_id for place in places],
            )
            for row in rows:
                found[row[0]] = row[1:]
        return found


def _sql(table: str, columns: str) -> str:
    # The order forces a plan on the primary key, which does not read all of a merchant's rows.
    return f"""
        SELECT place, {columns}
          FROM unnest($1::integer[], $2::bigint[], $3::text[], $4::text[])
               AS wanted (place, wanted_merchant, wanted_environment, wanted_id)
         CROSS JOIN LATERAL (
               SELECT * FROM {table}
                WHERE merchant_id = wanted_merchant AND trx_id BETWEEN wanted_id AND wanted_id
                ORDER BY trx_id LIMIT 1) AS found
         WHERE found.environment = wanted_environment::environment"""
