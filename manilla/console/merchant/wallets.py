"""The page for a merchant's wallet: its statement, and the form that adjusts its balance."""

import base64
import binascii

from manilla.approvals import changes
from manilla.approvals.changes import apply_or_ask
from manilla.approvals.kinds import WalletAdjustment
from manilla.console import responses
from manilla.console.merchants import merchant_number
from manilla.disputes import balances
from manilla.kit.crypto import SealError
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.ledger.scope import Tenant
from manilla.ledger.statement import StatementFilter
from manilla.lookup.wallet_statement import STATEMENT_FIELDS
from manilla.merchants import merchants, wallets
from manilla.merchants.queries import MerchantRow, WalletRow
from manilla.people.roles import Permission
from manilla.web import record_list
from manilla.web.columns import statement
from manilla.web.forms import BadForm
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse

COLUMNS = STATEMENT_FIELDS.select(
    "time kind rail trx_id reason currency amount balance ref_trx name fee"
)

AT_FIELD = ((wallets.FundingRefused, "amount"), (wallets.AdjustmentRefused, "amount"))


async def show(request: PageRequest) -> PageResponse:
    merchant, wallet = await _wallet(request)
    tenant = Tenant(merchant.id, request.environment)
    wanted = record_list.read_amounts(request, StatementFilter, "kind", currency=wallet.currency)
    return await statement.show(
        *(request, "wallet.html", COLUMNS, (tenant, wallet.currency), wanted, [statement.KIND]),
        file_name=f"wallet-{merchant.id}-{wallet.currency}",
        merchant=merchant,
        wallet=await balances.of_wallet(
            request.db, merchant.id, request.environment, wallet.currency
        ),
        ticket=_ticket(request, merchant.id, wallet.currency),
        limit=request.services.platform.now.adjustment_limit_in(wallet.currency),
        is_alone=request.may(Permission.MONEY_ALONE),
    )


async def adjust(request: PageRequest) -> PageResponse:
    """Adjusts the wallet's balance, or requests an approval if the adjustment needs one."""
    merchant, wallet = await _wallet(request)
    back = f"/merchants/{merchant.id}/wallets/{request.environment}/{wallet.currency}"
    try:
        amount = request.form.money("amount", wallet.currency)
        takes = request.form.text("direction") == "take"
        change = WalletAdjustment(
            merchant.id,
            request.environment,
            Money(wallet.currency, -amount.minor if takes else amount.minor),
            request.form.required("reason", at_most=wallets.REASON_LENGTH_MAX),
            needs_second=not request.may(Permission.MONEY_ALONE),
            trx_id=_read_ticket(request, merchant.id, wallet.currency),
        )
        if amount.minor <= 0:
            raise BadForm(errors={"amount": "The amount must be greater than zero."})
        await changes.check(request.approvals, change)
        await request.confirm_identity()
        result = await apply_or_ask(request.approvals, change, change.reason)
    except Refusal as refusal:
        return request.redirect_with_errors(
            back, refusal, keep=("direction", "amount", "reason"), at=AT_FIELD
        )
    done = "Wallet adjusted."
    return responses.done_or_asked(request, back, result, done)


async def _wallet(request: PageRequest) -> tuple[MerchantRow, WalletRow]:
    merchant = await merchants.get(request.db, merchant_number(request))
    wallet = await wallets.get(
        request.db, merchant.id, request.environment, request.parameter("currency")
    )
    return merchant, wallet


# The form contains the adjustment's transaction id, so submitting it twice moves money only once.
# The id is encrypted, so that a user cannot submit another transaction's id.


def _ticket(request: PageRequest, merchant_id: int, currency: str) -> str:
    context = _context(request, merchant_id, currency)
    sealed = request.services.keyring.seal(trx_ids.new(merchant_id).encode(), context)
    return base64.urlsafe_b64encode(sealed).decode()


def _read_ticket(request: PageRequest, merchant_id: int, currency: str) -> str:
    context = _context(request, merchant_id, currency)
    try:
        sealed = base64.urlsafe_b64decode(request.form.text("ticket", at_most=500))
        return request.services.keyring.open(sealed, context).decode()
    except (binascii.Error, ValueError, SealError):
        raise BadForm(errors={"ticket": "Fill in the form again."}) from None


def _context(request: PageRequest, merchant_id: int, currency: str) -> str:
    return f"adjustment:{merchant_id}:{request.environment}:{currency}"
