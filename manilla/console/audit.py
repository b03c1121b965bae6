"""The audit log: who changed what, and verification that no entry was altered."""

import asyncio
from functools import partial

from manilla.audit import audit, listing
from manilla.audit.audit import AuditFilter
from manilla.console import list_pages
from manilla.kit import deadline
from manilla.kit.errors import Unavailable
from manilla.web import lists
from manilla.web.forms import BadForm
from manilla.web.page_request import PageRequest, PageResponse

VERIFY_SECONDS = 20.0
_VERIFYING = asyncio.Lock()  # allows only one verification at a time
TOO_LONG = "The log is too long to verify on this page. Run `manilla audit verify` on the server."

COLUMNS = listing.FIELDS.select(
    "id at actor_kind actor_realm actor action subject merchant_id detail hash"
)


async def show(request: PageRequest) -> PageResponse:
    fetch = partial(listing.entries, request.db, _filter(request))
    return await lists.show(request, "audit.html", "audit", COLUMNS, fetch)


async def verify(request: PageRequest) -> PageResponse:
    """Verifies the whole log. Only one verification runs at a time, with a time limit."""
    if _VERIFYING.locked():
        return request.redirect(
            "/audit", failed="The log is already being verified. Try again later."
        )
    async with _VERIFYING:
        try:
            # Verification runs many short statements, which together may exceed the time limit of
            # other pages.
            with deadline.limited(VERIFY_SECONDS):
                verdict = await audit.verify(request.db)
        except Unavailable:
            return request.redirect("/audit", failed=TOO_LONG)
    last = await audit.listed(request.db, limit=1)
    return request.page("audit_verdict.html", verdict=verdict, last=last[0] if last else None)


def _filter(request: PageRequest) -> AuditFilter:
    return AuditFilter(
        actor=_printable(request, "q"),
        action=_printable(request, "action"),
        merchant_id=list_pages.merchant(request),
        since=lists.day(request.query, "since"),
        until=lists.day(request.query, "until", is_end=True),
    )


def _printable(request: PageRequest, name: str) -> str | None:
    text = request.query.text(name)
    if not text.isprintable():
        raise BadForm(errors={name: "This contains characters that cannot be searched for."})
    return text or None
