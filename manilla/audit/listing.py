"""Lists of the audit log."""

from collections.abc import AsyncIterator

from manilla.audit import audit
from manilla.audit.audit import Filters
from manilla.audit.entry import Entry
from manilla.kit import listing
from manilla.kit.db import Database
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, PAGE_ROWS_MAX, Page

FIELDS = Fields(Entry, actor="actor_name")


async def entries(
    db: Database, wanted: Filters, *, after: str | None = None, limit: int = PAGE_ROWS
) -> Page[Entry]:
    """Returns one page of lines, newest first."""
    limit = min(limit, PAGE_ROWS_MAX)
    rows = await audit.listed(db, wanted, listing.read_cursor(int, after), limit)
    return Page(rows, listing.cursor(rows[-1].id) if len(rows) == limit else None)


def all_entries(db: Database, wanted: Filters) -> AsyncIterator[list[Entry]]:
    """Yields all lines that match the filter."""
    return listing.in_pages(lambda after: entries(db, wanted, after=after, limit=PAGE_ROWS_MAX))
