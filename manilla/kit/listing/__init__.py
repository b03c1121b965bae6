"""Code that all lists share: filters from forms, SQL conditions, cursors and pages.

`sorting.Selection` reads the pages from the database.
"""

import base64
import binascii
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from manilla.kit.errors import Refusal

PAGE_ROWS = 50
PAGE_ROWS_MAX = 500
LOOK_MAX = 50_000  # maximum number of rows read for one page
SEARCH_LENGTH_MAX = 200
CURSOR_LENGTH_MAX = 600
INTEGER_MAX = 2**63 - 1
NUMBER_DIGITS_MAX = 18


Moment = Annotated[datetime, msgspec.Meta(tz=True)]
Number = Annotated[int, msgspec.Meta(ge=0, le=INTEGER_MAX)]


T = TypeVar("T")
Filter = TypeVar("Filter", bound=msgspec.Struct)
Key = TypeVar("Key")


class BadCursor(Refusal):
    status, code = 400, "BAD_CURSOR"
    message = "This page does not exist. Start from the first page."


class BadFilter(Refusal):
    status, code = 400, "BAD_FILTER"
    message = "This filter is not valid."


class Page(msgspec.Struct, Generic[T], frozen=True):
    rows: list[T]
    next: str | None = None  # cursor of the next page, or None on the last page


def read_filter(kind: type[Filter], given: Mapping[str, str]) -> Filter:
    """Parses a filter from a form or query string. Ignores empty values and unknown fields."""
    fields = {name: text.strip() for name, text in given.items() if text.strip()}
    if not all(text.isprintable() for text in fields.values()):
        raise BadFilter
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError as error:
        # An example message is "Expected `str` of length <= 3 - at `$.currency`".
        # Users need only the field's name.
        name = str(error).partition("at `$.")[2].rstrip("`")
        given_text = fields.get(name, "")
        raise BadFilter.at(name, f"“{given_text[:40]}” is not a valid {_label(name)}.") from None


def _label(field: str) -> str:
    return field.replace("_", " ") or "filter"


def search_text(text: str | None) -> str | None:
    """Returns the trimmed search text, or None if it is blank."""
    if text is None or not text.strip():
        return None
    if len(text) > SEARCH_LENGTH_MAX or not text.strip().isprintable():
        raise BadFilter(f"A search has 1 to {SEARCH_LENGTH_MAX} printable characters.")
    return text.strip()


def number(text: str) -> int | None:
    """Parses a number, or returns None if the text is not a number or is too large for an id."""
    is_number = text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX
    return int(text) if is_number else None


def cursor(key: Any) -> str:
    """Returns the cursor for the page that starts after this key."""
    return encode(msgspec.json.encode(key))


def read_cursor(kind: type[Key], text: str | None) -> Key | None:
    """Decodes a cursor and validates every part, because clients can change cursors."""
    if text is None:
        return None
    try:
        key = msgspec.json.decode(decode(text), type=kind)
    except msgspec.MsgspecError:
        raise BadCursor from None
    for part in key if isinstance(key, tuple) else (key,):
        if not _is_storable(part):
            raise BadCursor
    return key


def page_of(found: Sequence[T], limit: int, key: Callable[[T], Any]) -> Page[T]:
    """Returns the page of the first `limit` rows. If more rows were found, another page follows."""
    rows = list(found[:limit])
    return Page(rows, cursor(key(rows[-1])) if len(found) > limit else None)


def encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decode(text: str) -> bytes:
    """Decodes a cursor from base64."""
    if len(text) > CURSOR_LENGTH_MAX:
        raise BadCursor
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise BadCursor from None
    # Different base64 texts can decode to the same bytes. Only the output of `encode` is valid.
    if encode(raw) != text:
        raise BadCursor
    return raw


def _is_storable(part: Any) -> bool:
    match part:
        case str():
            return part.isprintable()
        case datetime():
            return part.tzinfo is not None
        case int():
            return abs(part) <= INTEGER_MAX
    return False


class Conditions:
    """A WHERE clause. Its SQL consists of constants, and values are passed as parameters."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._parts: list[str] = []

    def value(self, value: Any) -> str:
        """Adds a parameter and returns its placeholder."""
        self.values.append(value)
        return f"${len(self.values)}"

    def add(self, sql: str, *values: Any) -> "Conditions":
        """Adds a condition. Each `{}` in `sql` is replaced with the placeholder of one value."""
        self._parts.append(sql.format(*(self.value(value) for value in values)))
        return self

    def add_given(self, sql: str, value: Any) -> "Conditions":
        return self if value is None else self.add(sql, value)

    def copy(self) -> "Conditions":
        another = Conditions()
        another.values, another._parts = list(self.values), list(self._parts)
        return another

    def branch(self) -> "Conditions":
        """Returns a copy for another part of the SQL statement, with shared query parameters."""
        another = Conditions()
        another.values, another._parts = self.values, list(self._parts)
        return another

    @property
    def sql(self) -> str:
        return " AND ".join(self._parts) or "true"

    def beyond(self, start: "Conditions") -> str:
        """Returns the SQL for the conditions that were added after `start` was copied."""
        count = len(start._parts)
        assert self._parts[:count] == start._parts
        return " AND ".join(self._parts[count:]) or "true"


async def in_pages(
    fetch: Callable[..., Awaitable[Page[T]]], *arguments: Any
) -> AsyncIterator[list[T]]:
    """Yields the whole list in pages: `in_pages(listing.payments, db, scope, wanted)`.

    No connection is held between pages, so a slow client does not block other requests.
    """
    after: str | None = None
    while True:
        page = await fetch(*arguments, after=after, limit=PAGE_ROWS_MAX)
        if page.rows:
            yield page.rows
        after = page.next
        if after is None:
            return


async def first(pages: AsyncIterator[list[T]], count: int) -> list[T]:
    """Returns the first `count` rows, reading as many pages as necessary."""
    rows: list[T] = []
    async for page in pages:
        rows += page
        if len(rows) >= count:
            break
    return rows[:count]
