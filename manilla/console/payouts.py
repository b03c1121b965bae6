"""Pages for payouts that an administrator must handle: manual, on hold or stuck."""

from typing import Any

import msgspec
from markupsafe import Markup

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.cases import listing as cases
from manilla.cases.cases import path as case_path
from manilla.console import list_pages
from manilla.console.providers import titles
from manilla.kit.database.rows import Reads
from manilla.kit.display import money
from manilla.kit.errors import Refusal
from manilla.kit.fields import Columns, insert_after
from manilla.kit.listing import Page
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone
from manilla.lookup import whereabouts
from manilla.lookup.story import PayoutStory, payout_story
from manilla.lookup.waiting import waiting_reason
from manilla.merchants import merchants
from manilla.payouts import decisions, queue
from manilla.payouts.decisions import NotToDecide
from manilla.payouts.payout import DETAILS
from manilla.payouts.queue import QueueFilter, Stuck, Waiting
from manilla.web import exports, money_story, record_list, table_cells, timeline
from manilla.web.display import badge
from manilla.web.page_request import PageRequest
from manilla.web.record_list import BY_AMOUNT, BY_TIME, ListColumn, Place, RecordList, time_column
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

TEMPLATE = "queue_payout.html"

COLUMNS = queue.ON_HOLD_FIELDS.select(
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


def _reference(request: PageRequest, row: Waiting | Stuck) -> Markup:
    payout = row.payout
    return table_cells.link(request, f"/payouts/{payout.trx_id}", payout.ref_trx or payout.trx_id)


def _provider(request: PageRequest, row: Waiting | Stuck) -> str:
    provider = row.payout.provider or ""
    return table_cells.text(titles(request).get(provider, provider))


def _job(_request: PageRequest, row: Stuck) -> Markup | str:
    has_failed = row.progress.parked_at is not None
    return badge("failed", "Job failed") if has_failed else f"{row.progress.attempts} attempts"


def _case(request: PageRequest, row: Stuck) -> Markup | str:
    number = row.case_id
    if number is None:
        return "—"
    return table_cells.link(request, case_path(row.payout.merchant_id, number), f"Case {number}")


def _sent(_request: PageRequest, row: Stuck) -> str:
    if row.payout.accepted_at:
        return "Accepted"
    return "Sent, result unknown" if row.payout.began_at else "Not sent yet"


def _queue(*columns: ListColumn, is_sorted: bool = False) -> tuple[ListColumn, ...]:
    """Returns a payout queue's columns: the usual columns, with `columns` before the amount."""
    by_time, by_amount = (BY_TIME, BY_AMOUNT) if is_sorted else ((), ())
    created = time_column("Created", "payout.created_at")
    return list_pages.with_merchant(
        (
            msgspec.structs.replace(created, sorts=by_time),
            ListColumn("reference", "Reference", _reference, place=Place.NAME),
            ListColumn(
                "trx_id",
                "Transaction ID",
                lambda _, row: table_cells.identifier(row.payout.trx_id),
                is_default=False,
            ),
            *columns,
            ListColumn(
                "amount",
                "Amount",
                lambda _, row: money(row.payout.amount),
                is_number=True,
                sorts=by_amount,
                place=Place.AMOUNT,
            ),
        )
    )


async def _manual(db: Reads, *arguments: Any, **more: Any) -> Page[Waiting]:
    found = await queue.manual(db, *arguments, **more)
    holds = await decisions.holds_of(db, found.rows)
    return Page([Waiting(each, holds.get(each.trx_id)) for each in found.rows], found.next)


HOLD = ListColumn(
    "hold", "On hold", lambda _, row: row.hold.text if row.hold else "—", place=Place.STATUS
)
MANUAL = RecordList(
    "manual_payouts",
    "payout",
    _queue(
        ListColumn("to", "To", lambda _, row: table_cells.text(row.payout.account_name)),
        ListColumn(
            "account", "Account", lambda _, row: table_cells.text(row.payout.account_number)
        ),
        ListColumn(
            "bank",
            "Bank",
            lambda request, row: table_cells.text(request.services.banks.name_of(row.payout)),
        ),
        HOLD,
        is_sorted=True,
    ),
    _manual,
    queue.manual_totals,
)
ON_HOLD = RecordList(
    "payouts_on_hold",
    "payout",
    _queue(ListColumn("provider", "Provider", _provider), HOLD),
    queue.on_hold,
    None,
)
STUCK = RecordList(
    "stuck_payouts",
    "payout",
    _queue(
        ListColumn("provider", "Provider", _provider),
        ListColumn("sent", "Sent", _sent, place=Place.STATUS),
        ListColumn("job", "Job", _job),
        ListColumn("case", "Case", _case),
        ListColumn(
            "error",
            "Last error",
            lambda _, row: table_cells.long_text(row.progress.last_error),
            is_wide=True,
            place=Place.DETAIL,
        ),
    ),
    queue.stuck,
    None,
)
QUEUES: dict[str, tuple[RecordList, str, Columns[Any]]] = {
    "stuck": (STUCK, "queue_stuck.html", STUCK_COLUMNS),
    "on_hold": (ON_HOLD, "queue_on_hold.html", ON_HOLD_COLUMNS),
}


async def show_all(request: PageRequest) -> PageResponse:
    scope = list_pages.queue_scope(request)
    wanted = record_list.read_amounts(request, QueueFilter)
    bank_name = request.services.banks.name_of
    columns = insert_after(COLUMNS, "bank", "bank_name", lambda row: bank_name(row.payout))
    manual = (MANUAL, "queue_payouts.html", columns)
    shown = QUEUES.get(request.query.text(list_pages.SHOW), manual)
    is_first = shown is manual and not exports.is_wanted(request)
    every = Everyone(environment=scope.environment)
    return await list_pages.show(
        *(request, *shown, [scope], wanted),
        views=list_pages.VIEWS,
        has_stuck=is_first and bool((await queue.stuck(request.db, every, limit=1)).rows),
    )


async def show(request: PageRequest) -> PageResponse:
    details = await _details(request)
    return money_story.poll(request, details["story"]) or request.page(TEMPLATE, **details)


async def complete(request: PageRequest) -> PageResponse:
    already_paid = request.form.is_checked("already_paid")
    reference, payout = request.form.text("bank_reference"), request.parameter("payout")
    try:
        decisions.check_text(reference, "A bank reference")
        await request.confirm_identity()
        await decisions.complete(request.db, payout, reference, already_paid=already_paid)
    except Refusal as refusal:
        return await _refused(request, refusal)
    return _shown(request, "Marked as paid. The merchant is notified.")


async def reject(request: PageRequest) -> PageResponse:
    reason, rails = request.form.text("reason"), request.services.rails
    try:
        decisions.check_text(reason, "A reason")
        await request.confirm_identity()
        await decisions.reject(request.db, rails, request.parameter("payout"), reason)
    except Refusal as refusal:
        return await _refused(request, refusal)
    done = "Rejected. The money was returned to the wallet, and the merchant is notified."
    return _shown(request, done)


async def requeue(request: PageRequest) -> PageResponse:
    try:
        await decisions.requeue(request.db, request.parameter("payout"))
    except Refusal as refusal:
        return await _refused(request, refusal)
    return _shown(request, "The job is running again. Reload the page in a moment.")


def _shown(request: PageRequest, done: str) -> PageResponse:
    return request.redirect(f"/payouts/{request.parameter('payout')}", done=done)


async def _refused(request: PageRequest, refusal: Refusal) -> PageResponse:
    """Renders the payout's page again, with the error and any decision made in the meantime."""
    details = await _details(request)
    if details["decision"] is not None and isinstance(refusal, NotToDecide):
        refusal = NotToDecide(f"{refusal.text} {details['decision']}")
    return request.form_with_errors(TEMPLATE, refusal, **details)


async def _details(request: PageRequest) -> dict[str, Any]:
    db, history = request.db, await _story(request)
    payout = history.payout
    about = AuditFilter(merchant_id=payout.merchant_id, subject=f"payout:{payout.trx_id}")
    reason = await waiting_reason(db, request.services.rails, payout)
    found = await whereabouts.of_payout(db, money_story.audience(request), history, reason)
    return {
        "payout": payout,
        "story": money_story.story(request, f"/payouts/{payout.trx_id}", found),
        "attempts": history.attempts,
        "merchant": await merchants.get(db, payout.merchant_id),
        "timeline_events": timeline.of_payout(history, is_internal=True),
        "progress": await queue.progress(db, payout),
        "cases": await cases.about(db, payout.merchant_id, payout.trx_id),
        "decision": await decisions.decision(db, payout),
        "hold": await decisions.hold_of(db, payout),
        "lines": await audit.list_entries(db, about),
        "STUCK": decisions.STUCK,
        "is_as_accepted": await decisions.is_as_accepted(db, payout),
        "providers": titles(request),
    }


async def _story(request: PageRequest) -> PayoutStory:
    trx_id = request.parameter("payout")
    merchant_id = trx_ids.merchant_of(trx_id)
    history = merchant_id and await payout_story(request.db, merchant_id, trx_id)
    if not history:
        raise PageNotFound
    return history
