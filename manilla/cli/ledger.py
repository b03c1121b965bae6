"""`manilla ledger`: shows postings and balances, and checks the ledger's invariants."""

from typing import Annotated

import msgspec
import typer

from manilla.cli.instance import Data, Tools, run
from manilla.cli.options import InEnvironment, OfMerchant
from manilla.cli.output import Json, as_rows, print_json, print_rows
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS_MAX
from manilla.ledger import balances, listing
from manilla.ledger.balances import AccountBalance
from manilla.ledger.invariants import Finding
from manilla.ledger.listing import PostingFilter, PostingLine
from manilla.ledger.scope import Everyone
from manilla.proofs import proofs

app = typer.Typer(no_args_is_help=True)

BALANCES = Fields(AccountBalance).select("environment currency account entries balance")
COLUMNS = listing.ENTRY_FIELDS.select(
    "posting posted_at merchant_id environment kind trx_id account currency amount reason"
)


@app.command()
def check(as_json: Json = False, data: Data = None) -> None:
    """Check every invariant; exit 1 if one is violated."""

    async def command(tools: Tools) -> list[Finding]:
        return await proofs.check(tools.db)

    findings = run(data, command)
    is_sound = all(finding.count == 0 for finding in findings)
    if as_json:
        print_json({"ok": is_sound, "invariants": [msgspec.to_builtins(f) for f in findings]})
    else:
        rows = [
            {"": "ok" if f.count == 0 else "BROKEN", "count": f.count, "invariant": f.promise}
            for f in findings
        ]
        print_rows(rows, as_json=False, empty="")
    if not is_sound:
        raise typer.Exit(1)


@app.command()
def accounts(as_json: Json = False, data: Data = None) -> None:
    """Show each account's balance; the balances per environment and currency sum to zero."""

    async def command(tools: Tools) -> list[AccountBalance]:
        return await balances.balances(tools.db)

    print_rows(
        as_rows(BALANCES, run(data, command)), as_json=as_json, empty="There are no postings yet."
    )


@app.command()
def postings(
    merchant: OfMerchant = None,
    environment: InEnvironment = None,
    kind: Annotated[str | None, typer.Option("--kind", help="For example `adjustment`.")] = None,
    reference: Annotated[
        str | None,
        typer.Option("--reference", metavar="REF", help="A full trx_id or charge reference."),
    ] = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """List postings with their entries, newest first."""

    async def command(tools: Tools) -> list[PostingLine]:
        scope, wanted = Everyone(merchant, environment), PostingFilter(kind=kind, search=reference)
        found = await listing.postings(tools.db, scope, wanted, limit=PAGE_ROWS_MAX)
        return found.rows

    rows = as_rows(COLUMNS, listing.posted_entries(run(data, command)))
    print_rows(rows, as_json=as_json, empty="There are no such postings.")
