"""Refund pages: the list, refunds to pay manually, and the form for a new refund."""

from typing import Any

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.console import list_pages
from manilla.console.providers import titles
from manilla.kit.display import money
from manilla.kit.errors import Refusal
from manilla.ledger import trx_ids
from manilla.lookup import whereabouts
from manilla.lookup.story import payment_story
from manilla.merchants import merchants
from manilla.methods.method import MethodKind
from manilla.payments.payment import Payment
from manilla.refunds import decisions, initiate, returns, store
from manilla.refunds import listing as listed_refunds
from manilla.refunds.initiate import PaymentNotFound
from manilla.refunds.listing import RefundFilter
from manilla.refunds.postings import RefundRefused
from manilla.refunds.refund import Refund
from manilla.web import lists, money_story, record_list, timeline
from manilla.web.columns import transactions as transaction_columns
from manilla.web.page_request import PageRequest
from manilla.web.record_list import RecordList
from manilla.web.refunds import form as refund_form
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

TEMPLATE, NEW = "queue_refund.html", "transaction_refund.html"
REVIEW = "transaction_refund_review.html"
QUEUE_ROWS = 200

COLUMNS = listed_refunds.FIELDS.select(
    "trx_id payment_trx_id merchant_id environment status currency amount reason provider"
    " by_operator detail created_at"
)


async def show_new(request: PageRequest) -> PageResponse:
    return request.page(NEW, **await _about_payment(request))


async def review_new(request: PageRequest) -> PageResponse:
    about = await _about_payment(request)
    try:
        review = refund_form.review(request, about["payment"])
    except Refusal as refusal:
        return request.form_with_errors(NEW, refusal, **about)
    with_commission = request.form.is_checked("with_commission")
    return request.page(REVIEW, **about, **review, with_commission=with_commission)


async def start(request: PageRequest) -> PageResponse:
    """Starts a refund on the merchant's behalf, even if the merchant is disabled."""
    about = await _about_payment(request)
    payment: Payment = about["payment"]
    try:
        wanted = refund_form.read(request, payment)
        await request.confirm_identity()
        refund = await initiate.start(
            request.db,
            payment.trx_id,
            wanted.amount_text,
            wanted.reason,
            refunded_before=wanted.refunded_before,
            on_behalf=True,
            with_commission=request.form.is_checked("with_commission"),
        )
    except Refusal as refusal:
        return request.form_with_errors(NEW, refusal, **about)
    done = f"Refund of {money(refund.amount)} started."
    return request.redirect(f"/refunds/{refund.trx_id}", done=done)


async def return_credit(request: PageRequest) -> PageResponse:
    """Refunds an overpaid surplus or a partial payment to the customer."""
    trx_id = request.parameter("trx_id")
    try:
        await returns.start_on_behalf(request.db, trx_id)
    except PaymentNotFound:
        raise PageNotFound from None
    except Refusal as refusal:
        return request.redirect(f"/transactions/{trx_id}", failed=refusal.text)
    return request.redirect(f"/transactions/{trx_id}", done="The return was started.")


async def _about_payment(request: PageRequest) -> dict[str, Any]:
    db, trx_id = request.db, request.parameter("trx_id")
    merchant_id = trx_ids.merchant_of(trx_id)
    history = None if merchant_id is None else await payment_story(db, merchant_id, trx_id)
    if history is None:
        raise PageNotFound
    payment = history.payment
    return {
        "payment": payment,
        "merchant": await merchants.get(db, payment.merchant_id),
        "refundable": payment.refundable,
        "refund_note": history.refund_note(request.services.rails),
        "commission": payment.quote.customer_pays - payment.amount,
    }


LIST = RecordList(
    "refunds",
    "refund",
    list_pages.with_merchant(transaction_columns.REFUND_COLUMNS),
    listed_refunds.refunds,
    listed_refunds.totals,
    transaction_columns.REFUND_OUTCOMES,
)


async def show_all(request: PageRequest) -> PageResponse:
    db, scope = request.db, list_pages.queue_scope(request)
    wanted = record_list.read_amounts(request, RefundFilter, "status")
    is_plain = wanted == RefundFilter() and not scope.merchant_id and not lists.after(request)
    waiting = await store.waiting(db, scope, QUEUE_ROWS) if is_plain else []
    return await list_pages.show(
        *(request, LIST, "queue_refunds.html", COLUMNS),
        *([scope], wanted, transaction_columns.refund_filters(request)),
        views=list_pages.VIEWS,
        waiting=await list_pages.with_merchants(db, COLUMNS, waiting),
        is_plain=is_plain,
    )


async def show(request: PageRequest) -> PageResponse:
    details = await _details(request)
    return money_story.poll(request, details["story"]) or request.page(TEMPLATE, **details)


async def confirm(request: PageRequest) -> PageResponse:
    key = request.db, request.services.rails, request.parameter("refund")
    note, already_paid = request.form.text("note"), request.form.is_checked("already_paid")
    try:
        decisions.check_note(note)
        await request.confirm_identity()
        await decisions.confirm(*key, note, already_paid=already_paid)
    except Refusal as refusal:
        return await _refused(request, refusal)
    return _shown(request, "Confirmed. The merchant is notified.")


async def reject(request: PageRequest) -> PageResponse:
    key = request.db, request.services.rails, request.parameter("refund")
    reason, is_checked = request.form.text("reason"), request.form.is_checked("is_checked")
    try:
        decisions.check_note(reason)
        await request.confirm_identity()
        refund = await decisions.reject(*key, reason, is_checked=is_checked)
    except Refusal as refusal:
        return await _refused(request, refusal)
    done = "The money was returned to the merchant's wallet."
    if refund.is_of_customer_credit:
        done = "The money is in the suspense account, and a case was opened."
    return _shown(request, f"Rejected. {done}")


def _shown(request: PageRequest, done: str) -> PageResponse:
    return request.redirect(f"/refunds/{request.parameter('refund')}", done=done)


async def _refused(request: PageRequest, refusal: Refusal) -> PageResponse:
    """Renders the refund's page again, with the error and any decision made in the meantime."""
    details = await _details(request)
    if details["decision"] is not None and isinstance(refusal, RefundRefused):
        refusal = RefundRefused(f"{refusal.text} {details['decision']}")
    return request.form_with_errors(TEMPLATE, refusal, **details)


async def _details(request: PageRequest) -> dict[str, Any]:
    db, refund = request.db, await _refund(request)
    history = await payment_story(db, refund.merchant_id, refund.payment_trx_id)
    assert history is not None
    about = AuditFilter(merchant_id=refund.merchant_id, subject=f"refund:{refund.trx_id}")
    hold = await decisions.hold_of(db, refund)
    found = await whereabouts.of_refund(db, money_story.audience(request), refund, hold)
    return {
        "story": money_story.story(request, f"/refunds/{refund.trx_id}", found),
        "refund": refund,
        "payment": history.payment,
        "merchant": await merchants.get(db, refund.merchant_id),
        "timeline_events": timeline.of_payment(
            history, request.services.methods.names(MethodKind.DEPOSIT), is_internal=True
        ),
        "decision": await decisions.decision(db, refund),
        "hold": hold,
        "has_query": _has_query(request, refund),
        "providers": titles(request),
        "lines": await audit.list_entries(db, about),
    }


def _has_query(request: PageRequest, refund: Refund) -> bool:
    """Returns whether the provider supports status queries for refunds."""
    account = request.services.rails.accounts.get(refund.provider or "")
    return account is not None and account.kind.capabilities.refund_status


async def _refund(request: PageRequest) -> Refund:
    trx_id = request.parameter("refund")
    merchant_id = trx_ids.merchant_of(trx_id)
    found = merchant_id and await store.refund(request.db, merchant_id, trx_id)
    if not found:
        raise PageNotFound
    return found
