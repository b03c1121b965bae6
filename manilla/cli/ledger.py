"""`manilla ledger`: shows postings and balances, and checks the ledger's invariants."""

from typing import Annotated

import msgspec
import typer

from manilla.cli.instance import Tools, command
from manilla.cli.options import InEnvironment, OfMerchant
from manilla.cli.output import as_rows, print_json, print_table
from manilla.cli.proving.archive import archive_folder
from manilla.kit.fields import Fields
from manilla.kit.listing import PAGE_ROWS_MAX
from manilla.ledger import balances, listing
from manilla.ledger.balances import AccountBalance
from manilla.ledger.listing import PostingFilter
from manilla.ledger.scope import Everyone
from manilla.proofs import anchors, proofs

app = typer.Typer(no_args_is_help=True)

BALANCES = Fields(AccountBalance).select("environment currency account entries balance")
COLUMNS = listing.ENTRY_FIELDS.select(
    "posting posted_at merchant_id environment kind rail trx_id account currency amount reason"
)


@command(app)
async def check(
    tools: Tools,
    with_archive: Annotated[
        bool,
        typer.Option(
            "--with-archive", help="Also recompute all balances from archived and current postings."
        ),
    ] = False,
) -> None:
    """Check every invariant of the ledger. Exits with 1 if an invariant is violated."""
    folder = archive_folder(tools) if with_archive else None
    findings = await proofs.check(tools.db)
    if folder is not None:
        findings.append(await proofs.check_with_archive(tools.settings.database_url, folder))
    is_sound = all(finding.count == 0 for finding in findings)
    if tools.as_json:
        print_json({"ok": is_sound, "invariants": [msgspec.to_builtins(f) for f in findings]})
    else:
        rows = [
            {"": "ok" if f.count == 0 else "BROKEN", "count": f.count, "invariant": f.promise}
            for f in findings
        ]
        print_table(rows)
    if not is_sound:
        raise typer.Exit(1)


@command(app)
async def heads(tools: Tools) -> None:
    """Show the heads of both hash chains, to be recorded outside of the database."""
    tools.print_fields(msgspec.structs.asdict(await anchors.heads(tools.db)))


@command(app)
async def accounts(tools: Tools) -> None:
    """Show the ledger accounts' balances, which sum to zero per environment and currency."""
    rows = as_rows(BALANCES, await balances.balances(tools.db))
    tools.print_rows(rows, empty="There are no postings yet.")


@command(app)
async def postings(
    tools: Tools,
    merchant: OfMerchant = None,
    environment: InEnvironment = None,
    kind: Annotated[str | None, typer.Option("--kind", help="For example `adjustment`.")] = None,
    reference: Annotated[
        str | None,
        typer.Option("--reference", metavar="REF", help="The complete trx_id or charge reference."),
    ] = None,
) -> None:
    """List ledger postings with their entries, newest first."""
    scope, wanted = Everyone(merchant, environment), PostingFilter(kind=kind, search=reference)
    found = await listing.postings(tools.db, scope, wanted, limit=PAGE_ROWS_MAX)
    rows = as_rows(COLUMNS, listing.posted_entries(found.rows))
    tools.print_rows(rows, empty="There are no such postings.")
