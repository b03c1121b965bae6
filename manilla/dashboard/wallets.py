"""Wallets: balances, statements, and test money for the sandbox."""

from manilla.dashboard.references import named
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.ledger import listing
from manilla.ledger.listing import StatementFilter
from manilla.ledger.scope import Tenant
from manilla.merchants import merchants, wallets
from manilla.merchants import queries as merchant_queries
from manilla.merchants.queries import WalletRow
from manilla.people.roles import Permission
from manilla.services import Services
from manilla.web import display, exports, lists
from manilla.web.layout import NotHere
from manilla.web.lists import ListView
from manilla.web.page_request import PageRequest
from manilla.web.routes import Answer, Route, form, page

_KINDS = ("payment", "commission", "payout", "payout_refund", "refund", "funding", "adjustment")
TOP_UP_MAX = 10_000_000  # in major units: enough for every test, without overflow
KINDS = tuple((kind, display.title(kind)) for kind in _KINDS)

COLUMNS = listing.STATEMENT_FIELDS.select(
    {
        "Time": "posted_at",
        "Kind": "kind",
        "Transaction": "trx_id",
        "Note": "reason",
        "Currency": "currency",
        "Amount": "amount",
        "Balance": "balance",
    }
)


class TopUpRefused(Refusal):
    message = f"A top-up can be at most {TOP_UP_MAX:,}."


class WalletPages:
    def __init__(self, desk: Services) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        path = "/{environment:str}/wallets"
        return [
            page(path, self.show, Permission.VIEW),
            page(path + "/{currency:str}", self.statement, Permission.VIEW),
            form(path + "/{currency:str}/top-up", self.top_up, Permission.MOVE_MONEY),
        ]

    async def show(self, request: PageRequest) -> Answer:
        merchant = await merchants.get(self._desk.db, request.merchant_id)
        rows = await merchant_queries.wallets(self._desk.db, request.merchant_id)
        mine = [row for row in rows if row.environment == request.environment]
        return request.page("wallets.html", wallets=mine, currencies=merchant.currencies)

    async def statement(self, request: PageRequest) -> Answer:
        wallet = await self._wallet(request)
        tenant = Tenant(request.merchant_id, request.environment)
        wanted = StatementFilter(
            kind=request.query.text("kind") or None,
            since=lists.day(request.query, "since"),
            until=lists.day(request.query, "until", is_end=True),
            search=request.query.text("q") or None,
            named=await named(self._desk.db, tenant, request.query.text("q")),
        )
        if exports.is_wanted(request):
            rows = listing.whole_statement(self._desk.db, tenant, wallet.currency, wanted)
            return exports.send(request, f"statement-{wallet.currency}", COLUMNS, rows)
        found = await listing.statement(
            self._desk.db, tenant, wallet.currency, wanted, after=lists.after(request)
        )
        view = ListView(request, found.next)
        return request.page(
            "statement.html", wallet=wallet, lines=found.rows, listing=view, kinds=KINDS
        )

    async def top_up(self, request: PageRequest) -> Answer:
        """Adds test money. Production wallets cannot be topped up this way."""
        if request.environment is not Environment.SANDBOX:
            raise NotHere
        wallet = await self._wallet(request)
        try:
            amount = request.form.money("amount", wallet.currency)
            if amount.amount > TOP_UP_MAX:
                raise TopUpRefused
            await wallets.fund(
                self._desk.db, request.merchant_id, request.environment, amount, "Sandbox top-up"
            )
        except Refusal as refusal:
            return request.sent_back(f"~/wallets/{wallet.currency}", refusal, keep=("amount",))
        return request.redirect(f"~/wallets/{wallet.currency}", done="Test money added.")

    async def _wallet(self, request: PageRequest) -> WalletRow:
        found = await merchant_queries.wallet(
            self._desk.db, request.merchant_id, request.environment, request.parameter("currency")
        )
        if found is None:
            raise NotHere
        return found
