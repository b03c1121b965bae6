"""`manilla cell move` moves a merchant. `manilla cell depart` repairs a recovered cell."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from manilla.cells.moving import forced_departure, rollback, stored
from manilla.cells.moving import move as moves
from manilla.cells.moving.move import OnStep
from manilla.cells.moving.stored import Cells, NoMove, Step, StoredMove
from manilla.cli.cells.options import CellName
from manilla.cli.instance import STATEMENT_SECONDS, InstanceRefusal, Tools, command
from manilla.cli.options import MerchantId
from manilla.kit.database.connections import Database, UnusableDatabase
from manilla.kit.errors import Unavailable

app = typer.Typer()

CONNECTIONS = 4

TargetDatabase = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="The other cell's database. Other users can see it in the list of processes, so"
        " prefer MANILLA_TARGET_DATABASE_URL.",
    ),
]


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
            help="Invite members whose email address belongs to another account in the other cell.",
        ),
    ] = False,
    target_database: TargetDatabase = None,
) -> None:
    """Move a merchant from this cell to another one.

    The merchant's requests are rejected with 503 for a few seconds. If the command is interrupted,
    run it again with --continue or --abort.
    """
    if resume and abort:
        raise typer.BadParameter("use either --continue or --abort.")
    async with _opened(tools, target_database) as cells:
        if not resume and not abort:
            found = await moves.begin(cells, merchant_id, to, invites=invite)
        else:
            found = await _open_move(cells, merchant_id, to)
        if abort:
            await rollback.abort(cells, found)
            tools.print_fields(
                {"merchant_id": merchant_id, "cell": found.from_cell, "moved": False}
            )
            return

        await moves.run_steps(cells, found, _report(tools))
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


@command(app)
async def depart(
    tools: Tools,
    merchant_id: MerchantId,
    to: CellName,
    decided: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            readable=True,
            help="A file with the references of listed differences that you have decided on, one"
            " per line.",
        ),
    ] = None,
    target_database: TargetDatabase = None,
) -> None:
    """Record that a merchant lives in another cell, after this cell's database was recovered.

    If this cell knows transactions of the merchant that the other cell does not know, the command
    lists them and exits with 1. The merchant is then fenced in this cell, but has not departed.
    """
    references = set(decided.read_text().split()) if decided is not None else set()
    async with _opened(tools, target_database) as cells:
        undecided = await forced_departure.depart(
            cells, merchant_id, to, references, _report(tools)
        )
    if undecided is None:
        tools.print_fields({"merchant_id": merchant_id, "cell": to, "departed": True})
        return
    tools.print_rows([msgspec.structs.asdict(each) for each in undecided.listed])
    if not tools.as_json:
        print(
            f"Since its recovery, this cell has made changes that {to} does not have (references:"
            f" {len(undecided.listed)}). The merchant is fenced in this cell. Decide on each"
            " reference, and run the command again with --decided."
        )
    raise typer.Exit(1)


def _report(tools: Tools) -> OnStep:
    async def report(step: Step, seconds: float) -> None:
        if not tools.as_json:
            print(f"{step}: {seconds:.2f} s", flush=True)

    return report


async def _open_move(cells: Cells, merchant_id: int, to: str) -> StoredMove:
    found = await stored.find_open(cells.source, merchant_id)
    if found is None or found.to_cell != to:
        raise NoMove(
            f"Merchant {merchant_id} is not being moved from this cell to {to}."
            " `manilla cell list --merchants` shows in which cell it is."
        )
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
    with _named("MANILLA_MIGRATION_URL"):
        source = await opened(settings.migration_url)
    try:
        with _named("MANILLA_TARGET_DATABASE_URL"):
            target = await opened(target_url)
        try:
            replication_url = settings.replication_url or settings.migration_url
            urls = (settings.migration_url, target_url)
            yield Cells(source, target, tools.keyring, replication_url, urls)
        finally:
            await target.close()
    finally:
        await source.close()


@contextmanager
def _named(variable: str) -> Iterator[None]:
    """Adds the name of the variable to an error, because the command opens two databases."""
    try:
        yield
    except UnusableDatabase as error:
        raise InstanceRefusal(f"{variable}: {error.text}") from error
    except Unavailable as error:
        raise InstanceRefusal(f"{variable}: The database does not respond.") from error
