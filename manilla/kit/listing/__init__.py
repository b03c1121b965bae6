"""Paginated lists, newest first, and complete lists for exports.

Pages continue from a key instead of an offset, so that rows that arrive in the meantime cause
neither repeated nor skipped rows. Most keys start with a timestamp. A query without an index of its
own reads a time span before the last key, and widens the span if it found few rows. A page can have
fewer rows than requested: it ends after LOOK_MAX rows were read, and the next page continues from
there.
"""

import base64
import binascii
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from manilla.kit.db import Database
from manilla.kit.errors import Refusal
from manilla.kit.ids import TimedIds

PAGE_ROWS = 50
PAGE_ROWS_MAX = 500
LOOK_MAX = 50_000  # maximum number of rows read for one page
SEARCH_LENGTH_MAX = 200
CURSOR_LENGTH_MAX = 600
FIRST_SPAN = timedelta(minutes=1)
WIDER = 8
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
    next: str | None = None  # cursor of the next page; None on the last page


def read_filter(kind: type[Filter], given: Mapping[str, str]) -> Filter:
    """Reads a filter from a form or query string. Ignores empty values and unknown fields."""
    fields = {name: text.strip() for name, text in given.items() if text.strip()}
    if not all(text.isprintable() for text in fields.values()):
        raise BadFilter
    try:
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError as error:
        # In a message such as "Expected `str` of length <= 3 - at `$.currency`", only the field
        # name is useful to users.
        name = str(error).partition("at `$.")[2].rstrip("`")
        given_text = fields.get(name, "")
        raise BadFilter.at(name, f"“{given_text[:40]}” is not a valid {_label(name)}.") from None


def _label(field: str) -> str:
    return field.replace("_", " ") or "filter"


def searched(text: str | None) -> str | None:
    """Returns the trimmed search text, or None if there is none."""
    if text is None or not text.strip():
        return None
    if len(text) > SEARCH_LENGTH_MAX or not text.strip().isprintable():
        raise BadFilter(f"A search has 1 to {SEARCH_LENGTH_MAX} printable characters.")
    return text.strip()


def number(text: str) -> int | None:
    """Returns the number that the text is, or None if it is no number or too large for an id."""
    is_number = text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX
    return int(text) if is_number else None


def cursor(key: Any) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(key)).decode().rstrip("=")


def read_cursor(kind: type[Key], text: str | None) -> Key | None:
    """Decodes a cursor. It comes from the client, so everything in it is validated."""
    if text is None:
        return None
    try:
        if len(text) > CURSOR_LENGTH_MAX:
            raise BadCursor
        raw = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
        key = msgspec.json.decode(raw, type=kind)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise BadCursor from None
    for part in key if isinstance(key, tuple) else (key,):
        if not _is_storable(part):
            raise BadCursor
    return key


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
    """A WHERE clause. Its SQL comes from constants; values are passed as parameters."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._parts: list[str] = []

    def value(self, value: Any) -> str:
        """Adds a parameter and returns its placeholder."""
        self.values.append(value)
        return f"${len(self.values)}"

    def add(self, sql: str, *values: Any) -> "Conditions":
        """Adds a condition; each `{}` in `sql` is replaced with the placeholder of one value."""
        self._parts.append(sql.format(*(self.value(value) for value in values)))
        return self

    def add_given(self, sql: str, value: Any) -> "Conditions":
        """Adds a condition unless the value is None."""
        return self if value is None else self.add(sql, value)

    def copy(self) -> "Conditions":
        another = Conditions()
        another.values, another._parts = list(self.values), list(self._parts)
        return another

    def branch(self) -> "Conditions":
        """Returns a copy for another part of the same statement: it shares the parameters."""
        another = Conditions()
        another.values, another._parts = self.values, list(self._parts)
        return another

    @property
    def sql(self) -> str:
        return " AND ".join(self._parts) or "true"


class Clock(msgspec.Struct, frozen=True):
    """The key columns of a table whose keys start with the creation time."""

    columns: tuple[str, ...]
    kind: Any  # type of the key, which is a tuple
    # Returns a key that sorts at or before all keys from this time on.
    floor: Callable[[datetime], tuple[Any, ...]]
    moment: Callable[[tuple[Any, ...]], datetime | None]
    collation: str = ""  # the collation of the key's index, if it is not the default one

    @property
    def keys(self) -> list[str]:
        """The key columns as the index has them."""
        return [f"{column}{self.collation}" for column in self.columns]


def id_clock(column: str, ids: TimedIds, collation: str = "") -> Clock:
    """Returns the clock of a table whose key is an id that contains its time."""
    return Clock(
        (column,),
        tuple[str],
        lambda moment: (ids.floor(moment),),
        lambda key: ids.moment_of(key[0]),
        collation,
    )


class Query(msgspec.Struct, frozen=True):
    """A query on a table whose keys are in time order."""

    table: str
    columns: str  # column list, which must include the key
    clock: Clock
    whose: Conditions  # conditions that the index covers
    wanted: Conditions  # the conditions in `whose` and the other filters
    since: datetime | None = None
    until: datetime | None = None
    is_indexed: bool = False  # whether the filters have an index of their own

    def narrowed(self, sql: str, *values: Any) -> "Query":
        return msgspec.structs.replace(self, wanted=self.wanted.copy().add(sql, *values))

    def bounded(self) -> Conditions:
        """Returns all conditions, with those on the time."""
        wanted, key = self.wanted.copy(), self.clock.keys[0]
        if self.since is not None:
            wanted.add(f"{key} >= {{}}", self.clock.floor(self.since)[0])
        if self.until is not None:
            wanted.add(f"{key} < {{}}", self.clock.floor(self.until)[0])
        return wanted


async def exact(db: Database, steps: Query, read: Callable[[Any], T]) -> list[T]:
    """Runs a query that has its own index, such as for an exact reference, without a time span."""
    wanted, key = steps.bounded(), steps.clock.columns[0]
    records = await db.records(
        f"SELECT {steps.columns} FROM {steps.table} WHERE {wanted.sql} ORDER BY {key} DESC"
        f" LIMIT {PAGE_ROWS_MAX}",
        *wanted.values,
    )
    return [read(record) for record in records]


async def walk(
    db: Database, steps: Query, read: Callable[[Any], T], after: str | None, limit: int
) -> Page[T]:
    """Returns one page of rows, going back in time from the cursor, or from now."""
    limit = min(limit, PAGE_ROWS_MAX)
    clock, high = steps.clock, _highest(steps, after)
    lowest = clock.floor(steps.since or await _earliest(db))
    rows: list[T] = []
    looked, span = 0, FIRST_SPAN
    while high > lowest:
        moment = clock.moment(high)
        assert moment is not None
        low = max(lowest, clock.floor(_before(moment, span)))
        found = await _matching(db, steps, low, high, limit - len(rows))
        rows += [read(record) for record in found.records]
        if len(rows) == limit:
            last = found.records[-1]
            return Page(rows, cursor(tuple(last[column] for column in clock.columns)))
        high, looked = low, looked + found.looked
        if looked >= LOOK_MAX and high > lowest:
            return Page(rows, cursor(high))
        if found.looked <= LOOK_MAX // WIDER:
            span *= WIDER
    return Page(rows)


class _Found(msgspec.Struct, frozen=True):
    records: list[Any]
    looked: int


async def _matching(
    db: Database, steps: Query, low: tuple[Any, ...], high: tuple[Any, ...], limit: int
) -> _Found:
    """Returns matching rows between two keys.

    If there are no more, also returns how many rows were read.
    """
    first, wanted = steps.clock.columns[0], steps.wanted.copy()
    between = _between(steps.clock, wanted, low, high)
    order = ", ".join(f"{key} DESC" for key in steps.clock.keys)
    rows = wanted.value(limit)
    records = await db.records(
        f"""
        WITH matching AS MATERIALIZED (
            SELECT {steps.columns} FROM {steps.table}
             WHERE {wanted.sql} AND {between}
             ORDER BY {order} LIMIT {rows})
        SELECT matching.*,
               CASE WHEN (SELECT count(*) FROM matching) < {rows} THEN
                   (SELECT count(*) FROM (
                        SELECT FROM {steps.table}
                         WHERE {steps.whose.sql} AND {between} LIMIT {LOOK_MAX}) AS any_kind)
               END AS looked
          FROM (SELECT) AS once
          LEFT JOIN matching ON true
         ORDER BY {order}""",
        *wanted.values,
    )
    found = [record for record in records if record[first] is not None]
    return _Found(found, records[0]["looked"] or 0)


def _between(
    clock: Clock, conditions: Conditions, low: tuple[Any, ...], high: tuple[Any, ...]
) -> str:
    """Returns a condition that bounds the first column separately, so that the index is used."""
    first = clock.keys[0]
    bounds = [conditions.value(part) for part in (low[0], *high)]
    if len(high) == 1:
        return f"{first} >= {bounds[0]} AND {first} < {bounds[1]}"
    row, last = ", ".join(clock.keys), ", ".join(bounds[1:])
    return f"{first} >= {bounds[0]} AND {first} <= {bounds[1]} AND ({row}) < ({last})"


def _before(moment: datetime, span: timedelta) -> datetime:
    try:
        return moment - span
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _highest(steps: Query, after: str | None) -> tuple[Any, ...]:
    clock = steps.clock
    key: tuple[Any, ...] | None = read_cursor(clock.kind, after)
    if key is not None and clock.moment(key) is None:
        raise BadCursor
    # Allow for another host's clock that is ahead of ours.
    latest = clock.floor(steps.until or datetime.now(UTC) + timedelta(minutes=10))
    return latest if key is None else min(key, latest)


async def _earliest(db: Database) -> datetime:
    """Returns a time before all rows: one day before the first merchant's creation.

    The day covers clock differences between hosts.
    """
    first: datetime | None = await db.value("SELECT min(created_at) FROM merchant")
    return (first or datetime.now(UTC)) - timedelta(days=1)


async def in_pages(
    fetch: Callable[..., Awaitable[Page[T]]], *arguments: Any
) -> AsyncIterator[list[T]]:
    """Yields the whole list in pages: `in_pages(listing.payments, db, scope, wanted)`.

    No connection is held between pages, so a slow reader blocks nobody.
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
    """Returns the first `count` rows, from as many pages as necessary."""
    rows: list[T] = []
    async for page in pages:
        rows += page
        if len(rows) >= count:
            break
    return rows[:count]
