"""`manilla settle` and `manilla reconcile`: compare our ledger with the providers."""

from typing import Annotated

import typer

from manilla.cli.instance import Data, Tools, command, run
from manilla.cli.options import ProviderName, read_money
from manilla.cli.output import Json, as_row, as_rows
from manilla.cli.providers.rails import check_provider, configured_rails
from manilla.cli.reconciling import statements
from manilla.kit.errors import Refusal
from manilla.kit.fields import Fields
from manilla.ledger import provider_funds
from manilla.ledger.provider_funds import SettlementKind, SettlementResult
from manilla.reconciliation import balances
from manilla.reconciliation.balances import Reconciled

SETTLED = Fields(SettlementResult, currency="amount.currency").select(
    "trx_id kind provider currency amount"
)
COLUMNS = Fields(Reconciled).select(
    "provider currency ledger under_way coming_in balance difference result transfers_asked"
    " transfers_differ"
)


class ProviderSilent(Refusal):
    message = "A provider sent no usable response."


@command()
async def settle(
    tools: Tools,
    kind: Annotated[
        SettlementKind,
        typer.Argument(help="The type, such as top_up: from our bank to the provider."),
    ],
    provider: ProviderName,
    amount: Annotated[str, typer.Argument(metavar="AMOUNT", help="Major units: 1000.00")],
    note: Annotated[str, typer.Option("--note", help="The reason, or the bank's reference.")],
    currency: Annotated[str, typer.Option("--currency", metavar="CODE")] = "NGN",
) -> None:
    """Record a provider top-up, a settlement to our bank, or a fee that was kept or refunded."""
    money = read_money(amount, currency)
    await check_provider(tools, provider)
    settled = await provider_funds.settle(tools.db, kind, provider, money, note)
    tools.print_fields(as_row(SETTLED, settled))


app = typer.Typer(invoke_without_command=True)


@app.callback()
def reconcile(context: typer.Context, as_json: Json = False, data: Data = None) -> None:
    """Compare our ledger with the providers' balances and transfers.

    Exits with 1 if there is a difference or a provider does not respond.
    """
    if context.invoked_subcommand is None:
        run(data, _reconcile, as_json=as_json)


async def _reconcile(tools: Tools) -> None:
    async with configured_rails(tools) as rails:
        reports = await balances.compare_all(tools.db, rails)
    tools.print_rows(as_rows(COLUMNS, reports), empty="No provider is configured.")
    silent = [report.provider for report in reports if report.balance is None]
    if silent:
        raise ProviderSilent(f"No usable response from {', '.join(silent)}: not compared.")
    if any(each.transfers_differ or _differs(each) for each in reports):
        raise typer.Exit(1)


def _differs(report: Reconciled) -> bool:
    return report.difference is not None and report.difference.minor != 0


app.command("import")(statements.import_statement)
app.command("statement")(statements.show_statement)
app.command("sign-off")(statements.sign_off)
