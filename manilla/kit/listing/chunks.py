"""Reads a page in chunks of ids, for lists that no index covers together with their filters."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from manilla.kit.listing import Page, cursor

LOOK_MAX = 10_000  # maximum number of ids read for one page
CHUNK_MAX = 1_000

T = TypeVar("T")


async def page(
    read: Callable[[int, int], Awaitable[tuple[Sequence[int], list[T]]]],
    id_of: Callable[[T], int],
    before: int,
    limit: int,
    *,
    is_filtered: bool,
) -> Page[T]:
    """Returns one page of rows with ids below `before`, in descending order of their ids.

    `read(before, count)` returns the next `count` ids, and those of their rows that match the
    filter. If few rows match, the page has fewer rows than requested, and the next page continues
    after the last id read.
    """
    count = CHUNK_MAX if is_filtered else limit
    rows: list[T] = []
    looked = 0
    while looked < LOOK_MAX:
        ids, found = await read(before, count)
        rows += found
        if len(rows) >= limit:
            return Page(rows[:limit], cursor(id_of(rows[limit - 1])))
        if len(ids) < count:
            return Page(rows)
        before, looked = ids[-1], looked + count
    return Page(rows, cursor(before))
