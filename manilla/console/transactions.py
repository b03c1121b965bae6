"""Transaction pages for all merchants: a list for each type of transaction, and details."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from manilla.cases import listing as cases
from manilla.console import disputes as console_disputes
from manilla.console import list_pages, lookup
from manilla.console.providers import titles
from manilla.kit.environment import Environment
from manilla.kit.fields import Columns, insert_after
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone
from manilla.ledger.transaction_lists import TransactionFilter
from manilla.lookup import whereabouts
from manilla.lookup.story import payment_story, payout_story
from manilla.lookup.waiting import waiting_reason
from manilla.lookup.whereabouts import Whereabouts
from manilla.merchants import merchants
from manilla.methods.method import MethodKind
from manilla.payments import listing as payments
from manilla.payments.listing import PaymentFilter
from manilla.payments.payment import Payment
from manilla.payouts import listing as payouts
from manilla.payouts.listing import PayoutFilter
from manilla.payouts.payout import REPORTED_COLUMNS, Payout
from manilla.refunds import listing as refunds
from manilla.refunds.listing import RefundFilter
from manilla.splits import listing as shares
from manilla.splits import store as share_store
from manilla.splits.listing import ShareFilter
from manilla.transaction_types import DISPUTE, PAYMENT, PAYOUT, REFUND, SPLIT
from manilla.web import exports, money_story, record_list, timeline
from manilla.web.columns import transactions as transaction_columns
from manilla.web.page_request import PageRequest
from manilla.web.record_list import ListColumn, ListFilter, RecordList
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

ENVIRONMENT = ListColumn(
    "environment", "Environment", lambda _, row: row.environment.title(), is_default=False
)


def _with_merchant(columns: Sequence[ListColumn]) -> tuple[ListColumn, ...]:
    """Adds the columns for the merchant and the environment.

    The account number is hidden by default, to make space for these columns.
    """
    shown = [
        msgspec.structs.replace(column, is_default=column.is_default and column.name != "account")
        for column in (*columns[:2], ENVIRONMENT, *columns[2:])
    ]
    return list_pages.with_merchant(shown)


def _payment_filter(request: PageRequest, _: Everyone) -> PaymentFilter:
    return record_list.read_amounts(request, PaymentFilter, "status", "currency", "method")


def _payout_filter(request: PageRequest, scope: Everyone) -> PayoutFilter:
    is_sandbox = scope.environment is Environment.SANDBOX
    return transaction_columns.read_payout_filter(request, is_sandbox=is_sandbox)


def _refund_filter(request: PageRequest, _: Everyone) -> RefundFilter:
    return record_list.read_amounts(request, RefundFilter, "status", "currency")


class TransactionList(msgspec.Struct, frozen=True):
    """The list of one type of transaction, for all merchants."""

    records: RecordList
    read_filter: Callable[[PageRequest, Everyone], TransactionFilter]
    filters: Callable[[PageRequest], Sequence[ListFilter]]
    exported: Columns[Any]


# By the name of the type.
LISTS = {
    PAYMENT.name: TransactionList(
        RecordList(
            "all_payments",
            "payment",
            _with_merchant(transaction_columns.PAYMENT_COLUMNS),
            payments.payments,
            payments.totals,
            transaction_columns.PAYMENT_OUTCOMES,
        ),
        _payment_filter,
        transaction_columns.payment_filters,
        payments.FIELDS.select(
            "trx_id ref_trx merchant_id environment status error_code currency amount"
            " commission_fee commission_bearer refunded customer_name customer_email created_at"
            " updated_at"
        ),
    ),
    PAYOUT.name: TransactionList(
        RecordList(
            "all_payouts",
            "payout",
            _with_merchant(transaction_columns.PAYOUT_COLUMNS),
            payouts.payouts,
            payouts.totals,
            transaction_columns.PAYOUT_OUTCOMES,
        ),
        _payout_filter,
        transaction_columns.payout_filters,
        payouts.FIELDS.select(
            "trx_id ref_trx merchant_id environment status error_code currency amount fee"
            f" method provider {' '.join(REPORTED_COLUMNS)} bank account_number account_name"
            " created_at updated_at"
        ),
    ),
    REFUND.name: TransactionList(
        RecordList(
            "all_refunds",
            "refund",
            _with_merchant(transaction_columns.REFUND_COLUMNS),
            refunds.refunds,
            refunds.totals,
            transaction_columns.REFUND_OUTCOMES,
        ),
        _refund_filter,
        transaction_columns.refund_filters,
        refunds.FIELDS.select(
            "trx_id payment_trx_id merchant_id environment status currency amount reason"
            " provider created_at"
        ),
    ),
    DISPUTE.name: TransactionList(
        console_disputes.LIST,
        lambda request, _: transaction_columns.read_dispute_filter(request, None),
        lambda _: transaction_columns.dispute_filters(None),
        console_disputes.COLUMNS,
    ),
    SPLIT.name: TransactionList(
        RecordList(
            "all_shares",
            "share",
            list_pages.with_merchant(transaction_columns.SHARE_COLUMNS),
            shares.shares,
            shares.totals,
        ),
        lambda request, _: record_list.read_amounts(request, ShareFilter, "status", "currency"),
        lambda _: transaction_columns.share_filters(),
        shares.FIELDS.select(
            "trx_id payment_trx_id merchant_id owner_id environment status currency amount withheld"
            " returned short hold_until created_at updated_at"
        ),
    ),
}


async def show_all(request: PageRequest) -> PageResponse:
    list_pages.checked_scope(request)
    kind, text = request.query.text("kind") or PAYMENT.name, request.query.text("q")
    if kind not in LISTS:
        raise PageNotFound
    shown, scope = LISTS[kind], list_pages.money_scope(request)
    if text and _is_search_alone(request) and not exports.is_wanted(request):
        # If the filtered list is empty, the text can be the id of another record.
        found = await shown.records.fetch(
            request.db, scope, shown.read_filter(request, scope), limit=1
        )
        elsewhere = None if found.rows else await lookup.path_of(request.db, text)
        if elsewhere is not None:
            return request.redirect(elsewhere)
    # Payouts have the bank's name after the bank's code.
    columns = insert_after(shown.exported, "bank", "bank_name", request.services.banks.name_of)
    if kind in (PAYMENT.name, PAYOUT.name):
        columns = transaction_columns.with_taxes(request, columns)
    filters = [
        *shown.filters(request),
        *record_list.currency_filter(request.services.methods.currencies),
    ]
    return await list_pages.show(
        *(request, shown.records, "transactions.html", columns),
        *([scope], shown.read_filter(request, scope), filters),
        views=("kind", list_pages.ENVIRONMENT),
        kind=kind,
        kinds=list(LISTS),
    )


async def show(request: PageRequest) -> PageResponse:
    """Shows a payment or payout. If the id belongs to another record, redirects to its page."""
    trx_id = request.parameter("trx_id")
    merchant_id = trx_ids.merchant_of(trx_id)
    db = request.db
    if merchant_id is None:
        return await _show_elsewhere(request, trx_id)
    paid = await payment_story(db, merchant_id, trx_id)
    if paid is not None:
        method_names = request.services.methods.names(MethodKind.DEPOSIT)
        values = {
            "payment": paid.payment,
            "quote": paid.payment.quote,
            "refunds": paid.refunds,
            "disputes": paid.disputes,
            "shares": paid.shares,
            "history": paid,
            "method_names": method_names,
        }
        timeline_events = timeline.of_payment(paid, method_names, is_internal=True)
        found = await whereabouts.of_payment(db, money_story.audience(request), paid)
        template = "transaction_payment.html"
        return await _show(request, template, paid.payment, values, timeline_events, found)
    sent = await payout_story(db, merchant_id, trx_id)
    if sent is not None:
        timeline_events = timeline.of_payout(sent, is_internal=True)
        reason = await waiting_reason(db, request.services.rails, sent.payout)
        audience = money_story.audience(request)
        return await _show(
            request,
            "transaction_payout.html",
            sent.payout,
            {
                "payout": sent.payout,
                "attempts": sent.attempts,
                "providers": titles(request),
            },
            timeline_events,
            await whereabouts.of_payout(db, audience, sent, reason),
        )
    return await _show_elsewhere(request, trx_id)


async def show_share(request: PageRequest) -> PageResponse:
    """Redirects to the payment, whose page shows all shares."""
    trx_id = request.parameter("share")
    merchant_id = trx_ids.merchant_of(trx_id)
    share = None
    if merchant_id is not None:  # an id of ours has no characters that the database refuses
        share = await share_store.share(request.db, merchant_id, trx_id)
    if share is None:
        raise PageNotFound
    return request.redirect(f"/transactions/{share.payment_trx_id}")


async def _show_elsewhere(request: PageRequest, identifier: str) -> PageResponse:
    path = await lookup.path_of(request.db, identifier)
    if path is None:
        raise PageNotFound
    return request.redirect(path)


async def _show(
    request: PageRequest,
    template: str,
    about: Payment | Payout,
    values: dict[str, Any],
    timeline_events: Sequence[timeline.TimelineEntry],
    found: Whereabouts,
) -> PageResponse:
    db = request.db
    known_cases = await cases.about(db, about.merchant_id, about.trx_id)
    open_case = next((each.path for each in known_cases if each.status == "open"), None)
    story = money_story.story(request, f"/transactions/{about.trx_id}", found, open_case)
    if (response := money_story.poll(request, story)) is not None:
        return response
    return request.page(
        template,
        **values,
        story=story,
        merchant=await merchants.get(db, about.merchant_id),
        cases=known_cases,
        timeline_events=timeline_events,
    )


def _is_search_alone(request: PageRequest) -> bool:
    """Returns whether the search is the only filter.

    Other filters could exclude a record that the search finds on another page.
    """
    given = {name for name, text in request.query.pairs() if text}
    return "q" in given and given <= {"kind", "q", list_pages.ENVIRONMENT}
