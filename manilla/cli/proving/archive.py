"""`manilla archive`: moves old months to files, verifies them, and finds transactions in them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from manilla.cli.instance import STATEMENT_SECONDS, Tools, command
from manilla.cli.output import print_json
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.platform import settings as platform
from manilla.proofs.archive import archiving, lookup, months
from manilla.proofs.archive.months import NotArchived, StoredMonth

app = typer.Typer(no_args_is_help=True)


class NoArchive(Refusal):
    message = "Set MANILLA_ARCHIVE_FOLDER to the folder with the archived months."


def archive_folder(tools: Tools) -> Path:
    if tools.settings.archive_folder is None:
        raise NoArchive
    return tools.settings.archive_folder


@command(app, "list")
async def list_months(tools: Tools) -> None:
    """List the archived months."""
    rows = [_row(month) for month in await months.load(tools.db)]
    tools.print_rows(rows, empty="No month is archived yet.")


def _row(month: StoredMonth) -> dict[str, object]:
    return {
        "month": month.name,
        "transactions": month.transactions,
        "links": f"{month.first_link} to {month.last_link}",
        "written_at": month.written_at,
        "removed_at": month.removed_at,
        "checked_at": month.checked_at,
        "problem": month.problem,
    }


@command(app)
async def run(tools: Tools) -> None:
    """Move the months that are older than `book_retention_years` to the archive.

    The command continues a run that was interrupted. It needs MANILLA_MIGRATION_URL, because only
    the owner of the tables may delete rows of the ledger.
    """
    folder = archive_folder(tools)
    years = (await platform.load(tools.db)).book_retention_years
    owner = await Database.open(
        tools.settings.migration_url,
        size=2,
        name="manilla archive",
        statement_seconds=STATEMENT_SECONDS,
    )
    try:
        # If one of the two hosts has a wrong clock, no month is archived too early.
        now = min(datetime.now(UTC), await owner.value("SELECT now()"))
        before = months.limit(now, years)
        done = [result async for result in archiving.run(owner, folder, before)]
    finally:
        await owner.close()
    rows = [msgspec.structs.asdict(result) for result in done]
    tools.print_rows(rows, empty=f"No month is older than {years} years.")


@command(app)
async def verify(tools: Tools) -> None:
    """Verify the files of all archived months. Exits with 1 if a file is missing or changed."""
    folder, rows = archive_folder(tools), []
    for month in await months.load(tools.db):
        problem = await archiving.check(tools.db, folder, month)
        rows.append({"month": month.name, "ok": problem is None, "problem": problem})
    tools.print_rows(rows, empty="No month is archived yet.")
    if not all(row["ok"] for row in rows):
        raise NotArchived(months.RESTORE)


@command(app)
async def find(
    tools: Tools,
    trx_id: Annotated[
        str, typer.Argument(help="The id of a payment, payout, refund or commission.")
    ],
) -> None:
    """Show an archived transaction with all its rows, as JSON."""
    stored = await months.load(tools.db)
    print_json(lookup.find(archive_folder(tools), stored, trx_id))
