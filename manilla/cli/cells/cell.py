"""`manilla cell`: names this cell, and manages the list of the other cells."""

from typing import Annotated

import msgspec
import typer

from manilla.cells import registry
from manilla.cells.registry import KnownCell
from manilla.cli import secret_input
from manilla.cli.cells import moving, routing
from manilla.cli.cells.options import CellName
from manilla.cli.instance import Tools, command
from manilla.ledger.trx_ids import MERCHANT_ID_MAX

app = typer.Typer(no_args_is_help=True)
app.add_typer(routing.app)
app.add_typer(moving.app)

FirstNumber = Annotated[
    int,
    typer.Option("--first", metavar="N", min=1, max=MERCHANT_ID_MAX, help="First merchant number."),
]
LastNumber = Annotated[
    int,
    typer.Option("--last", metavar="N", min=1, max=MERCHANT_ID_MAX, help="Last merchant number."),
]
Token = Annotated[
    str | None,
    typer.Option(
        metavar="TOKEN|-",
        help="The token that the other cell issued. `-` reads it from standard input.",
    ),
]


@command(app)
async def create(tools: Tools, name: CellName, first: FirstNumber, last: LastNumber) -> None:
    """Make this installation a cell. Its name and range of merchant numbers never change."""
    tools.print_fields(_described(await registry.create(tools.db, name, first, last), tools))


@command(app)
async def add(
    tools: Tools,
    name: CellName,
    url: Annotated[str, typer.Option(metavar="URL", help="The cell's base URL.")],
    first: FirstNumber,
    last: LastNumber,
    token: Token = None,
) -> None:
    """Add another cell. Its range of merchant numbers must be the one it was created with."""
    cell = await registry.add(tools.db, name, url, first, last)
    if token is not None:
        secret = secret_input.read_secret("--token", token)
        cell = await registry.change(tools.db, tools.keyring, name, token=secret)
    tools.print_fields(_described(cell, tools))


@command(app, "set")
async def set_(
    tools: Tools,
    name: CellName,
    url: Annotated[str | None, typer.Option(metavar="URL", help="The cell's base URL.")] = None,
    token: Token = None,
) -> None:
    """Change another cell's URL, or the token that this cell uses to query it."""
    secret = None if token is None else secret_input.read_secret("--token", token)
    cell = await registry.change(tools.db, tools.keyring, name, base_url=url, token=secret)
    tools.print_fields(_described(cell, tools))


@command(app)
async def token(tools: Tools, name: CellName) -> None:
    """Issue a token that another cell uses to query this one. The token is shown only once."""
    new = await registry.issue_token(tools.db, name)
    tools.print_text(new, {"name": name, "token": new})


@command(app)
async def remove(tools: Tools, name: CellName) -> None:
    """Remove another cell from the list. Nothing happens in that cell."""
    await registry.remove(tools.db, name)
    tools.print_fields({"name": name, "removed": True})


def _described(cell: KnownCell, tools: Tools) -> dict[str, object]:
    return {**msgspec.structs.asdict(cell), "base_url": cell.base_url or tools.base_url}
