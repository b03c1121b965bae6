"""Columns and filters of the lists of transactions in dashboard and console."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from markupsafe import Markup

from manilla.banks.nigeria import BANKS
from manilla.banks.registry import AmbiguousBankCode
from manilla.disputes import figures
from manilla.disputes.dispute import AnswerState, Dispute, DisputeStatus
from manilla.disputes.listing import DisputeFilter
from manilla.kit.display import money
from manilla.kit.fields import Columns
from manilla.kit.listing.sorting import SortOrder
from manilla.kit.money import Money
from manilla.methods.method import MethodKind
from manilla.payments.listing import ListedPayment, ListedStatus
from manilla.payments.payment import Payment, PaymentStatus
from manilla.payouts.listing import BankCodes, PayoutFilter
from manilla.payouts.payout import REPORTED, Payout, PayoutStatus, ReportedField
from manilla.people.roles import Realm
from manilla.refunds.refund import Refund, RefundStatus
from manilla.splits.share import Share, ShareStatus
from manilla.web import record_list, table_cells
from manilla.web.display import badge, short_moment
from manilla.web.forms import BadForm
from manilla.web.page_request import PageRequest
from manilla.web.record_list import BY_AMOUNT, ListColumn, ListFilter, Outcome, Place, time_column

Paid = TypeVar("Paid", Payment, Payout)
UNDER_REVIEW: str = ListedStatus.UNDER_REVIEW  # payout lists can also be filtered by this status
BANK_OPTIONS = tuple(
    (bank.code, bank.text, bank.words) for bank in sorted(BANKS, key=lambda bank: bank.name)
)


def _reference(request: PageRequest, row: Payment | Payout) -> Markup:
    kind = "payments" if isinstance(row, Payment) else "payouts"
    is_console = request.realm is Realm.CONSOLE
    path = f"/transactions/{row.trx_id}" if is_console else f"~/{kind}/{row.trx_id}"
    return table_cells.link(request, path, row.ref_trx or row.trx_id)


def _refund(request: PageRequest, row: Refund) -> Markup:
    root = "" if request.realm is Realm.CONSOLE else "~"
    return table_cells.id_link(request, f"{root}/refunds/{row.trx_id}", row.trx_id)


def _share(request: PageRequest, row: Share) -> Markup:
    root = "" if request.realm is Realm.CONSOLE else "~"
    return table_cells.id_link(request, f"{root}/shares/{row.trx_id}", row.trx_id)


def _payment_status(_request: PageRequest, row: ListedPayment) -> Markup:
    return table_cells.status(row.state, row.error_code)


def _payout_status(_request: PageRequest, row: Payout) -> Markup:
    is_manual = row.status is PayoutStatus.PENDING and row.is_manual
    shown = "Awaiting manual payment" if is_manual else None
    return table_cells.status(row.status, row.error_code, shown=shown)


def _refund_status(_request: PageRequest, row: Refund) -> Markup:
    is_manual = row.by_operator and row.status is RefundStatus.PENDING
    return table_cells.status(row.status, "Needs manual payment" if is_manual else None)


def _dispute(request: PageRequest, row: Dispute) -> Markup:
    root = "" if request.realm is Realm.CONSOLE else "~"
    return table_cells.link(request, f"{root}/disputes/{row.trx_id}", row.ref_trx or row.trx_id)


def _deadline(_request: PageRequest, row: Dispute) -> Markup:
    """Returns the time that is left if it is short. The deadline of an answered dispute is gray."""
    if not row.is_unanswered:
        return Markup('<span class="quiet">{}</span>').format(short_moment(row.respond_by))
    left = figures.seconds_left(row)
    if left > DEADLINE_NEAR_SECONDS:
        return short_moment(row.respond_by)
    if not left:
        return badge("lost", "Missed")
    hours, minutes = left // 3600, left // 60
    return Markup("<strong>{} left</strong>").format(f"{hours} h" if hours else f"{minutes} min")


def dispute_status(row: Dispute) -> Markup:
    return table_cells.status(row.status, ANSWERS.get(row.answer) if row.answer else None)


def _bank(request: PageRequest, row: Payout) -> str:
    return table_cells.text(request.services.banks.name_of(row))


def _reported_column(field: ReportedField) -> ListColumn:
    value = attrgetter(field.name)
    return ListColumn(
        field.column,
        field.label,
        lambda _, row: table_cells.identifier(value(row)),
        is_default=False,
    )


# Where the merchant's answer to a dispute is.
ANSWERS = {
    AnswerState.REVIEW: "In review",
    AnswerState.WAITING: "Waiting to be sent",
    AnswerState.SENDING: "Being sent",
    AnswerState.MANUAL: "To be sent manually",
    AnswerState.SENT: "Sent",
    AnswerState.REJECTED: "Rejected",
}

# The views of the list of disputes: title, and what a dispute must have. None: all disputes.
ALL_DISPUTES = "all"
DISPUTE_VIEWS: dict[str, tuple[str, Mapping[str, Any] | None]] = {
    "due": ("Needs response", {"status": DisputeStatus.NEEDS_RESPONSE, "is_missed": False}),
    "missed": ("Missed", {"is_missed": True, "is_open": True}),
    ALL_DISPUTES: ("All", None),
}
DEADLINE_NEAR_SECONDS = 24 * 3600

CREATED = time_column("Created", "created_at")
TRX_ID = ListColumn(
    "trx_id", "Transaction ID", lambda _, row: table_cells.identifier(row.trx_id), is_default=False
)
DESCRIPTION = ListColumn(
    "description", "Description", lambda _, row: table_cells.text(row.description), is_default=False
)
AMOUNT = ListColumn(
    "amount",
    "Amount",
    lambda _, row: money(row.amount),
    Place.AMOUNT,
    is_number=True,
    sorts=BY_AMOUNT,
)

PAYMENT_COLUMNS = (
    CREATED,
    ListColumn("reference", "Reference", _reference, Place.NAME),
    TRX_ID,
    ListColumn(
        "customer", "Customer", lambda _, row: table_cells.text(row.customer_name), Place.ASIDE
    ),
    ListColumn(
        "email", "Email", lambda _, row: table_cells.text(row.customer_email), is_default=False
    ),
    DESCRIPTION,
    ListColumn("status", "Status", _payment_status, Place.STATUS, sorts=(SortOrder.STATUS,)),
    ListColumn(
        "commission",
        "Commission",
        lambda _, row: money(row.quote.commission),
        is_number=True,
        is_default=False,
    ),
    AMOUNT,
)

PAYOUT_COLUMNS = (
    CREATED,
    ListColumn("reference", "Reference", _reference, Place.NAME),
    TRX_ID,
    ListColumn(
        "to", "To", lambda _, row: table_cells.text(row.account_name or "Manual"), Place.ASIDE
    ),
    ListColumn("account", "Account number", lambda _, row: table_cells.text(row.account_number)),
    ListColumn("bank", "Bank", _bank, is_default=False),
    ListColumn(
        "method", "Method", lambda _, row: table_cells.text(row.method_name), is_default=False
    ),
    *(_reported_column(field) for field in REPORTED),
    DESCRIPTION,
    ListColumn("status", "Status", _payout_status, Place.STATUS, sorts=(SortOrder.STATUS,)),
    ListColumn("fee", "Fee", lambda _, row: money(row.fee), is_number=True, is_default=False),
    AMOUNT,
)

REFUND_COLUMNS = (
    CREATED,
    ListColumn("refund", "Refund", _refund, Place.NAME),
    ListColumn(
        "payment",
        "Payment",
        lambda _, row: table_cells.identifier(row.payment_trx_id),
        is_default=False,
    ),
    ListColumn("reason", "Reason", lambda _, row: table_cells.text(row.reason), Place.ASIDE),
    ListColumn("status", "Status", _refund_status, Place.STATUS, sorts=(SortOrder.STATUS,)),
    AMOUNT,
)

DISPUTE_COLUMNS = (
    ListColumn("deadline", "Deadline", _deadline, Place.TIME, sorts=(SortOrder.DEADLINE,)),
    ListColumn("dispute", "Payment", _dispute, Place.NAME),
    ListColumn(
        "trx_id", "Dispute", lambda _, row: table_cells.identifier(row.trx_id), is_default=False
    ),
    ListColumn("reason", "Reason", lambda _, row: table_cells.text(row.reason), Place.ASIDE),
    ListColumn("stage", "Stage", lambda _, row: table_cells.text(row.stage), is_default=False),
    ListColumn(
        "reference",
        "Provider's reference",
        lambda _, row: table_cells.identifier(row.provider_reference),
        is_default=False,
    ),
    msgspec.structs.replace(
        time_column("Opened", "created_at", is_default=False), place=Place.WIDE_SCREENS
    ),
    ListColumn(
        "status",
        "Status",
        lambda _, row: dispute_status(row),
        Place.STATUS,
        sorts=(SortOrder.STATUS,),
    ),
    ListColumn(
        "withheld",
        "Withheld",
        lambda _, row: money(row.withheld) if row.withheld_minor else "—",
        is_number=True,
        is_default=False,
    ),
    AMOUNT,
)

SHARE_COLUMNS = (
    CREATED,
    ListColumn("share", "Share", _share, Place.NAME),
    ListColumn(
        "payment", "Payment", lambda _, row: table_cells.identifier(row.payment_trx_id), Place.ASIDE
    ),
    ListColumn("status", "Status", lambda _, row: badge(row.status), Place.STATUS),
    ListColumn("held", "Held", lambda _, row: money(row.withheld), is_number=True),
    ListColumn(
        "returned",
        "Taken back",
        lambda _, row: money(row.returned),
        is_number=True,
        is_default=False,
    ),
    AMOUNT,
)

PAYMENT_OUTCOMES = (
    Outcome("Paid", PaymentStatus.SUCCESS, "green"),
    Outcome("Pending", PaymentStatus.PENDING, "yellow"),
    Outcome("Failed", PaymentStatus.FAILED, "red"),
)
PAYOUT_OUTCOMES = (
    Outcome("Completed", PayoutStatus.COMPLETED, "green"),
    Outcome("Pending", PayoutStatus.PENDING, "yellow"),
    Outcome("Failed", PayoutStatus.FAILED, "red"),
    Outcome("Canceled", PayoutStatus.CANCELED, "secondary"),
)
REFUND_OUTCOMES = (
    Outcome("Completed", RefundStatus.COMPLETED, "green"),
    Outcome("Pending", RefundStatus.PENDING, "yellow"),
    Outcome("Failed", RefundStatus.FAILED, "red"),
)


def with_taxes(request: PageRequest, columns: Columns[Paid]) -> Columns[Paid]:
    """Adds the taxes that the platform owes, if it has any, as the last column of an export."""
    return {**columns, "taxes": _taxes} if request.services.prices.has_taxes else columns


def _taxes(row: Any) -> Money:
    return Money(row.currency, row.transaction_price.owed_minor)


def payment_filters(request: PageRequest) -> list[ListFilter]:
    return [_statuses(list(ListedStatus)), _methods(request, MethodKind.DEPOSIT)]


def payout_filters(request: PageRequest) -> list[ListFilter]:
    return [
        _statuses([*PayoutStatus, UNDER_REVIEW]),
        _methods(request, MethodKind.WITHDRAW),
        ListFilter("bank", "Bank", BANK_OPTIONS, is_picked=True),
    ]


def refund_filters(_request: PageRequest) -> list[ListFilter]:
    return [_statuses(list(RefundStatus))]


def share_filters() -> list[ListFilter]:
    return [_statuses(list(ShareStatus))]


class EndingDisputes(DisputeFilter, frozen=True, kw_only=True):
    """Disputes that somebody has to answer, by default sorted by what ends first."""

    sort: SortOrder = SortOrder.DEADLINE


def read_dispute_filter(request: PageRequest, view: Mapping[str, Any] | None) -> DisputeFilter:
    """Parses the filters of one view of the disputes, or of all disputes if `view` is None."""
    if view is None:
        return record_list.read_amounts(request, DisputeFilter, "status", "currency", "answer")
    wanted = record_list.read_amounts(request, EndingDisputes, "currency")
    return msgspec.structs.replace(wanted, **view)


def dispute_filters(view: Mapping[str, Any] | None) -> list[ListFilter]:
    if view is not None:
        return []
    return [
        _statuses(list(DisputeStatus)),
        ListFilter("answer", "Answer", [(str(each), ANSWERS[each]) for each in AnswerState]),
    ]


def read_payout_filter(request: PageRequest, *, is_sandbox: bool) -> PayoutFilter:
    is_reviewed = request.query.text("status") == UNDER_REVIEW
    names = ("currency", "method") if is_reviewed else ("status", "currency", "method")
    wanted = record_list.read_amounts(request, PayoutFilter, *names)
    wanted = msgspec.structs.replace(wanted, under_review=is_reviewed)
    name = request.query.text("bank")
    if not name:
        return wanted
    try:
        bank = request.services.registry.understand(name)
    except AmbiguousBankCode as refusal:
        raise BadForm(errors={"bank": refusal.text}) from None
    if bank is None:
        raise BadForm(errors={"bank": "No bank has this name or code. Choose from the list."})
    codes = request.services.banks.codes_everywhere(bank, is_sandbox=is_sandbox)
    return msgspec.structs.replace(wanted, bank=BankCodes(bank.code, codes))


def _statuses(values: list[str]) -> ListFilter:
    return ListFilter("status", "Status", record_list.choices(values))


def _methods(request: PageRequest, kind: MethodKind) -> ListFilter:
    methods = request.services.methods.all(kind)
    return ListFilter("method", "Method", [(method.code, method.name) for method in methods])
