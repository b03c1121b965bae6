"""Pages of all merchants' payments, payouts and refunds, and each one's timeline."""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import partial
from typing import Any

import msgspec
from markupsafe import Markup

from manilla.cases import listing as cases
from manilla.console import list_pages, lookup
from manilla.console.providers import titles
from manilla.kit.db import Database
from manilla.kit.environment import Environment
from manilla.kit.fields import Columns, insert_after
from manilla.ledger import trx_ids
from manilla.ledger.scope import Everyone
from manilla.ledger.transaction_lists import TransactionFilter
from manilla.lookup.story import payment_story, payout_story
from manilla.merchants import merchants, roster
from manilla.payments import listing as payments
from manilla.payments.listing import PaymentFilter
from manilla.payments.payment import Payment
from manilla.payouts import listing as payouts
from manilla.payouts.payout import Payout
from manilla.refunds import listing as refunds
from manilla.refunds.listing import RefundFilter
from manilla.refunds.refund import Refund
from manilla.web import cells, exports, timeline, transaction_columns, transaction_list
from manilla.web.page_request import PageNotFound, PageRequest, PageResponse
from manilla.web.transaction_list import ListColumn, ListFilter, TransactionList


class TransactionKind(StrEnum):
    PAYMENT = "payment"
    PAYOUT = "payout"
    REFUND = "refund"


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


def _merchant(request: PageRequest, named: NamedTransaction) -> Markup:
    """Shows the merchant, and marks sandbox rows."""
    path = f"/merchants/{named.row.merchant_id}"
    link = cells.link(request, path, named.merchant or str(named.row.merchant_id))
    is_sandbox = named.row.environment is Environment.SANDBOX
    return link + Markup(' <span class="quiet">Sandbox</span>') * is_sandbox


def _with_merchant(columns: Sequence[ListColumn]) -> tuple[ListColumn, ...]:
    """Adds the merchant and the environment after the first two columns.

    To leave room for them, account numbers are shown only if chosen.
    """
    inner = [
        msgspec.structs.replace(
            column,
            cell=_of_row(column.cell),
            is_default=column.is_default and column.name != "account",
        )
        for column in columns
    ]
    return (
        *inner[:2],
        ListColumn("merchant", "Merchant", _merchant),
        ListColumn(
            "environment",
            "Environment",
            lambda _, named: named.row.environment.title(),
            is_default=False,
        ),
        *inner[2:],
    )


def _of_row(cell: Callable[[PageRequest, Any], object]) -> Callable[[PageRequest, Any], object]:
    return lambda request, named: cell(request, named.row)


LISTS = {
    TransactionKind.PAYMENT: TransactionList(
        "all_payments",
        "payment",
        _with_merchant(transaction_columns.PAYMENT_COLUMNS),
        payments.payments,
        payments.totals,
    ),
    TransactionKind.PAYOUT: TransactionList(
        "all_payouts",
        "payout",
        _with_merchant(transaction_columns.PAYOUT_COLUMNS),
        payouts.payouts,
        payouts.totals,
    ),
    TransactionKind.REFUND: TransactionList(
        "all_refunds",
        "refund",
        _with_merchant(transaction_columns.REFUND_COLUMNS),
        refunds.refunds,
        refunds.totals,
    ),
}


async def show_all(request: PageRequest) -> PageResponse:
    kind = _kind(request)
    text = request.query.text("q")
    if text and _is_search_alone(request) and not exports.is_wanted(request):
        elsewhere = await _elsewhere(request, kind, text)
        if elsewhere is not None:
            return request.redirect(elsewhere)
    scope = list_pages.checked_scope(request)
    return await LISTS[kind].show(
        request,
        "transactions.html",
        _columns(request, kind),
        scope,
        _filter(request, kind, scope),
        await _filters(request, kind),
        views=("kind",),
        named=partial(_named, request.db),
        kind=kind,
        kinds=list(TransactionKind),
    )


def _columns(request: PageRequest, kind: TransactionKind) -> Columns[NamedTransaction]:
    """Returns the columns of an export. Payouts also have the bank's name beside its code."""
    name_of = request.services.banks.name_of
    return insert_after(COLUMNS[kind], "bank", "bank_name", lambda each: name_of(each.row))


async def _elsewhere(request: PageRequest, kind: TransactionKind, text: str) -> str | None:
    """Returns the page of the record with this id, if the list has no row for it."""
    scope = list_pages.checked_scope(request)
    found = await LISTS[kind].fetch(request.db, scope, _filter(request, kind, scope), limit=1)
    return None if found.rows else await lookup.path_of(request.db, text)


def _filter(request: PageRequest, kind: TransactionKind, scope: Everyone) -> TransactionFilter:
    match kind:
        case TransactionKind.PAYMENT:
            return transaction_list.read_filter(request, PaymentFilter, "method")
        case TransactionKind.PAYOUT:
            is_sandbox = scope.environment is Environment.SANDBOX
            return transaction_columns.read_payout_filter(request, is_sandbox=is_sandbox)
        case TransactionKind.REFUND:
            return transaction_list.read_filter(request, RefundFilter)


async def _filters(request: PageRequest, kind: TransactionKind) -> list[ListFilter]:
    own = {
        TransactionKind.PAYMENT: transaction_columns.payment_filters,
        TransactionKind.PAYOUT: transaction_columns.payout_filters,
        TransactionKind.REFUND: transaction_columns.refund_filters,
    }[kind](request)
    environments = transaction_list.choices([Environment.PRODUCTION, Environment.SANDBOX])
    return [
        *own,
        ListFilter("environment", "Environment", environments),
        *transaction_list.currency_filter(await roster.currencies(request.db)),
        ListFilter("merchant", "Merchant", path=request.at("/merchants/names")),
    ]


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
        timeline_events = timeline.of_payment(paid, is_internal=True)
        template = "transaction_payment.html"
        return await _show(request, template, paid.payment, values, timeline_events)
    sent = await payout_story(db, merchant_id, trx_id)
    if sent is not None:
        timeline_events = timeline.of_payout(sent, is_internal=True)
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


async def _named(db: Database, rows: Iterable[Payment | Payout | Refund]) -> list[NamedTransaction]:
    rows = list(rows)
    names = await roster.names(db, {row.merchant_id for row in rows})
    return [NamedTransaction(row, names.get(row.merchant_id, "")) for row in rows]


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
