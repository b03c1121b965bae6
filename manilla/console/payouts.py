"""Payouts that need an administrator: manual, on hold, or stuck."""

from collections.abc import Awaitable
from functools import partial
from typing import Any

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.cases import listing as cases
from manilla.cases.cases import CaseKind
from manilla.console import list_pages
from manilla.console.providers import titles
from manilla.kit.errors import Refusal
from manilla.kit.fields import insert_after
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone
from manilla.lookup.story import PayoutStory, payout_story
from manilla.merchants import merchants
from manilla.payouts import decisions, listing, queue
from manilla.payouts.decisions import NotToDecide
from manilla.payouts.payout import DETAILS, Payout
from manilla.web import timeline
from manilla.web.lists import ListView
from manilla.web.page_request import PageNotFound, PageRequest, PageResponse

TEMPLATE = "queue_payout.html"

COLUMNS = listing.FIELDS.select(
    "trx_id merchant_id environment ref_trx currency payout_amount fee bank account_number"
    f" account_name {' '.join(DETAILS)} created_at"
)
STUCK_COLUMNS = queue.STUCK_FIELDS.select(
    "trx_id merchant_id provider currency payout_amount attempts failures last_error parked_at case"
    " created_at"
)


ON_HOLD_COLUMNS = queue.ON_HOLD_FIELDS.select(
    "trx_id merchant_id environment ref_trx provider currency payout_amount reason created_at"
)


async def show_all(request: PageRequest) -> PageResponse:
    scope, search = list_pages.money_scope(request), request.query.text("q")
    views = list_pages.VIEWS
    match request.query.text(list_pages.SHOW):
        case "stuck":
            fetch = partial(queue.stuck, request.db, scope, search)
            template, name = "queue_stuck.html", "stuck-payouts"
            return await list_pages.show(
                request,
                template,
                name,
                STUCK_COLUMNS,
                fetch,
                views=views,
                providers=titles(request),
            )
        case "on_hold":
            held = partial(queue.on_hold, request.db, scope, search)
            template, name = "queue_on_hold.html", "payouts-on-hold"
            return await list_pages.show(
                request,
                template,
                name,
                ON_HOLD_COLUMNS,
                held,
                views=views,
                providers=titles(request),
            )

    async def more(_: ListView, rows: list[Payout]) -> dict[str, Any]:
        stuck = await queue.stuck(request.db, Everyone(environment=scope.environment), limit=1)
        holds = await decisions.holds_of(request.db, rows)
        return {"holds": holds, "has_stuck": bool(stuck.rows)}

    manual = partial(queue.manual, request.db, scope, search)
    template, name = "queue_payouts.html", "manual-payouts"
    columns = insert_after(COLUMNS, "bank", "bank_name", request.services.banks.name_of)
    return await list_pages.show(request, template, name, columns, manual, views=views, more=more)


async def show(request: PageRequest) -> PageResponse:
    return request.page(TEMPLATE, **await _details(request))


async def complete(request: PageRequest) -> PageResponse:
    already_paid = request.form.is_checked("already_paid")
    reference = request.form.text("bank_reference")
    payout = request.parameter("payout")
    work = decisions.complete(request.db, payout, reference, already_paid=already_paid)
    return await _decide(request, work, "Marked as paid. The merchant is notified.")


async def reject(request: PageRequest) -> PageResponse:
    reason, rails = request.form.text("reason"), request.services.rails
    work = decisions.reject(request.db, rails, request.parameter("payout"), reason)
    done = "Rejected. The money was returned to the wallet, and the merchant is notified."
    return await _decide(request, work, done)


async def requeue(request: PageRequest) -> PageResponse:
    work = decisions.requeue(request.db, request.parameter("payout"))
    return await _decide(request, work, "The job is running. Reload the page in a moment.")


async def _decide(request: PageRequest, work: Awaitable[object], done: str) -> PageResponse:
    try:
        await work
    except Refusal as refusal:
        return await _refused(request, refusal)
    return request.redirect(f"/payouts/{request.parameter('payout')}", done=done)


async def _refused(request: PageRequest, refusal: Refusal) -> PageResponse:
    """Returns the error page. If another administrator has decided the payout, it says how."""
    details = await _details(request)
    if details["decision"] is not None and isinstance(refusal, NotToDecide):
        refusal = NotToDecide(f"{refusal.text} {details['decision']}")
    return request.form_with_errors(TEMPLATE, refusal, **details)


async def _details(request: PageRequest) -> dict[str, Any]:
    db, history = request.db, await _story(request)
    payout = history.payout
    about = AuditFilter(merchant_id=payout.merchant_id, subject=f"payout:{payout.trx_id}")
    return {
        "payout": payout,
        "attempts": history.attempts,
        "merchant": await merchants.get(db, payout.merchant_id),
        "timeline_events": timeline.of_payout(history, is_internal=True),
        "progress": await queue.progress(db, payout),
        "cases": await cases.about(db, payout.merchant_id, payout.trx_id),
        "decision": await decisions.decision(db, payout),
        "hold": await decisions.hold_of(db, payout),
        "lines": await audit.listed(db, about),
        "NO_ANSWER": CaseKind.NO_ANSWER,
        "providers": titles(request),
    }


async def _story(request: PageRequest) -> PayoutStory:
    trx_id = request.parameter("payout")
    merchant_id = trx_ids.merchant_of(trx_id)
    history = merchant_id and await payout_story(request.db, merchant_id, trx_id)
    if not history:
        raise PageNotFound
    return history
