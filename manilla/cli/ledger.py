"""`manilla ledger`: shows postings and balances, and checks the ledger's invariants."""

from typing import Annotated, Any

import msgspec
import typer

from manilla.cli.instance import Data, Tools, run
from manilla.cli.output import Json, print_json, print_rows
from manilla.kit.clock import iso
from manilla.kit.environment import Environment
from manilla.kit.listing import PAGE_ROWS_MAX
from manilla.kit.money import Money
from manilla.ledger import balances, listing, trx_ids
from manilla.ledger.invariants import Finding
from manilla.ledger.listing import PostingFilter, PostingLine
from manilla.ledger.scope import Everyone
from manilla.proofs import proofs

app = typer.Typer(no_args_is_help=True)


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

    async def command(tools: Tools) -> list[dict[str, Any]]:
        return [
            {
                "environment": each.environment,
                "currency": each.currency,
                "account": each.account,
                "entries": each.entries,
                "balance": each.balance.amount,
            }
            for each in await balances.balances(tools.db)
        ]

    print_rows(run(data, command), as_json=as_json, empty="There are no postings yet.")


@app.command()
def postings(
    merchant: Annotated[
        int | None, typer.Option("--merchant", metavar="ID", min=1, max=trx_ids.MERCHANT_ID_MAX)
    ] = None,
    environment: Annotated[Environment | None, typer.Option("--environment")] = None,
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

    rows = [row for posting in run(data, command) for row in _entries(posting)]
    print_rows(rows, as_json=as_json, empty="There are no such postings.")


def _entries(posting: PostingLine) -> list[dict[str, Any]]:
    """One row per entry, as in the console's export."""
    return [
        {
            "posting": posting.id,
            "posted_at": iso(posting.posted_at),
            "merchant_id": posting.merchant_id,
            "environment": posting.environment,
            "kind": posting.kind,
            "trx_id": posting.trx_id,
            "account": entry.account,
            "currency": posting.currency,
            "amount": Money(posting.currency, entry.amount_minor).amount,
            "reason": posting.reason,
        }
        for entry in posting.entries
    ]
