"""A page that is read in chunks of ids reads few of them, and continues where it ended."""

from collections.abc import Callable

from manilla.kit.listing import Page, chunks, read_cursor
from manilla.kit.listing.chunks import CHUNK_MAX, LOOK_MAX

IDS = range(3 * LOOK_MAX, 0, -1)


async def _page(
    matches: Callable[[int], bool], before: int, limit: int, *, is_filtered: bool = True
) -> tuple[Page[int], list[int]]:
    """Returns the page of matching ids, and all ids that it has read."""
    looked: list[int] = []

    async def read(before: int, count: int) -> tuple[list[int], list[int]]:
        ids = [each for each in IDS[-before + 1 :] if each < before][:count]
        looked.extend(ids)
        return ids, [each for each in ids if matches(each)]

    page = await chunks.page(read, int, before, limit, is_filtered=is_filtered)
    return page, looked


async def test_pages_have_all_matching_rows_once() -> None:
    found: list[int] = []
    before, pages = len(IDS) + 1, 0
    while before:
        page, looked = await _page(lambda each: each % 1_700 == 0, before, 3)
        assert len(looked) <= LOOK_MAX
        assert len(page.rows) <= 3
        found += page.rows
        before, pages = read_cursor(int, page.next) or 0, pages + 1
    assert found == [each for each in IDS if each % 1_700 == 0]
    assert pages == len(found) // 3 + 1


async def test_a_page_without_matches_ends_after_a_limited_number_of_ids() -> None:
    page, looked = await _page(lambda _: False, len(IDS) + 1, 3)
    assert (page.rows, read_cursor(int, page.next)) == ([], IDS[LOOK_MAX - 1])
    assert len(looked) == LOOK_MAX
    last, looked = await _page(lambda _: False, LOOK_MAX, 3)
    assert (last, len(looked)) == (Page([]), LOOK_MAX - 1)


async def test_a_page_without_a_filter_reads_no_more_ids_than_it_shows() -> None:
    page, looked = await _page(lambda _: True, 100, 3, is_filtered=False)
    assert (page.rows, looked) == ([99, 98, 97], [99, 98, 97])
    _, looked = await _page(lambda _: True, len(IDS), 3)
    assert len(looked) == CHUNK_MAX
