"""The list of a wallet's entries in the dashboard and the console."""

from markupsafe import Markup

from manilla.kit.display import money
from manilla.ledger import listing
from manilla.ledger.listing import WalletStatementLine
from manilla.ledger.posting import SOURCES, WALLET_KINDS, PostingSource
from manilla.people.roles import Realm
from manilla.web import cells, display
from manilla.web.page_request import PageRequest
from manilla.web.record_list import ListColumn, ListFilter, Place, RecordList

KIND = ListFilter("kind", "Type", [(kind, display.title(kind)) for kind in WALLET_KINDS])
# Maps what a posting belongs to, to the dashboard path of its page.
PATHS = {
    PostingSource.PAYMENT: "payments",
    PostingSource.COMMISSION: "payments",
    PostingSource.CHARGE: "payments",
    PostingSource.PAYOUT: "payouts",
    PostingSource.CASE: "payouts",
    PostingSource.REFUND: "refunds",
}


def _transaction(request: PageRequest, line: WalletStatementLine) -> Markup | str:
    if line.about is None:
        return cells.identifier(line.trx_id)
    is_console = request.realm is Realm.CONSOLE
    path = "/transactions" if is_console else f"~/{PATHS[SOURCES[line.kind]]}"
    return cells.id_link(request, f"{path}/{line.about}", line.trx_id)


def _note(request: PageRequest, line: WalletStatementLine) -> Markup | str:
    return cells.text(line.reason if request.realm is Realm.CONSOLE else line.note)


LIST = RecordList(
    "statement",
    "entry",
    (
        # The list is always sorted by time, because it shows the balance after each entry.
        ListColumn(
            "time", "Time", lambda _, line: display.short_moment(line.posted_at), place=Place.TIME
        ),
        ListColumn("type", "Type", lambda _, line: display.title(line.kind), place=Place.NAME),
        ListColumn("transaction", "Transaction", _transaction, place=Place.ASIDE),
        ListColumn("note", "Note", _note, place=Place.DETAIL),
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
    listing.statement,
    listing.statement_totals,
)
