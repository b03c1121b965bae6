"""Pages of rows in the order of a key: complete, without repetition, and of limited cost."""

from typing import Any

import msgspec
import pytest

from manilla.kit.db import Database
from manilla.kit.listing import Conditions
from manilla.ledger import keyset
from manilla.ledger.keyset import KeysetQuery

# Numbers from 1 to 200 in pairs with equal tens, so that a key needs both columns.
NUMBERS = "(SELECT n / 10 AS ten, n, n % 3 AS rest FROM generate_series(1, 200) AS n) AS numbers"
ALL = KeysetQuery(NUMBERS, "ten, n, rest", ("ten", "n"), Conditions())


async def _pages(db: Database, query: KeysetQuery, limit: int) -> list[list[int]]:
    pages, after = [], None
    while True:
        page = await keyset.page(db, query, after, limit)
        pages.append([record["n"] for record in page.records])
        if page.next is None:
            return pages
        after = page.next


@pytest.mark.parametrize("limit", [1, 7, 100, 199, 200, 201])
@pytest.mark.parametrize("is_ascending", [False, True])
async def test_pages_contain_every_row_once_and_in_order(
    db: Database, limit: int, is_ascending: bool
) -> None:
    query = msgspec.structs.replace(ALL, is_ascending=is_ascending)
    pages = await _pages(db, query, limit)
    numbers = [n for page in pages for n in page]
    assert numbers == sorted(range(1, 201), reverse=not is_ascending)
    assert all(len(page) == limit for page in pages[:-1])
    assert pages[-1]


async def test_filters_and_bounds_apply_together(db: Database) -> None:
    query = msgspec.structs.replace(
        ALL, whose=Conditions().add("ten >= {}", 10), filters=(("rest = {}", (2,)),)
    )
    pages = await _pages(db, query, 4)
    assert [n for page in pages for n in page] == [n for n in range(200, 99, -1) if n % 3 == 2]


async def test_a_page_reads_a_limited_number_of_rows_and_the_next_one_continues(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyset, "LOOK_MAX", 50)
    query = msgspec.structs.replace(ALL, filters=(("n = ANY({}::integer[])", ([120, 3],)),))
    assert await _pages(db, query, 10) == [[], [120], [], [3], []]


async def test_an_empty_list_is_one_empty_page(db: Database) -> None:
    nothing: Any = msgspec.structs.replace(ALL, whose=Conditions().add("n > {}", 200))
    assert await _pages(db, nothing, 10) == [[]]
