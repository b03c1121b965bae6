"""`manilla audit`: lists the audit log, verifies that it is complete, and streams it to targets."""

import re
from typing import Annotated

import typer

from manilla.audit import audit, listing
from manilla.audit.audit import AuditFilter, SavedHead
from manilla.audit.stream import targets
from manilla.audit.stream.targets import AuditTarget
from manilla.cli.instance import Tools, command
from manilla.cli.options import Limit, OfMerchant
from manilla.cli.output import as_rows
from manilla.cli.secret_input import read_line
from manilla.kit import strict_json
from manilla.kit.fields import Fields
from manilla.proofs import going_live

app = typer.Typer(no_args_is_help=True)

TARGET = Fields(AuditTarget).select("name url waiting lag_seconds failures last_error delivered_at")
TargetName = Annotated[str, typer.Argument(metavar="NAME")]
COLUMNS = listing.FIELDS.select("id at actor_kind actor action subject merchant_id detail")


def read_kept(text: str) -> SavedHead:
    known = re.fullmatch(r"([1-9][0-9]{0,17}):([0-9a-f]{64})", text)
    if known is None:
        raise typer.BadParameter(f"{text!r} is not last_id:last_hash.")
    return SavedHead(int(known[1]), known[2])


@command(app)
async def verify(
    tools: Tools,
    kept: Annotated[
        SavedHead | None,
        typer.Option(
            "--kept",
            parser=read_kept,
            metavar="ID:HASH",
            help="last_id and last_hash of an earlier run, which the log must still contain.",
        ),
    ] = None,
) -> None:
    """Verify that no audit entry was changed, removed or inserted. Exits with 1 otherwise."""
    verdict = await audit.verify(tools.db, kept)
    report = {
        "whole": verdict.is_whole,
        "lines": verdict.count,
        "last_id": verdict.last_id,
        "last_hash": verdict.last_hash,
        "broken_id": verdict.broken_id,
        "reason": verdict.reason,
    }
    tools.print_fields(report)
    if not verdict.is_whole:
        raise typer.Exit(1)


@command(app)
async def drill(
    tools: Tools,
    restored: Annotated[SavedHead, typer.Argument(parser=read_kept, metavar="ID:HASH")],
) -> None:
    """Record that a drill restored a backup of this instance. The drill prints this command."""
    ends_at = await going_live.record_drill(tools.db, restored)
    tools.print_fields({"last_id": restored.id, "backup_ends_at": ends_at})


@command(app, "list")
async def list_lines(
    tools: Tools,
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="NAME", help="Only this user's actions.")
    ] = None,
    action: Annotated[
        str | None,
        typer.Option("--action", help="For example wallet.fund, or wallet for all wallet actions."),
    ] = None,
    merchant: OfMerchant = None,
    limit: Limit = 100,
) -> None:
    """List audit entries, newest first."""
    filters = AuditFilter(search=actor, action=action, merchant_id=merchant)
    rows = as_rows(COLUMNS, await audit.list_entries(tools.db, filters, None, limit))
    if not tools.as_json:
        rows = [{**row, "detail": strict_json.encode(row["detail"]).decode()} for row in rows]
    tools.print_rows(rows, empty="There are no such entries.")


@command(app, "target-add")
async def add_target(
    tools: Tools,
    name: TargetName,
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL", help="log:, https://host/path, syslog+tls://host:port or syslog://…"
        ),
    ],
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Also send all earlier entries.")
    ] = False,
    authorization_stdin: Annotated[
        bool,
        typer.Option(
            "--authorization-stdin",
            help="Read the value of the HTTP header Authorization from standard input.",
        ),
    ] = False,
) -> None:
    """Send new audit entries to another system, as OCSF events."""
    authorization = read_line("authorization") if authorization_stdin else None
    await targets.add(
        tools.db, tools.keyring, name, url, authorization=authorization, from_start=from_start
    )
    tools.print_fields({"name": name, "url": url})


@command(app, "target-list")
async def list_targets(tools: Tools) -> None:
    """List the systems that receive the audit log, with what they have not received."""
    rows = as_rows(TARGET, await targets.list_all(tools.db))
    tools.print_rows(rows, empty="The audit log is not sent anywhere.")


@command(app, "target-remove")
async def remove_target(tools: Tools, name: TargetName) -> None:
    """Stop sending the audit log to a system."""
    await targets.remove(tools.db, name)
    tools.print_fields({"removed": name})
