"""What a cell reports about itself to the other cells: its merchants, and how to route to them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated

import msgspec

from manilla.cells.directory import CellMap
from manilla.kit.database.connections import Database
from manilla.merchants import queries
from manilla.merchants.queries import RoutedKey, RoutedMerchant

PAGE_MERCHANTS = 2_000
PAGES_MAX = 5_000  # ten million merchants


class EndlessReport(Exception):
    pass


class CellReport(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    base_url: Annotated[str, msgspec.Meta(pattern=r"\Ahttps?://[A-Za-z0-9_.:\[\]-]+(/\S*)?\Z")]
    first_merchant: int
    last_merchant: int
    accounts: Sequence[RoutedKey]  # provider accounts that have credentials
    moves: Mapping[int, str]  # the cells of moved merchants, as far as the cell knows them
    merchants: Sequence[RoutedMerchant]  # the merchants that live in the cell
    next_after: int | None = None  # the number after which the next page starts, if there is one

    def numbers(self, merchant_id: int) -> bool:
        return self.first_merchant <= merchant_id <= self.last_merchant


async def read(
    db: Database, cells: CellMap, base_url: str, accounts: Sequence[str], after: int
) -> CellReport:
    """Returns a page of this cell's report, with the merchants after the given number."""
    this = cells.this
    assert this is not None
    rows = await queries.routed_merchants(db, after, PAGE_MERCHANTS)
    return CellReport(
        name=this.name,
        base_url=base_url,
        first_merchant=this.first_merchant,
        last_merchant=this.last_merchant,
        accounts=sorted(accounts),
        moves=dict(cells.moves),
        merchants=[row for row in rows if not cells.is_elsewhere(row.id)],
        next_after=rows[-1].id if len(rows) == PAGE_MERCHANTS else None,
    )


async def whole(read_page: Callable[[int], Awaitable[CellReport]]) -> CellReport:
    """Returns the whole report of a cell. `read_page` returns the page after a number.

    Raises EndlessReport if a page does not continue after the previous one, or if there are too
    many pages. Another cell could otherwise keep its reader busy forever.
    """
    page = first = await read_page(0)
    merchants, after, pages = [*page.merchants], 0, 1
    while page.next_after is not None:
        if page.next_after <= after or pages == PAGES_MAX:
            raise EndlessReport
        after, pages = page.next_after, pages + 1
        page = await read_page(after)
        merchants += page.merchants
    return msgspec.structs.replace(first, merchants=merchants, next_after=None)
