"""The audit log: who changed what, and verification that no entry was altered."""

import asyncio

from manilla.audit import audit, listing
from manilla.audit.audit import AuditFilter
from manilla.kit import deadline
from manilla.kit.errors import Unavailable
from manilla.ledger import trx_ids
from manilla.web import exports, lists
from manilla.web.forms import BadForm
from manilla.web.lists import ListView
from manilla.web.page_request import PageRequest
from manilla.web.routes import Answer

VERIFY_SECONDS = 20.0
_VERIFYING = asyncio.Lock()  # one verification at a time
TOO_LONG = "The log is too long to verify on this page. Run `manilla audit verify` on the server."

COLUMNS = listing.FIELDS.select(
    "id at actor_kind actor_realm actor action subject merchant_id detail hash"
)


async def show(request: PageRequest) -> Answer:
    db, wanted = request.services.db, _filter(request)
    if exports.is_wanted(request):
        return exports.send(request, "audit", COLUMNS, listing.all_entries(db, wanted))
    found = await listing.entries(db, wanted, after=lists.after(request))
    return request.page("audit.html", lines=found.rows, listing=ListView(request, found.next))


async def verify(request: PageRequest) -> Answer:
    """Verifies the whole log. Only one verification runs at a time, with a time limit."""
    if _VERIFYING.locked():
        return request.redirect(
            "/audit", failed="The log is already being verified. Try again later."
        )
    async with _VERIFYING:
        try:
            # Verification runs many short statements. In total they may take longer than the
            # limit of other pages.
            with deadline.limited(VERIFY_SECONDS):
                verdict = await audit.verify(request.services.db)
        except Unavailable:
            return request.redirect("/audit", failed=TOO_LONG)
    last = await audit.listed(request.services.db, limit=1)
    return request.page("audit_verdict.html", verdict=verdict, last=last[0] if last else None)


def _filter(request: PageRequest) -> AuditFilter:
    query = request.query
    return AuditFilter(
        actor=_printable(request, "q"),
        action=_printable(request, "action"),
        merchant_id=_merchant(request),
        since=lists.day(query, "since"),
        until=lists.day(query, "until", is_end=True),
    )


def _printable(request: PageRequest, name: str) -> str | None:
    text = request.query.text(name)
    if not text.isprintable():
        raise BadForm(errors={name: "This contains characters that cannot be searched for."})
    return text or None


def _merchant(request: PageRequest) -> int | None:
    if not request.query.text("merchant"):
        return None
    number = request.query.whole("merchant")
    if number > trx_ids.MERCHANT_ID_MAX:
        raise BadForm(errors={"merchant": "No merchant has this number."})
    return number
