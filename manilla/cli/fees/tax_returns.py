"""`manilla tax return` and `manilla tax remit`: returns of taxes, and their remittance."""

from pathlib import Path
from typing import Annotated

import typer

from manilla.cli import changes
from manilla.cli.fees.prices import taxes
from manilla.cli.instance import Tools, command
from manilla.cli.options import read_money
from manilla.cli.output import as_row, as_rows
from manilla.invoices import files, returns
from manilla.invoices.invoice import read_month
from manilla.invoices.remittance import Remitted, TaxRemittance
from manilla.kit.fields import Fields

app = taxes  # with the commands about rules

REMITTED = Fields(Remitted, currency="amount.currency").select("trx_id tax currency amount")


@command(app, "return")
async def show_return(
    tools: Tools,
    month: Annotated[str, typer.Argument(metavar="MONTH", help="A month: 2026-12.")],
    file: Annotated[
        Path | None, typer.Option("--save-to", help="Also write a PDF to this file.")
    ] = None,
) -> None:
    """Show what was collected, returned and remitted of each tax in a month."""
    wanted = read_month(month)
    found = await returns.of_month(tools.db, wanted)
    if not all(each.is_final for each in found):
        typer.echo(returns.NOT_FINAL, err=True)
    if file is not None:
        file.write_bytes(await files.write_returns(wanted, found))
    tools.print_rows(as_rows(returns.COLUMNS, found), empty="No tax was collected.")


@command(app)
async def remit(
    tools: Tools,
    tax: Annotated[str, typer.Argument(metavar="TAX", help="The tax's name, such as vat.")],
    amount: Annotated[str, typer.Argument(metavar="AMOUNT", help="Major units: 1000.00")],
    reference: Annotated[str, typer.Option("--reference", help="Of the bank's transfer.")],
    currency: Annotated[str, typer.Option("--currency", metavar="CODE")] = "NGN",
) -> None:
    """Record a transfer of a tax from our bank to the authority.

    In production mode, a second administrator must approve this.
    """
    order = TaxRemittance(tax, read_money(amount, currency), reference)
    tools.print_fields(as_row(REMITTED, await changes.apply(tools, order, reference)))
