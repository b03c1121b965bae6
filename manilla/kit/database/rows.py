"""Structs for database rows: column lists, conversion, and the methods that return rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from enum import Enum
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

Row = TypeVar("Row", bound=msgspec.Struct)


def columns(kind: type[msgspec.Struct], /, **computed: str) -> str:
    """Returns the struct's fields as an SQL column list, so that column names are declared only
    once.

    `computed` maps fields that are not columns to their SQL.
    """
    return ", ".join(
        f"{computed[name]} AS {name}" if name in computed else name
        for name in kind.__struct_fields__
    )


@cache
def converter(kind: type[Row]) -> Callable[[Any], Row]:
    """Returns a function that converts a database record to the struct.

    Enums are stored as text in the database, so their fields are converted. Structs without enum
    fields are created directly with their constructor, which is faster.
    """
    if _has_enum(kind):
        return lambda record: msgspec.convert(dict(record), kind)
    return lambda record: kind(**record)


def struct_of(kind: type[Row], values: Sequence[Any]) -> Row:
    """Creates a struct from the values of all its fields, such as a part of a joined record."""
    row: Row = converter(kind)(dict(zip(kind.__struct_fields__, values, strict=True)))
    return row


def _has_enum(kind: type[msgspec.Struct]) -> bool:
    return any(
        isinstance(each, type) and issubclass(each, Enum)
        for hint in get_type_hints(kind).values()
        for each in (hint, *get_args(hint))
    )


def only_if(condition: str, *names: str, **computed: str) -> dict[str, str]:
    """Returns SQL that selects each column only if the condition is met, and null otherwise.

    The database therefore does not read columns that are not needed. `computed` maps column names
    to SQL expressions.
    """
    sources = {name: name for name in names} | computed
    return {name: f"CASE WHEN {condition} THEN {sql} END" for name, sql in sources.items()}


def common_fields(kind: type[msgspec.Struct], source: msgspec.Struct) -> dict[str, Any]:
    """Maps the names of the fields of `kind` to their values in `source`."""
    return {name: getattr(source, name) for name in kind.__struct_fields__}


class RowSource(ABC):
    """The methods that return rows. `row` and `rows` convert each record to the given struct."""

    @abstractmethod
    async def fetch(self, method: str, sql: str, values: Sequence[Any]) -> Any:
        """Runs one SQL statement with a method of an asyncpg session, such as `fetchrow`."""

    async def rows(self, kind: type[Row], sql: str, *values: Any) -> list[Row]:
        return list(map(converter(kind), await self.records(sql, *values)))

    async def row(self, kind: type[Row], sql: str, *values: Any) -> Row | None:
        record = await self.record(sql, *values)
        return None if record is None else converter(kind)(record)

    async def records(self, sql: str, *values: Any) -> list[Any]:
        records: list[Any] = await self.fetch("fetch", sql, values)
        return records

    async def record(self, sql: str, *values: Any) -> Any:
        return await self.fetch("fetchrow", sql, values)

    async def value(self, sql: str, *values: Any) -> Any:
        return await self.fetch("fetchval", sql, values)

    async def number(self, sql: str, *values: Any) -> int:
        return int(await self.value(sql, *values))

    async def has_row(self, sql: str, *values: Any) -> bool:
        """Returns True if the SQL statement returns a row, such as a row that it has changed."""
        return await self.record(sql, *values) is not None


class Reads(RowSource):
    """Reads that a standby can serve. Code that only reads takes this type, not a `Database`."""

    @abstractmethod
    def by_key(self) -> AbstractAsyncContextManager[RowSource]:
        """Opens a source whose queries find rows through an index, even in a small table."""
