"""Wallets: balances, statements, and test money for the sandbox."""

from manilla.dashboard.desk import Desk
from manilla.dashboard.references import named
from manilla.kit.errors import Refusal
from manilla.ledger import listing
from manilla.ledger.listing import StatementFilter, StatementLine
from manilla.ledger.posting import Environment
from manilla.ledger.scope import Tenant
from manilla.merchants import merchants, wallets
from manilla.merchants import queries as merchant_queries
from manilla.merchants.queries import WalletRow
from manilla.people.roles import Permission
from manilla.web import display, exports, lists
from manilla.web.exports import Column
from manilla.web.lists import ListView
from manilla.web.routes import Answer, Route, form, page
from manilla.web.shell import NotHere
from manilla.web.visit import Visit

_KINDS = ("payment", "commission", "payout", "payout_refund", "refund", "funding", "adjustment")
TOP_UP_MAX = 10_000_000  # in major units: enough for every test, without overflow
KINDS = tuple((kind, display.title(kind)) for kind in _KINDS)

COLUMNS: list[Column[StatementLine]] = [
    Column("Time", lambda line: line.posted_at),
    Column("Kind", lambda line: line.kind),
    Column("Transaction", lambda line: line.trx_id),
    Column("Note", lambda line: line.reason),
    Column("Currency", lambda line: line.currency),
    Column("Amount", lambda line: line.amount.amount),
    Column("Balance", lambda line: line.balance.amount),
]


class TopUpRefused(Refusal):
    message = f"A top-up can be at most {TOP_UP_MAX:,}."


class WalletPages:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        path = "/{environment:str}/wallets"
        return [
            page(path, self.show, Permission.VIEW),
            page(path + "/{currency:str}", self.statement, Permission.VIEW),
            form(path + "/{currency:str}/top-up", self.top_up, Permission.MOVE_MONEY),
        ]

    async def show(self, visit: Visit) -> Answer:
        merchant = await merchants.get(self._desk.db, visit.merchant_id)
        rows = await merchant_queries.wallets(self._desk.db, visit.merchant_id)
        mine = [row for row in rows if row.environment == visit.environment]
        return visit.page("wallets.html", wallets=mine, currencies=merchant.currencies)

    async def statement(self, visit: Visit) -> Answer:
        wallet = await self._wallet(visit)
        tenant = Tenant(visit.merchant_id, visit.environment)
        wanted = StatementFilter(
            kind=visit.query.text("kind") or None,
            since=lists.day(visit.query, "since"),
            until=lists.day(visit.query, "until", is_end=True),
            search=visit.query.text("q") or None,
            named=await named(self._desk.db, tenant, visit.query.text("q")),
        )
        if exports.is_wanted(visit):
            rows = listing.whole_statement(self._desk.db, tenant, wallet.currency, wanted)
            return exports.send(visit, f"statement-{wallet.currency}", COLUMNS, rows)
        found = await listing.statement(
            self._desk.db, tenant, wallet.currency, wanted, after=lists.after(visit)
        )
        view = ListView(visit, found.next)
        return visit.page(
            "statement.html", wallet=wallet, lines=found.rows, listing=view, kinds=KINDS
        )

    async def top_up(self, visit: Visit) -> Answer:
        """Adds test money. Production wallets cannot be topped up this way."""
        if visit.environment is not Environment.SANDBOX:
            raise NotHere
        wallet = await self._wallet(visit)
        try:
            amount = visit.form.money("amount", wallet.currency)
            if amount.amount > TOP_UP_MAX:
                raise TopUpRefused
            await wallets.fund(
                self._desk.db, visit.merchant_id, visit.environment, amount, "Sandbox top-up"
            )
        except Refusal as refusal:
            return visit.sent_back(f"~/wallets/{wallet.currency}", refusal, keep=("amount",))
        return visit.redirect(f"~/wallets/{wallet.currency}", done="Test money added.")

    async def _wallet(self, visit: Visit) -> WalletRow:
        found = await merchant_queries.wallet(
            self._desk.db, visit.merchant_id, visit.environment, visit.parameter("currency")
        )
        if found is None:
            raise NotHere
        return found
