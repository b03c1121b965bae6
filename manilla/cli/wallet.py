"""`manilla wallet`: funds, adjusts, opens, closes and shows wallets."""

from typing import Annotated, Any

import typer

from manilla.approvals.kinds import WalletAdjustment, WalletFunding
from manilla.cli import changes
from manilla.cli.instance import Data, Tools, command, run
from manilla.cli.options import MerchantId, read_money
from manilla.cli.output import Json, as_row, as_rows
from manilla.disputes import balances
from manilla.disputes.balances import DisputedWallet
from manilla.kit.amount_input import parse_signed_amount
from manilla.kit.environment import Environment
from manilla.kit.fields import Fields
from manilla.kit.money import Money
from manilla.ledger import trx_ids
from manilla.merchants import merchants, wallets
from manilla.merchants.wallets import WalletStatus

app = typer.Typer(no_args_is_help=True)

CurrencyCode = Annotated[str, typer.Argument(metavar="CURRENCY", help="A currency code.")]
COLUMNS = Fields(
    DisputedWallet,
    balance=lambda wallet: Money(wallet.currency, wallet.balance_minor),
    withheld=lambda wallet: Money(wallet.currency, wallet.withheld_minor),
    short=lambda wallet: Money(wallet.currency, wallet.short_minor),
).select("environment currency balance withheld short status")
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
    run(data, lambda tools: _move(tools, change), as_json=as_json)


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
    """Increase or decrease a wallet's balance, as a posting with a reason."""
    money = read_money(amount, currency.upper(), parse_signed_amount)
    change = WalletAdjustment(merchant_id, environment, money, reason)
    run(data, lambda tools: _move(tools, change), as_json=as_json)


async def _move(tools: Tools, change: WalletFunding | WalletAdjustment) -> None:
    await merchants.get(tools.db, change.merchant_id)
    done = await changes.apply(tools, change)
    wallet = change.merchant_id, change.environment, change.amount.currency
    moved = {"balance": done.balance, "trx_id": done.trx_id}
    tools.print_fields(await _described(tools, *wallet) | moved)


@command(app, "set")
async def set_(
    tools: Tools,
    merchant_id: MerchantId,
    currency: CurrencyCode,
    environment: InEnvironment,
    status: Annotated[WalletStatus, typer.Option()],
) -> None:
    """Open or close a wallet."""
    await merchants.get(tools.db, merchant_id)
    await wallets.set_status(tools.db, merchant_id, environment, currency.upper(), status)
    tools.print_fields(await _described(tools, merchant_id, environment, currency.upper()))


@command(app)
async def show(tools: Tools, merchant_id: MerchantId) -> None:
    """Show a merchant's wallets in both environments."""
    await merchants.get(tools.db, merchant_id)
    rows = as_rows(COLUMNS, await balances.of_merchant(tools.db, merchant_id))
    tools.print_rows(rows, empty="The merchant has no wallet.")


async def _described(
    tools: Tools, merchant_id: int, environment: Environment, currency: str
) -> dict[str, Any]:
    wallet = await balances.of_wallet(tools.db, merchant_id, environment, currency)
    assert wallet is not None
    return as_row(COLUMNS, wallet)
