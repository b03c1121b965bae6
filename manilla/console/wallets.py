"""A merchant's wallet: its statement and adjustments."""

import base64
import binascii

from manilla.approvals.changes import apply_or_ask
from manilla.approvals.kinds import WalletAdjustment
from manilla.console import answers
from manilla.console.desk import ConsoleDesk
from manilla.console.merchants import merchant_number
from manilla.kit import ids
from manilla.kit.crypto import SealError
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger import listing
from manilla.ledger.listing import StatementFilter, StatementLine
from manilla.ledger.scope import Tenant
from manilla.merchants import merchants, wallets
from manilla.merchants.queries import MerchantRow, WalletRow
from manilla.people.roles import Permission
from manilla.web import exports, lists
from manilla.web.exports import Column
from manilla.web.forms import BadForm
from manilla.web.lists import ListView
from manilla.web.routes import Answer, Route, form, page
from manilla.web.visit import Visit

COLUMNS: tuple[Column[StatementLine], ...] = (
    Column("time", lambda line: line.posted_at),
    Column("kind", lambda line: line.kind),
    Column("trx_id", lambda line: line.trx_id),
    Column("reason", lambda line: line.reason),
    Column("currency", lambda line: line.currency),
    Column("amount", lambda line: line.amount.amount),
    Column("balance", lambda line: line.balance.amount),
)

AT_FIELD = ((wallets.FundingRefused, "amount"), (wallets.AdjustmentRefused, "amount"))


class WalletPages:
    def __init__(self, desk: ConsoleDesk) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        one = "/merchants/{merchant:int}/wallets/{environment:str}/{currency:str}"
        return [
            page(one, self.show, Permission.CONSOLE_VIEW),
            form(one + "/adjust", self.adjust, Permission.PAYOUT_DESK, step_up=True),
        ]

    async def show(self, visit: Visit) -> Answer:
        merchant, wallet = await self._wallet(visit)
        tenant = Tenant(merchant.id, visit.environment)
        wanted = StatementFilter(
            since=lists.day(visit.query, "since"),
            until=lists.day(visit.query, "until", is_end=True),
            search=visit.query.text("q") or None,
        )
        if exports.is_wanted(visit):
            lines = listing.whole_statement(self._desk.db, tenant, wallet.currency, wanted)
            return exports.send(visit, f"wallet-{merchant.id}-{wallet.currency}", COLUMNS, lines)
        found = await listing.statement(
            self._desk.db, tenant, wallet.currency, wanted, after=lists.after(visit)
        )
        return visit.page(
            "wallet.html",
            merchant=merchant,
            wallet=wallet,
            lines=found.rows,
            listing=ListView(visit, found.next),
            ticket=self._ticket(visit, merchant.id, wallet.currency),
            limit=self._desk.platform.now.adjustment_limit_in(wallet.currency),
            is_alone=visit.may(Permission.MONEY_ALONE),
        )

    async def adjust(self, visit: Visit) -> Answer:
        """Adjusts now if the user may move money alone, up to the limit; otherwise requests an
        approval.
        """
        merchant, wallet = await self._wallet(visit)
        back = f"/merchants/{merchant.id}/wallets/{visit.environment}/{wallet.currency}"
        try:
            amount = visit.form.money("amount", wallet.currency)
            takes = visit.form.text("direction") == "take"
            change = WalletAdjustment(
                merchant.id,
                visit.environment,
                Money(wallet.currency, -amount.minor if takes else amount.minor),
                visit.form.needed("reason", at_most=wallets.REASON_LENGTH_MAX),
                needs_second=not visit.may(Permission.MONEY_ALONE),
                trx_id=self._read_ticket(visit, merchant.id, wallet.currency),
            )
            if amount.minor <= 0:
                raise BadForm(errors={"amount": "The amount must be greater than zero."})
            result = await apply_or_ask(self._desk.office, change, change.reason)
        except Refusal as refusal:
            return visit.sent_back(
                back, refusal, keep=("direction", "amount", "reason"), at=AT_FIELD
            )
        done = "Wallet adjusted."
        return answers.done_or_asked(visit, back, result, done)

    async def _wallet(self, visit: Visit) -> tuple[MerchantRow, WalletRow]:
        merchant = await merchants.get(self._desk.db, merchant_number(visit))
        wallet = await wallets.get(
            self._desk.db, merchant.id, visit.environment, visit.parameter("currency")
        )
        return merchant, wallet

    # A form that is submitted twice, by a double click or the back button, must move money only
    # once. So the form carries its transaction id. The id is encrypted, so that nobody can submit
    # the id of another transaction in the ledger.

    def _ticket(self, visit: Visit, merchant_id: int, currency: str) -> str:
        context = _context(visit, merchant_id, currency)
        sealed = self._desk.keyring.seal(ids.new_trx_id(merchant_id).encode(), context)
        return base64.urlsafe_b64encode(sealed).decode()

    def _read_ticket(self, visit: Visit, merchant_id: int, currency: str) -> str:
        context = _context(visit, merchant_id, currency)
        try:
            sealed = base64.urlsafe_b64decode(visit.form.text("ticket", at_most=500))
            return self._desk.keyring.open(sealed, context).decode()
        except (binascii.Error, ValueError, SealError):
            raise BadForm(errors={"ticket": "Fill in the form again."}) from None


def _context(visit: Visit, merchant_id: int, currency: str) -> str:
    return f"adjustment:{merchant_id}:{visit.environment}:{currency}"
