"""Refund pages: the list, and the page of one refund. A payment's page starts new refunds."""

from manilla.ledger import trx_ids
from manilla.lookup import whereabouts
from manilla.payments import store as payments
from manilla.refunds import decisions, store
from manilla.refunds import listing as refunds
from manilla.refunds.listing import RefundFilter
from manilla.refunds.refund import Refund
from manilla.web import money_story, record_list
from manilla.web.columns import transactions as transaction_columns
from manilla.web.page_request import PageRequest
from manilla.web.record_list import RecordList
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

COLUMNS = refunds.FIELDS.select(
    "trx_id ref_trx payment_trx_id status currency amount reason created_at updated_at"
)

LIST = RecordList(
    "refunds",
    "refund",
    transaction_columns.REFUND_COLUMNS,
    refunds.refunds,
    refunds.totals,
    transaction_columns.REFUND_OUTCOMES,
)


async def show_all(request: PageRequest) -> PageResponse:
    wanted = record_list.read_amounts(request, RefundFilter, "status", "currency")
    filters = [
        *transaction_columns.refund_filters(request),
        *record_list.currency_filter(sorted((await request.caller()).currencies)),
    ]
    return await LIST.show(request, "refunds.html", COLUMNS, [request.tenant], wanted, filters)


async def show(request: PageRequest) -> PageResponse:
    refund = await _refund(request)
    hold = await decisions.hold_of(request.db, refund)
    found = await whereabouts.of_refund(request.db, money_story.audience(request), refund, hold)
    story = money_story.story(request, f"~/refunds/{refund.trx_id}", found)
    if (response := money_story.poll(request, story)) is not None:
        return response
    payment = await payments.payment(request.db, refund.merchant_id, refund.payment_trx_id)
    return request.page("refund_details.html", refund=refund, story=story, payment=payment)


async def _refund(request: PageRequest) -> Refund:
    trx_id = request.parameter("refund")
    is_own = trx_ids.merchant_of(trx_id) == request.merchant_id
    refund = await store.refund(request.db, request.merchant_id, trx_id) if is_own else None
    if refund is None or refund.environment != request.environment:
        raise PageNotFound
    return refund
