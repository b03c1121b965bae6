"""Lists entries of the audit log."""

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.audit.entry import AuditEntry
from manilla.kit import listing
from manilla.kit.db import Database
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, PAGE_ROWS_MAX, Page

FIELDS = Fields(AuditEntry, actor="actor_name")


async def entries(
    db: Database, wanted: AuditFilter, *, after: str | None = None, limit: int = PAGE_ROWS
) -> Page[AuditEntry]:
    """Returns one page of entries, newest first."""
    limit = min(limit, PAGE_ROWS_MAX)
    rows = await audit.listed(db, wanted, listing.read_cursor(int, after), limit)
    return Page(rows, listing.cursor(rows[-1].id) if len(rows) == limit else None)
