"""`manilla cell move`: moves a merchant to another cell."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated

import typer

from manilla.cells.moving import move as moves
from manilla.cells.moving import stored, taking_back
from manilla.cells.moving.stored import Cells, NoMove, Step, StoredMove
from manilla.cli.cells.options import CellName
from manilla.cli.instance import STATEMENT_SECONDS, InstanceRefusal, Tools, command
from manilla.cli.options import MerchantId
from manilla.kit.db import Database

app = typer.Typer()

CONNECTIONS = 4


class NoTarget(InstanceRefusal):
    message = (
        "Set MANILLA_TARGET_DATABASE_URL to the database of the cell to which the merchant moves,"
        " as the owner of its tables."
    )


@command(app)
async def move(
    tools: Tools,
    merchant_id: MerchantId,
    to: CellName,
    resume: Annotated[
        bool, typer.Option("--continue", help="Continue a move that was interrupted.")
    ] = False,
    abort: Annotated[
        bool, typer.Option("--abort", help="Take back a move that the other cell has not ended.")
    ] = False,
    invite: Annotated[
        bool,
        typer.Option(
            "--invite",
            help="Invite the members whose email address has another account in the other cell.",
        ),
    ] = False,
    target_database: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The other cell's database. Other users can see it in the list of processes, so"
            " prefer MANILLA_TARGET_DATABASE_URL.",
        ),
    ] = None,
) -> None:
    """Move a merchant from this cell to another one.

    The merchant's requests are rejected with 503 for a few seconds. If the command is interrupted,
    run it again with --continue or --abort.
    """
    if resume and abort:
        raise InstanceRefusal("Choose one of --continue and --abort.")
    async with _opened(tools, target_database) as cells:
        if not resume and not abort:
            found = await moves.begin(cells, merchant_id, to, invites=invite)
        else:
            found = await _open_move(cells, merchant_id, to)
        if abort:
            await taking_back.abort(cells, found)
            tools.print_fields(
                {"merchant_id": merchant_id, "cell": found.from_cell, "moved": False}
            )
            return

        async def report(step: Step, seconds: float) -> None:
            if not tools.as_json:
                print(f"{step}: {seconds:.2f} s", flush=True)

        await moves.run_steps(cells, found, report)
        gap = await moves.gap_seconds(cells.source, cells.target, found)
        invited = await moves.invited_emails(cells.target, found)
    tools.print_fields(
        {
            "merchant_id": merchant_id,
            "cell": to,
            "moved": True,
            "gap_seconds": None if gap is None else round(gap, 2),
            "invited": invited,
        }
    )


async def _open_move(cells: Cells, merchant_id: int, to: str) -> StoredMove:
    found = await stored.find_open(cells.source, merchant_id)
    if found is None or found.to_cell != to:
        raise NoMove(f"Merchant {merchant_id} is not being moved to {to}.")
    return found


@asynccontextmanager
async def _opened(tools: Tools, target_database: str | None) -> AsyncIterator[Cells]:
    """Opens the databases of both cells as the owners of their tables."""
    settings = tools.settings
    target_url = target_database or settings.target_url
    if target_url is None:
        raise NoTarget
    opened = partial(
        Database.open,
        size=CONNECTIONS,
        name="manilla move",
        statement_seconds=STATEMENT_SECONDS,
    )
    source = await opened(settings.migration_url)
    try:
        target = await opened(target_url)
        try:
            replication_url = settings.replication_url or settings.migration_url
            urls = (settings.migration_url, target_url)
            yield Cells(source, target, tools.keyring, replication_url, urls)
        finally:
            await target.close()
    finally:
        await source.close()
