"""Declares the fields that exports and commands show per record type, and writes CSV files."""

import csv
import io
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from typing import Any, Generic, TypeVar

import msgspec

from manilla.kit.clock import iso
from manilla.kit.money import Money

Record = TypeVar("Record")
Outer = TypeVar("Outer")

Getter = Callable[[Record], Any]
# Maps column titles, in display order, to functions that return the column's value.
Columns = dict[str, Getter[Record]]

# Spreadsheet programs treat text that starts with one of these characters as a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")


def insert_after(
    columns: Columns[Record], title: str, added: str, getter: Getter[Record]
) -> Columns[Record]:
    """Returns the columns with an additional column after the column with this title."""
    result: Columns[Record] = {}
    for each, get in columns.items():
        result[each] = get
        if each == title:
            result[added] = getter
    return result


def api_field(description: str, **rules: Any) -> msgspec.Meta:
    """Returns an API field's description and its rules in JSON Schema.

    The rules are only documentation. They are not enforced when the field is decoded or encoded.
    """
    return msgspec.Meta(description=description, extra_json_schema=rules)


class Fields(Generic[Record]):
    """The fields of one record type.

    Every attribute of the record is a field with the same name. `others` declares fields whose name
    differs from the attribute, and fields whose value is computed by a function.
    """

    def __init__(self, record: type[Record], **others: str | Getter[Record]) -> None:
        self._record = record
        self._others = others

    def select(self, names: str | Mapping[str, str]) -> Columns[Record]:
        """Returns columns for fields, given as `"id status"` or, with titles, `{"Id": "id"}`."""
        titles = {name: name for name in names.split()} if isinstance(names, str) else names
        return {title: self._getter(name) for title, name in titles.items()}

    def inside(
        self, outer: type[Outer], attribute: str, **others: str | Getter[Outer]
    ) -> "Fields[Outer]":
        """Returns the fields of an outer record and of the record that it contains."""
        return _Outer(self, outer, attribute, **others)

    def _getter(self, name: str) -> Getter[Record]:
        found = self._others.get(name, name)
        if callable(found):
            return found
        if not hasattr(self._record, found.partition(".")[0]):
            raise AttributeError(f"{self._record.__name__} has no field {found}.")
        return attrgetter(found)


class _Outer(Fields[Outer]):
    def __init__(
        self,
        inner: Fields[Any],
        record: type[Outer],
        attribute: str,
        **others: str | Getter[Outer],
    ) -> None:
        super().__init__(record, **others)
        self._inner = inner
        self._attribute = attribute

    def _getter(self, name: str) -> Getter[Outer]:
        if name in self._others or hasattr(self._record, name):
            return super()._getter(name)
        get = self._inner._getter(name)
        return lambda record: get(getattr(record, self._attribute))


async def as_csv(
    columns: Columns[Record], pages: AsyncIterable[Sequence[Record]]
) -> AsyncGenerator[bytes, None]:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(columns)
    async for rows in pages:
        writer.writerows([plain(value(row)) for value in columns.values()] for row in rows)
        yield buffer.getvalue().encode()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue().encode()


def plain(value: object) -> str:
    cell = cell_of(value)
    text = text_of(cell)
    is_text = isinstance(cell, str)
    return f"'{text}" if is_text and text.startswith(_FORMULA_STARTS) else text


def cell_of(value: object) -> object:
    """Converts a value to a cell: text, a number, a time or None."""
    match value:
        case Money():
            return value.amount
        case bool():
            return "yes" if value else "no"
        case list():
            return " ".join(value)
        case dict():
            return msgspec.json.encode(value).decode()
        case bytes():
            return value.hex()
    return value


def text_of(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, datetime):
        return iso(cell)
    return f"{cell:f}" if isinstance(cell, Decimal) else str(cell)
