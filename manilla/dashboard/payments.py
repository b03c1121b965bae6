"""Payment pages: the list, the page of one payment, and refunds."""

from typing import Any

from manilla.kit.display import money
from manilla.kit.errors import Refusal
from manilla.lookup import whereabouts
from manilla.lookup.story import PaymentStory, payment_story
from manilla.methods.method import MethodKind
from manilla.payments import listing as payments
from manilla.payments.listing import PaymentFilter
from manilla.payments.payment import DETAILS
from manilla.refunds import initiate
from manilla.refunds.postings import RefundNotCovered, RefundRefused
from manilla.web import money_story, record_list, timeline
from manilla.web.columns import transactions as transaction_columns
from manilla.web.page_request import PageRequest
from manilla.web.record_list import ListFilter, RecordList
from manilla.web.refunds import form as refund_form
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

AT_AMOUNT = ((RefundRefused, "amount"), (RefundNotCovered, "amount"))

COLUMNS = payments.FIELDS.select(
    "trx_id ref_trx status error_code currency amount commission_fee commission_bearer"
    f" customer_paid refunded customer_name customer_email {' '.join(DETAILS)} created_at"
    " updated_at"
)


LIST = RecordList(
    "payments",
    "payment",
    transaction_columns.PAYMENT_COLUMNS,
    payments.payments,
    payments.totals,
    transaction_columns.PAYMENT_OUTCOMES,
)


async def show_all(request: PageRequest) -> PageResponse:
    wanted = record_list.read_amounts(
        request, PaymentFilter, "status", "currency", "method", "link_id"
    )
    filters = [
        *transaction_columns.payment_filters(request),
        ListFilter("link_id", "Payment link id"),
        *record_list.currency_filter(sorted((await request.caller()).currencies)),
    ]
    columns = transaction_columns.with_taxes(request, COLUMNS)
    return await LIST.show(request, "payments.html", columns, [request.tenant], wanted, filters)


async def show(request: PageRequest) -> PageResponse:
    history = await _story(request)
    if (response := request.poll_response(_version(history))) is not None:
        return response
    found = await whereabouts.of_payment(request.db, money_story.audience(request), history)
    story = money_story.story(request, f"~/payments/{history.payment.trx_id}", found)
    if (response := money_story.poll(request, story)) is not None:
        return response
    return request.page(
        "payment.html",
        **_about(request, history),
        story=story,
        timeline_events=timeline.of_payment(
            history, request.services.methods.names(MethodKind.DEPOSIT)
        ),
    )


async def show_refund(request: PageRequest) -> PageResponse:
    return request.page("refund.html", **_about(request, await _story(request)))


async def review_refund(request: PageRequest) -> PageResponse:
    history = await _story(request)
    try:
        review = refund_form.review(request, history.payment)
    except Refusal as refusal:
        return _rejected(request, history, refusal)
    return request.page("refund_review.html", **_about(request, history), **review)


async def refund(request: PageRequest) -> PageResponse:
    history = await _story(request)
    payment = history.payment
    try:
        wanted = refund_form.read(request, payment)
        await request.confirm_identity()
        refund = await initiate.start(
            request.db,
            payment.trx_id,
            wanted.amount_text,
            wanted.reason,
            refunded_before=wanted.refunded_before,
        )
    except Refusal as refusal:
        return _rejected(request, history, refusal)
    done = f"Refund of {money(refund.amount)} started."
    return request.redirect(f"~/payments/{payment.trx_id}", done=done)


def _rejected(request: PageRequest, history: PaymentStory, refusal: Refusal) -> PageResponse:
    if isinstance(refusal, initiate.RefundedMeanwhile):
        return request.redirect(f"~/payments/{history.payment.trx_id}", failed=refusal.text)
    about = _about(request, history)
    return request.form_with_errors("refund.html", refusal, at=AT_AMOUNT, **about)


async def _story(request: PageRequest) -> PaymentStory:
    found = await payment_story(
        request.db,
        request.merchant_id,
        request.parameter("trx_id"),
        environment=request.environment,
    )
    if found is None:
        raise PageNotFound
    return found


def _about(request: PageRequest, history: PaymentStory) -> dict[str, Any]:
    payment = history.payment
    return {
        "payment": payment,
        "state": history.state,
        "refunded": history.refunded,
        "refunding": history.refunding,
        "paid_at": history.paid_at,
        "method": _method(request, history),
        "charge": history.charge,
        "held": history.held,
        "wrong_amount": history.wrong_amount,
        "version": _version(history),
        "quote": payment.quote,
        "net": history.net,
        "shared": history.shared,
        "refunds": history.refunds,
        "disputes": history.disputes,
        "shares": history.shares,
        "refundable": payment.refundable,
        "is_refundable": payment.refundable.minor > 0,
        "refund_note": history.refund_note(request.services.rails),
    }


def _method(request: PageRequest, history: PaymentStory) -> str | None:
    """Returns the name of the customer's last payment method, or None if there is none."""
    if history.charge is None:
        return None
    code = history.charge.method_code
    return request.services.methods.names(MethodKind.DEPOSIT).get(code, code)


def _version(history: PaymentStory) -> str:
    """Returns a version string that changes with every event of the payment."""
    return f"{history.payment.status}-{len(history.steps)}"
