"""`manilla wallet`: funds, adjusts, opens, closes and shows wallets."""

from functools import partial
from typing import Annotated, Any

import typer

from manilla.approvals.changes import ApprovalRequested, apply_or_ask
from manilla.approvals.kinds import WalletAdjustment, WalletFunding
from manilla.cli.changes import Result, approvals_in, print_result
from manilla.cli.instance import Data, Tools, run
from manilla.cli.options import MerchantId, read_money
from manilla.cli.output import Json, as_row, as_rows, print_fields, print_rows
from manilla.kit.amount_input import parse_signed_amount
from manilla.kit.environment import Environment
from manilla.kit.fields import Fields
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.merchants import merchants, queries, wallets
from manilla.merchants.wallets import WalletStatus

app = typer.Typer(no_args_is_help=True)

CurrencyCode = Annotated[str, typer.Argument(metavar="CURRENCY", help="A currency code.")]
COLUMNS = Fields(
    queries.WalletRow, balance=lambda wallet: Money(wallet.currency, wallet.balance_minor)
).select("environment currency balance status")
InEnvironment = Annotated[Environment, typer.Option("--environment")]


@app.command()
def fund(
    merchant_id: MerchantId,
    currency: CurrencyCode,
    amount: Annotated[str, typer.Argument(metavar="AMOUNT", help="Major units: 1000.00")],
    environment: InEnvironment,
    reason: Annotated[str, typer.Option(help="Stored with the posting.")] = "Funded by an operator",
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Add money to a wallet, as a posting with a reason."""
    money = read_money(amount, currency.upper())

    change = WalletFunding(merchant_id, environment, money, reason)
    print_result(run(data, partial(_move, change=change)), as_json=as_json)


@app.command()
def adjust(
    merchant_id: Annotated[
        int, typer.Option("--merchant", metavar="ID", min=1, max=trx_ids.MERCHANT_ID_MAX)
    ],
    environment: InEnvironment,
    amount: Annotated[str, typer.Option(metavar="AMOUNT", help="Major units: -1000.00")],
    reason: Annotated[str, typer.Option(help="Stored with the posting.")],
    currency: Annotated[str, typer.Option(metavar="CODE", help="A currency code.")] = "NGN",
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Correct a wallet's balance up or down, as a posting with a reason."""
    money = read_money(amount, currency.upper(), parse_signed_amount)
    change = WalletAdjustment(merchant_id, environment, money, reason)
    print_result(run(data, partial(_move, change=change)), as_json=as_json)


async def _move(tools: Tools, change: WalletFunding | WalletAdjustment) -> Result:
    await merchants.get(tools.db, change.merchant_id)
    done = await apply_or_ask(approvals_in(tools), change)
    if isinstance(done, ApprovalRequested):
        return done
    assert isinstance(done, wallets.FundingResult)
    wallet = change.merchant_id, change.environment, change.amount.currency
    moved = {"balance": done.balance, "trx_id": done.trx_id}
    return await _described(tools, *wallet) | moved


@app.command("set")
def set_(
    merchant_id: MerchantId,
    currency: CurrencyCode,
    environment: InEnvironment,
    status: Annotated[WalletStatus, typer.Option()],
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Open or close a wallet."""

    async def command(tools: Tools) -> dict[str, Any]:
        await merchants.get(tools.db, merchant_id)
        await wallets.set_status(tools.db, merchant_id, environment, currency.upper(), status)
        return await _described(tools, merchant_id, environment, currency.upper())

    print_fields(run(data, command), as_json=as_json)


@app.command()
def show(merchant_id: MerchantId, as_json: Json = False, data: Data = None) -> None:
    """Show a merchant's wallets in both environments."""

    async def command(tools: Tools) -> list[dict[str, Any]]:
        await merchants.get(tools.db, merchant_id)
        return as_rows(COLUMNS, await queries.wallets(tools.db, merchant_id))

    print_rows(run(data, command), as_json=as_json, empty="The merchant has no wallet.")


async def _described(
    tools: Tools, merchant_id: int, environment: Environment, currency: str
) -> dict[str, Any]:
    wallet = await queries.wallet(tools.db, merchant_id, environment, currency)
    assert wallet is not None
    return as_row(COLUMNS, wallet)
