"""Arguments that the commands for cells share."""

from typing import Annotated

import typer

CellName = Annotated[str, typer.Argument(metavar="CELL", help="The cell's name, such as lagos.")]
