"""Payouts that need an administrator: manual, on hold or stuck."""

from typing import Any

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.cases import listing as cases
from manilla.cases.cases import Case, Kind
from manilla.cases.listing import CaseFilter
from manilla.console import list_pages
from manilla.console.providers import NAMES
from manilla.kit.errors import Refusal
from manilla.kit.listing import Page
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone
from manilla.merchants import merchants, roster
from manilla.payouts import decisions, listing, queue
from manilla.payouts.decisions import NotToDecide
from manilla.payouts.payout import Payout
from manilla.payouts.queue import Stuck, Waiting
from manilla.payouts.story import PayoutStory, payout_story
from manilla.web import exports, lists, story
from manilla.web.layout import NotHere
from manilla.web.page_request import PageRequest
from manilla.web.routes import Answer

TEMPLATE = "queue_payout.html"
STUCK, ON_HOLD = "stuck", "on_hold"
DONE = {
    "complete": "Marked as paid. The merchant is notified.",
    "reject": "Rejected. The money was returned to the wallet, and the merchant is notified.",
    "requeue": "The job is running. Reload the page in a moment.",
}

COLUMNS = listing.FIELDS.select(
    "trx_id merchant_id environment ref_trx currency payout_amount fee bank account_number"
    " account_name description created_at"
)
STUCK_COLUMNS = queue.STUCK_FIELDS.select(
    "trx_id merchant_id provider currency payout_amount attempts failures last_error parked_at case"
    " created_at"
)


ON_HOLD_COLUMNS = queue.ON_HOLD_FIELDS.select(
    "trx_id merchant_id environment ref_trx provider currency payout_amount reason created_at"
)


async def show_all(request: PageRequest) -> Answer:
    show = request.query.text(list_pages.SHOW)
    if show == STUCK:
        return await _show_stuck(request)
    if show == ON_HOLD:
        return await _show_on_hold(request)
    db, scope, search = (
        request.services.db,
        list_pages.money_scope(request),
        request.query.text("q"),
    )
    if exports.is_wanted(request):
        pages = queue.all_by_hand(db, scope, search)
        return exports.send(request, "manual-payouts", COLUMNS, pages)
    found = await queue.by_hand(db, scope, search, after=lists.after(request))
    stuck = await queue.stuck(db, Everyone(environment=scope.environment), limit=1)
    return request.page(
        "queue_payouts.html",
        rows=found.rows,
        names=await roster.names(db, (row.merchant_id for row in found.rows)),
        holds=await decisions.holds_of(db, found.rows),
        listing=lists.ListView(request, found.next, views=list_pages.VIEWS),
        has_stuck=bool(stuck.rows),
    )


async def _show_stuck(request: PageRequest) -> Answer:
    db, scope, search = (
        request.services.db,
        list_pages.money_scope(request),
        request.query.text("q"),
    )
    if exports.is_wanted(request):
        pages = queue.all_stuck(db, scope, search)
        return exports.send(request, "stuck-payouts", STUCK_COLUMNS, pages)
    found = await queue.stuck(db, scope, search, after=lists.after(request))
    return await _show_rows(request, "queue_stuck.html", found)


async def _show_on_hold(request: PageRequest) -> Answer:
    db, scope, search = (
        request.services.db,
        list_pages.money_scope(request),
        request.query.text("q"),
    )
    if exports.is_wanted(request):
        pages = queue.all_on_hold(db, scope, search)
        return exports.send(request, "payouts-on-hold", ON_HOLD_COLUMNS, pages)
    found = await queue.on_hold(db, scope, search, after=lists.after(request))
    return await _show_rows(request, "queue_on_hold.html", found)


async def _show_rows(
    request: PageRequest, template: str, found: Page[Stuck] | Page[Waiting]
) -> Answer:
    merchant_ids = (row.payout.merchant_id for row in found.rows)
    return request.page(
        template,
        rows=found.rows,
        names=await roster.names(request.services.db, merchant_ids),
        listing=lists.ListView(request, found.next, views=list_pages.VIEWS),
        providers=NAMES,
    )


async def show(request: PageRequest) -> Answer:
    return request.page(TEMPLATE, **await _details(request))


async def complete(request: PageRequest) -> Answer:
    reference = request.form.text("bank_reference")
    try:
        await decisions.complete(
            request.services.db,
            request.parameter("payout"),
            reference,
            already_paid=request.form.is_ticked("already_paid"),
        )
    except Refusal as refusal:
        return await _refused(request, refusal)
    return _done(request, "complete")


async def reject(request: PageRequest) -> Answer:
    desk, reason = request.services, request.form.text("reason")
    try:
        await decisions.reject(desk.db, desk.rails, request.parameter("payout"), reason)
    except Refusal as refusal:
        return await _refused(request, refusal)
    return _done(request, "reject")


async def requeue(request: PageRequest) -> Answer:
    try:
        await decisions.requeue(request.services.db, request.parameter("payout"))
    except Refusal as refusal:
        return await _refused(request, refusal)
    return _done(request, "requeue")


async def _refused(request: PageRequest, refusal: Refusal) -> Answer:
    """If somebody else has already decided the payout, the error includes that decision."""
    details = await _details(request)
    if details["decision"] is not None and isinstance(refusal, NotToDecide):
        refusal = NotToDecide(f"{refusal.text} {details['decision']}")
    return request.refused(TEMPLATE, refusal, **details)


async def _details(request: PageRequest) -> dict[str, Any]:
    db, told = request.services.db, await _story(request)
    payout = told.payout
    about = AuditFilter(merchant_id=payout.merchant_id, subject=f"payout:{payout.trx_id}")
    return {
        "payout": payout,
        "merchant": await merchants.get(db, payout.merchant_id),
        "happenings": story.of_payout(told, all_accounts=True),
        "progress": await queue.progress(db, payout),
        "cases": await _cases(request, payout),
        "decision": await decisions.decision(db, payout),
        "hold": await decisions.hold_of(db, payout),
        "lines": await audit.listed(db, about),
        "NO_ANSWER": Kind.NO_ANSWER,
        "providers": NAMES,
    }


async def _story(request: PageRequest) -> PayoutStory:
    trx_id = request.parameter("payout")
    merchant_id = trx_ids.merchant_of(trx_id)
    told = None
    if merchant_id is not None:
        told = await payout_story(request.services.db, merchant_id, trx_id)
    if told is None:
        raise NotHere
    return told


async def _cases(request: PageRequest, payout: Payout) -> list[Case]:
    about = CaseFilter(search=payout.trx_id)
    return (await cases.cases(request.services.db, Everyone(payout.merchant_id), about)).rows


def _done(request: PageRequest, what: str) -> Answer:
    return request.redirect(f"/payouts/{request.parameter('payout')}", done=DONE[what])
