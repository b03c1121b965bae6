"""Output of the command line: tables for people, JSON for programs."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from manilla.kit import strict_json

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

PIPE_WIDTH = 2000

console = Console(highlight=False, soft_wrap=True, emoji=False)


def print_json(value: Any) -> None:
    print(strict_json.encode(value).decode(), flush=True)


def print_rows(rows: Sequence[Mapping[str, Any]], *, as_json: bool, empty: str) -> None:
    if as_json:
        print_json(list(rows))
    elif not rows:
        console.print(empty)
    else:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in rows[0]:
            table.add_column(name.replace("_", " "), overflow="fold")
        for row in rows:
            table.add_row(*(Text(_cell(value)) for value in row.values()))
        # Do not wrap a table that is written to a pipe, because a pipe has no width.
        width = None if sys.stdout.isatty() else PIPE_WIDTH
        Console(highlight=False, emoji=False, width=width).print(table)


def print_fields(fields: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(fields)
        return
    flat = dict(_flattened(fields))
    width = max(map(len, flat))
    for name, value in flat.items():
        console.print(f"[bold]{name:<{width}}[/]  ", end="")
        console.print(_cell(value), markup=False)


def _flattened(fields: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for name, value in fields.items():
        if isinstance(value, Mapping):
            flat += _flattened(value, f"{prefix}{name} ")
        else:
            flat.append((f"{prefix}{name}".replace("_", " "), value))
    return flat


def _cell(value: Any) -> str:
    if value is None or value in ([], ()):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return printable(", ".join(map(str, value)))
    return printable(str(value))


def printable(text: str) -> str:
    """Escapes unprintable characters, so that text from others cannot control the terminal."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
