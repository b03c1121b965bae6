"""Pages of sorted rows contain every row once. Fetching a page reads a limited number of rows."""

from typing import Any

import pytest

from manilla.kit import listing
from manilla.kit.database.connections import Database
from manilla.kit.listing import Conditions
from manilla.kit.listing.sorting import KeyIndex, Selection, SortKeys, SortOrder

# Ten of the 200 rows can have the same `ten`, so a unique key needs both columns.
NUMBERS = "(SELECT n / 10 AS ten, n, n % 3 AS rest FROM generate_series(1, 200) AS n) AS numbers"
ORDERS = {
    SortOrder.NEWEST: SortKeys(("ten", "n"), tuple[int, int], is_indexed=True),
    SortOrder.OLDEST: SortKeys(("ten", "n"), tuple[int, int], False, is_indexed=True),
}


def _selected(whose: Conditions, sql: str = "true", *values: Any) -> Selection:
    wanted = whose.copy().add(sql, *values)
    return Selection(NUMBERS, "ten, n, rest", ORDERS, wanted, KeyIndex(whose))


ALL = _selected(Conditions())


async def _pages(
    db: Database, selected: Selection, limit: int, sort: SortOrder = SortOrder.NEWEST
) -> list[list[int]]:
    pages, after = [], None
    while True:
        page = await selected.page(db, lambda record: record["n"], sort, after, limit)
        pages.append(page.rows)
        if page.next is None:
            return pages
        after = page.next


@pytest.mark.parametrize("limit", [1, 7, 100, 199, 200, 201])
@pytest.mark.parametrize("is_ascending", [False, True])
async def test_pages_contain_every_row_once_and_in_order(
    db: Database, limit: int, is_ascending: bool
) -> None:
    pages = await _pages(db, ALL, limit, SortOrder.OLDEST if is_ascending else SortOrder.NEWEST)
    numbers = [n for page in pages for n in page]
    assert numbers == sorted(range(1, 201), reverse=not is_ascending)
    assert all(len(page) == limit for page in pages[:-1])
    assert pages[-1]


async def test_filters_and_bounds_apply_together(db: Database) -> None:
    selected = _selected(Conditions().add("ten >= {}", 10), "rest = {}", 2)
    pages = await _pages(db, selected, 4)
    assert [n for page in pages for n in page] == [n for n in range(200, 99, -1) if n % 3 == 2]


async def test_a_page_reads_a_limited_number_of_rows_and_the_next_one_continues(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "LOOK_MAX", 50)
    selected = _selected(Conditions(), "n = ANY({}::integer[])", [120, 3])
    assert await _pages(db, selected, 10) == [[], [120], [], [3], []]


async def test_an_empty_list_is_one_empty_page(db: Database) -> None:
    assert await _pages(db, _selected(Conditions().add("n > {}", 200)), 10) == [[]]
