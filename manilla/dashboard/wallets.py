"""Wallet pages: balances, statements, and test money for the sandbox."""

import msgspec

from manilla.dashboard.references import transactions_named
from manilla.disputes import balances
from manilla.disputes.balances import DisputedWallet
from manilla.kit.environment import Environment
from manilla.kit.errors import Refusal
from manilla.ledger.statement import StatementFilter
from manilla.lookup.wallet_statement import STATEMENT_COLUMNS
from manilla.merchants import merchants, wallets
from manilla.web import record_list
from manilla.web.columns import statement
from manilla.web.page_request import PageRequest
from manilla.web.serving.response import PageResponse
from manilla.web.serving.router import PageNotFound

# The maximum top-up in major units, which is too small to overflow a wallet's balance.
TOP_UP_MAX = 10_000_000


class TopUpRefused(Refusal):
    message = f"A top-up can be at most {TOP_UP_MAX:,}."


async def show(request: PageRequest) -> PageResponse:
    merchant = await merchants.get(request.db, request.merchant_id)
    rows = await balances.of_merchant(request.db, request.merchant_id, request.environment)
    return request.page("wallets.html", wallets=rows, currencies=merchant.currencies)


async def show_statement(request: PageRequest) -> PageResponse:
    wallet = await _wallet(request)
    wanted = msgspec.structs.replace(
        record_list.read_amounts(request, StatementFilter, "kind", currency=wallet.currency),
        named=await transactions_named(request),
    )
    about = request.tenant, wallet.currency
    return await statement.show(
        *(request, "statement.html", STATEMENT_COLUMNS, about, wanted, [statement.KIND]),
        file_name=f"statement-{wallet.currency}",
        wallet=wallet,
    )


async def top_up(request: PageRequest) -> PageResponse:
    """Adds test money to a sandbox wallet."""
    if request.environment is not Environment.SANDBOX:
        raise PageNotFound
    wallet = await _wallet(request)
    try:
        amount = request.form.money("amount", wallet.currency)
        if amount.amount > TOP_UP_MAX:
            raise TopUpRefused
        await wallets.fund(
            request.db, request.merchant_id, request.environment, amount, "Sandbox top-up"
        )
    except Refusal as refusal:
        return request.redirect_with_errors(
            f"~/wallets/{wallet.currency}", refusal, keep=("amount",)
        )
    return request.redirect(f"~/wallets/{wallet.currency}", done="Test money added.")


async def _wallet(request: PageRequest) -> DisputedWallet:
    found = await balances.of_wallet(
        request.db, request.merchant_id, request.environment, request.parameter("currency")
    )
    if found is None:
        raise PageNotFound
    return found
