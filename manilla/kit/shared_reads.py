"""Runs a query for many requests at the same time with one statement."""

from collections.abc import Sequence
from typing import Any

import msgspec

from manilla.kit.batch import Batcher
from manilla.kit.db import Database


class SharedRead(msgspec.Struct, frozen=True):
    sql: str
    values: tuple[Any, ...]


class SharedReads:
    """Reads over a connection of its own, so that no other request waits for these.

    The SQL of a shared query selects from `unnest` of its parameters, which are arrays. The first
    array has the places of the requests in the batch, and each other one has a value of each
    request. The first column of a record is its request's place.
    """

    def __init__(self, db: Database, *, batch_max: int = 128) -> None:
        self._connection = db.keep_connection()
        self._batcher = Batcher(self._read, batch_max=batch_max)

    async def records(self, sql: str, *values: Any) -> list[Any]:
        """Returns the records for these values, in the order in which the statement returns them.

        Use few different texts, because only requests with the same text share a statement.
        """
        return await self._batcher.submit(SharedRead(sql, values))

    async def _read(self, wanted: Sequence[SharedRead]) -> list[list[Any]]:
        found: list[list[Any]] = [[] for _ in wanted]
        for sql in {each.sql for each in wanted}:
            places = [place for place, each in enumerate(wanted) if each.sql == sql]
            values = zip(*(wanted[place].values for place in places), strict=True)
            for record in await self._connection.records(sql, places, *values):
                found[record[0]].append(record)
        return found
