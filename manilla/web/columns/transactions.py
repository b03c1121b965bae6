"""Columns and filters of the payment, payout and refund lists in dashboard and console."""

from operator import attrgetter

import msgspec
from markupsafe import Markup

from manilla.banks.nigeria import BANKS
from manilla.banks.registry import AmbiguousBankCode
from manilla.kit.display import money
from manilla.kit.listing.sorting import SortOrder
from manilla.methods.method import MethodKind
from manilla.payments.listing import ListedPayment, ListedStatus
from manilla.payments.payment import Payment, PaymentStatus
from manilla.payouts.listing import BankCodes, PayoutFilter
from manilla.payouts.payout import REPORTED, Payout, PayoutStatus, ReportedField
from manilla.people.roles import Realm
from manilla.refunds.refund import Refund, RefundStatus
from manilla.web import record_list, table_cells
from manilla.web.forms import BadForm
from manilla.web.page_request import PageRequest
from manilla.web.record_list import BY_AMOUNT, ListColumn, ListFilter, Outcome, Place, time_column

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


def _payment_status(_request: PageRequest, row: ListedPayment) -> Markup:
    return table_cells.status(row.state, row.error_code)


def _payout_status(_request: PageRequest, row: Payout) -> Markup:
    is_manual = row.status is PayoutStatus.PENDING and row.is_manual
    shown = "Awaiting manual payment" if is_manual else None
    return table_cells.status(row.status, row.error_code, shown=shown)


def _refund_status(_request: PageRequest, row: Refund) -> Markup:
    is_manual = row.by_operator and row.status is RefundStatus.PENDING
    return table_cells.status(row.status, "Needs manual payment" if is_manual else None)


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
