"""`manilla audit`: shows the audit log, and verifies that it is complete."""

import re
from typing import Annotated

import typer

from manilla.audit import audit, listing
from manilla.audit.audit import AuditFilter, AuditVerification, SavedHead
from manilla.audit.entry import AuditEntry
from manilla.cli.instance import Data, Tools, run
from manilla.cli.options import Limit, OfMerchant
from manilla.cli.output import Json, as_rows, print_fields, print_rows
from manilla.kit import strict_json

app = typer.Typer(no_args_is_help=True)

COLUMNS = listing.FIELDS.select("id at actor_kind actor action subject merchant_id detail")


@app.command()
def verify(
    kept: Annotated[
        str | None,
        typer.Option(
            "--kept",
            metavar="ID:HASH",
            help="last_id and last_hash of an earlier run, which the log must still contain.",
        ),
    ] = None,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """Verify that no entry was changed, removed or inserted; exit 1 if one was."""
    earlier = _kept(kept)

    async def command(tools: Tools) -> AuditVerification:
        return await audit.verify(tools.db, earlier)

    verdict = run(data, command)
    report = {
        "whole": verdict.is_whole,
        "lines": verdict.count,
        "last_id": verdict.last_id,
        "last_hash": verdict.last_hash,
        "broken_id": verdict.broken_id,
        "reason": verdict.reason,
    }
    print_fields(report, as_json=as_json)
    if not verdict.is_whole:
        raise typer.Exit(1)


@app.command("list")
def list_lines(
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="NAME", help="Only by this user.")
    ] = None,
    action: Annotated[
        str | None,
        typer.Option("--action", help="For example wallet.fund, or wallet for all wallet actions."),
    ] = None,
    merchant: OfMerchant = None,
    limit: Limit = 100,
    as_json: Json = False,
    data: Data = None,
) -> None:
    """List entries, newest first."""

    async def command(tools: Tools) -> list[AuditEntry]:
        filters = AuditFilter(search=actor, action=action, merchant_id=merchant)
        return await audit.listed(tools.db, filters, None, limit)

    rows = as_rows(COLUMNS, run(data, command))
    if not as_json:
        rows = [{**row, "detail": strict_json.encode(row["detail"]).decode()} for row in rows]
    print_rows(rows, as_json=as_json, empty="There are no such entries.")


def _kept(text: str | None) -> SavedHead | None:
    if text is None:
        return None
    known = re.fullmatch(r"([1-9][0-9]{0,17}):([0-9a-f]{64})", text)
    if known is None:
        raise typer.BadParameter("is last_id:last_hash.", param_hint="--kept")
    return SavedHead(int(known[1]), known[2])
