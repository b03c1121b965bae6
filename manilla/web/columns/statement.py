"""The list of a wallet's entries in the dashboard and the console."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from manilla.kit import deadline
from manilla.kit.display import money
from manilla.kit.fields import Columns
from manilla.ledger import statement
from manilla.ledger.scope import Tenant
from manilla.ledger.statement import StatementFilter
from manilla.lookup import wallet_statement
from manilla.lookup.wallet_statement import WalletLine
from manilla.people.roles import Realm
from manilla.posting_kinds import PostingFlag, kinds_with
from manilla.transaction_types import BY_NAME
from manilla.web import display, exports, table_cells
from manilla.web.page_request import PageRequest
from manilla.web.record_list import ListColumn, ListFilter, Place, RecordList
from manilla.web.serving.response import PageResponse

KIND = ListFilter(
    "kind", "Type", [(kind, display.title(kind)) for kind in kinds_with(PostingFlag.WALLET)]
)


def _reference(request: PageRequest, line: WalletLine) -> Markup | str:
    """Returns a link to the payment, payout or refund, with the merchant's reference if known."""
    if line.source is None:
        return table_cells.identifier(line.trx_id)
    kind = BY_NAME[line.source]
    pages = kind.console_path if request.realm is Realm.CONSOLE else kind.dashboard_path
    path = f"{pages}/{line.source_id}"
    if line.ref_trx is None:
        return table_cells.id_link(request, path, line.trx_id)
    return table_cells.link(request, path, line.ref_trx)


def _name(request: PageRequest, line: WalletLine) -> Markup | str:
    """Returns the customer, the beneficiary, the reason of a correction, or else the type."""
    if line.name is None and _reason(request, line) is None:
        return display.title(line.kind)
    return table_cells.text(line.name or _reason(request, line))


def _note(request: PageRequest, line: WalletLine) -> Markup | str:
    return table_cells.text(_reason(request, line))


def _reason(request: PageRequest, line: WalletLine) -> str | None:
    return line.reason if request.realm is Realm.CONSOLE else line.note


async def show(
    request: PageRequest,
    template: str,
    export: Columns[WalletLine],
    about: tuple[Tenant, str],
    wanted: StatementFilter,
    filters: Sequence[ListFilter] = (),
    **values: Any,
) -> PageResponse:
    """Shows a wallet's statement with the totals of its period, or exports the statement.

    With other filters, the opening and closing balances would not belong to the lines, so there are
    no totals.
    """
    if request.services.prices.has_taxes:
        title = "Taxes" if "Fee" in export else "taxes"
        export = wallet_statement.with_taxes(export, title)
    period = StatementFilter(since=wanted.since, until=wanted.until, sort=wanted.sort)
    totals = None
    if wanted == period and not exports.is_wanted(request):
        totals = await deadline.or_none(wallet_statement.totals(request.reads, *about, wanted))
    return await LIST.show(
        *(request, template, export, about, wanted, filters), statement_totals=totals, **values
    )


LIST = RecordList(
    "statement",
    "entry",
    (
        # The list is always sorted by time, because it shows the balance after each entry.
        ListColumn(
            "time", "Time", lambda _, line: display.short_moment(line.posted_at), place=Place.TIME
        ),
        ListColumn("name", "Name or note", _name, place=Place.NAME),
        ListColumn("type", "Type", lambda _, line: display.title(line.kind), place=Place.DETAIL),
        ListColumn("reference", "Reference", _reference, place=Place.ASIDE),
        ListColumn(
            "transaction",
            "Transaction",
            lambda _, line: table_cells.identifier(line.trx_id),
            is_default=False,
        ),
        ListColumn("note", "Note", _note, is_default=False),
        ListColumn(
            "fee",
            "Fee",
            lambda _, line: money(line.fee) if line.fee else "—",
            is_number=True,
            is_default=False,
        ),
        ListColumn(
            "amount",
            "Amount",
            lambda _, line: money(line.amount),
            is_number=True,
            place=Place.AMOUNT,
        ),
        ListColumn(
            "balance",
            "Balance",
            lambda _, line: money(line.balance),
            is_number=True,
            place=Place.STATUS,
        ),
    ),
    wallet_statement.lines,
    statement.totals,
)
