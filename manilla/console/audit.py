"""The audit log page: lists changes with their authors, and verifies that no entry was altered."""

import asyncio
from urllib.parse import quote

import msgspec
from markupsafe import Markup

from manilla.audit import audit, listing
from manilla.audit.audit import AuditFilter
from manilla.audit.entry import AuditEntry
from manilla.console import list_pages
from manilla.kit import deadline, time_limits
from manilla.kit.errors import Unavailable
from manilla.ledger import trx_ids
from manilla.methods.method import MethodKind
from manilla.web import lists, table_cells
from manilla.web.display import describe_changes, shorten, title
from manilla.web.page_request import PageRequest
from manilla.web.record_list import ListColumn, ListFilter, Place, RecordList, time_column
from manilla.web.serving.response import PageResponse

_VERIFYING = asyncio.Lock()  # this lock is held while the audit log is verified
TOO_LONG = "The log is too long to verify on this page. Run `manilla audit verify` on the server."

COLUMNS = listing.FIELDS.select(
    "id at actor_kind actor_realm actor action subject merchant_id detail hash"
)


def _change(request: PageRequest, row: AuditEntry) -> str:
    return table_cells.long_text(" · ".join(describe_changes(row.detail, _currency(request, row))))


def _currency(request: PageRequest, row: AuditEntry) -> str:
    """Returns the currency of the amounts in minor units in a change to a method."""
    code = row.subject.removeprefix("method:")
    found = (request.services.methods.by_code(kind, code) for kind in MethodKind)
    return next((method.currency for method in found if method), "")


# The pages of subjects, by the kind of subject.
_PAGES = {
    "case": "/cases/{}",
    "merchant": "/merchants/{}",
    "payment": "/transactions/{}",
    "payout": "/transactions/{}",
    "refund": "/refunds/{}",
    "setting": "/settings/{}",
}


def _subject(request: PageRequest, row: AuditEntry) -> Markup:
    """Returns what was changed, such as `Payment TXN…`, with a link to its page if there is one."""
    kind, _, name = row.subject.partition(":")
    shown = shorten(name) if trx_ids.merchant_of(name) is not None else table_cells.long_text(name)
    whole = Markup("{} {}").format(title(kind), shown)
    if kind not in _PAGES:
        return whole
    path = _PAGES[kind].format(quote(name, safe=""))
    return Markup('<a href="{}">{}</a>').format(request.at(path), whole)


LIST = RecordList(
    "audit",
    "entry",
    (
        time_column("Time", "at"),
        ListColumn("action", "Action", lambda _, row: title(row.action), place=Place.NAME),
        ListColumn("subject", "Subject", _subject, place=Place.DETAIL, is_whole=True),
        ListColumn("change", "Change", _change, is_wide=True, place=Place.DETAIL),
        ListColumn(
            "by",
            "By",
            lambda _, row: table_cells.text(row.actor_name),
            place=Place.ASIDE,
            is_whole=True,
        ),
        ListColumn(
            "through",
            "Through",
            lambda _, row: row.actor_realm or row.actor_kind,
            is_default=False,
        ),
        ListColumn("merchant", "Merchant", lambda _, row: row.merchant_id or "—", is_default=False),
        ListColumn("number", "Number", lambda _, row: row.id, is_default=False),
    ),
    listing.entries,
    listing.totals,
)


async def show(request: PageRequest) -> PageResponse:
    wanted = msgspec.structs.replace(
        lists.read_filter(request, AuditFilter, "action"), merchant_id=list_pages.merchant(request)
    )
    filters = [ListFilter("action", "Action"), list_pages.merchant_filter(request)]
    return await LIST.show(request, "audit.html", COLUMNS, [], wanted, filters)


async def verify(request: PageRequest) -> PageResponse:
    """Verifies the whole audit log. Only one verification can run at a time."""
    if _VERIFYING.locked():
        return request.redirect(
            "/audit", failed="Verification is already running. Try again later."
        )
    async with _VERIFYING:
        try:
            # Verifying the log takes many SQL statements, so it has a longer time limit than pages.
            with deadline.limited(time_limits.current.audit_verify_seconds):
                verdict = await audit.verify(request.db)
        except Unavailable:
            return request.redirect("/audit", failed=TOO_LONG)
    last = await audit.list_entries(request.db, limit=1)
    return request.page("audit_verdict.html", verdict=verdict, last=last[0] if last else None)
