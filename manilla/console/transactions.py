"""Pages of all merchants' payments, payouts and refunds, and each one's timeline."""

from collections.abc import AsyncIterator, Iterable, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from manilla.cases import listing as cases
from manilla.console import list_pages, lookup
from manilla.console.providers import titles
from manilla.kit import listing
from manilla.kit.db import Database
from manilla.kit.fields import Columns
from manilla.kit.listing import Page
from manilla.ledger import trx_ids
from manilla.lookup.story import payment_story, payout_story
from manilla.merchants import merchants, roster
from manilla.payments import listing as payments
from manilla.payments.listing import PaymentFilter
from manilla.payments.payment import Payment
from manilla.payouts import listing as payouts
from manilla.payouts.listing import PayoutFilter
from manilla.payouts.payout import Payout
from manilla.refunds import listing as refunds
from manilla.refunds.listing import RefundFilter
from manilla.refunds.refund import Refund
from manilla.web import exports, lists, timeline
from manilla.web.page_request import PageNotFound, PageRequest, PageResponse


class TransactionKind(StrEnum):
    PAYMENT = "payment"
    PAYOUT = "payout"
    REFUND = "refund"


FILTERS = ("status", "currency")
STATUSES = {
    TransactionKind.PAYMENT: ("pending", "success", "failed"),
    TransactionKind.PAYOUT: ("pending", "completed", "failed", "canceled"),
    TransactionKind.REFUND: ("pending", "completed", "failed"),
}


class NamedTransaction(msgspec.Struct, frozen=True):
    """A transaction with its merchant's name."""

    row: Any
    merchant: str


COLUMNS: dict[TransactionKind, Columns[NamedTransaction]] = {
    TransactionKind.PAYMENT: payments.FIELDS.inside(NamedTransaction, "row").select(
        "trx_id ref_trx merchant_id merchant environment status error_code currency amount"
        " commission_fee commission_bearer refunded customer_name customer_email created_at"
        " updated_at"
    ),
    TransactionKind.PAYOUT: payouts.FIELDS.inside(NamedTransaction, "row").select(
        "trx_id ref_trx merchant_id merchant environment status error_code currency amount fee"
        " method provider provider_reference session_id bank account_number account_name created_at"
        " updated_at"
    ),
    TransactionKind.REFUND: refunds.FIELDS.inside(NamedTransaction, "row").select(
        "trx_id payment_trx_id merchant_id merchant environment status currency amount reason"
        " provider created_at"
    ),
}


async def show_all(request: PageRequest) -> PageResponse:
    kind = _kind(request)
    if exports.is_wanted(request):
        return exports.send(request, f"{kind}s", COLUMNS[kind], _whole(request, kind))
    found = await _page(request, kind, after=lists.after(request))
    if not found.rows and _is_search_alone(request):
        elsewhere = await lookup.path_of(request.db, request.query.text("q"))
        if elsewhere is not None:
            return request.redirect(elsewhere)
    return request.page(
        "transactions.html",
        kind=kind,
        kinds=list(TransactionKind),
        statuses=[(each, each.capitalize()) for each in STATUSES[kind]],
        rows=await _named(request.db, found.rows),
        listing=_view(request, kind, found.next),
    )


async def show(request: PageRequest) -> PageResponse:
    """Shows a payment or payout. For any other id, redirects to the page of its record."""
    trx_id = request.parameter("trx_id")
    merchant_id = trx_ids.merchant_of(trx_id)
    db = request.db
    if merchant_id is None:
        return await _show_elsewhere(request, trx_id)
    paid = await payment_story(db, merchant_id, trx_id)
    if paid is not None:
        values = {"payment": paid.payment, "quote": paid.payment.quote, "refunds": paid.refunds}
        timeline_events = timeline.of_payment(paid, all_accounts=True)
        template = "transaction_payment.html"
        return await _show(request, template, paid.payment, values, timeline_events)
    sent = await payout_story(db, merchant_id, trx_id)
    if sent is not None:
        timeline_events = timeline.of_payout(sent, all_accounts=True)
        return await _show(
            request,
            "transaction_payout.html",
            sent.payout,
            {"payout": sent.payout, "attempts": sent.attempts, "providers": titles(request)},
            timeline_events,
        )
    return await _show_elsewhere(request, trx_id)


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
) -> PageResponse:
    db = request.db
    return request.page(
        template,
        **values,
        merchant=await merchants.get(db, about.merchant_id),
        cases=await cases.about(db, about.merchant_id, about.trx_id),
        timeline_events=timeline_events,
    )


async def _page(
    request: PageRequest,
    kind: TransactionKind,
    *,
    after: str | None,
    limit: int = listing.PAGE_ROWS,
) -> Page[Any]:
    db, scope = request.db, list_pages.checked_scope(request)
    match kind:
        case TransactionKind.PAYMENT:
            paid = lists.read_filter(request, PaymentFilter, *FILTERS)
            return await payments.payments(db, scope, paid, after=after, limit=limit)
        case TransactionKind.PAYOUT:
            sent = lists.read_filter(request, PayoutFilter, *FILTERS)
            return await payouts.payouts(db, scope, sent, after=after, limit=limit)
        case TransactionKind.REFUND:
            given_back = lists.read_filter(request, RefundFilter, *FILTERS)
            return await refunds.refunds(db, scope, given_back, after=after, limit=limit)


async def _whole(
    request: PageRequest, kind: TransactionKind
) -> AsyncIterator[list[NamedTransaction]]:
    """Yields all rows of the list, for exports."""
    async for rows in listing.in_pages(_page, request, kind):
        yield await _named(request.db, rows)


async def _named(db: Database, rows: Iterable[Payment | Payout | Refund]) -> list[NamedTransaction]:
    rows = list(rows)
    names = await roster.names(db, {row.merchant_id for row in rows})
    return [NamedTransaction(row, names.get(row.merchant_id, "")) for row in rows]


def _view(request: PageRequest, kind: TransactionKind, following: str | None) -> lists.ListView:
    """Builds the view of the list. The `kind` parameter does not count as a filter."""
    view = lists.ListView(request, following)
    view.is_filtered = any(
        name not in ("kind", "after") for name, text in request.query.pairs() if text
    )
    view.unfiltered_url += f"?kind={kind}"
    return view


def _is_search_alone(request: PageRequest) -> bool:
    """Whether the search is the only filter.

    Other filters could exclude a record that the search finds on another page.
    """
    given = {name for name, text in request.query.pairs() if text}
    return "q" in given and given <= {"kind", "q"}


def _kind(request: PageRequest) -> TransactionKind:
    try:
        return TransactionKind(request.query.text("kind") or TransactionKind.PAYMENT)
    except ValueError:
        raise PageNotFound from None
