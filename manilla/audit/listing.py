"""Lists entries of the audit log."""

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.audit.entry import AuditEntry
from manilla.kit.database.rows import Reads, columns
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS, Page
from manilla.kit.listing.sorting import NUMBERED, Selection, Totals

FIELDS = Fields(AuditEntry, actor="actor_name")


async def entries(
    db: Reads, wanted: AuditFilter, *, after: str | None = None, limit: int = PAGE_ROWS
) -> Page[AuditEntry]:
    return await _selected(wanted).page(db, audit.read, wanted.sort, after, limit)


async def totals(db: Reads, wanted: AuditFilter) -> Totals:
    return await _selected(wanted).count(db)


def _selected(wanted: AuditFilter) -> Selection:
    return Selection("audit", columns(AuditEntry), NUMBERED, audit.conditions(wanted))
