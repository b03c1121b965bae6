"""Prints the output of commands: tables for people, JSON for programs."""

import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import typer

from manilla.kit import strict_json
from manilla.kit.clock import iso
from manilla.kit.display import DAY, in_lagos
from manilla.kit.fields import Columns
from manilla.kit.money import Money

if TYPE_CHECKING:
    from rich.console import Console

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

PIPE_WIDTH = 2000
FORMULA_STARTS = ("=", "+", "-", "@")

Record = TypeVar("Record")


def console(width: int | None = None, *, soft_wrap: bool = True) -> "Console":
    # Import rich here, because it loads slowly and only text output needs it.
    from rich.console import Console

    return Console(highlight=False, soft_wrap=soft_wrap, emoji=False, width=width)


def as_row(columns: Columns[Record], record: Record) -> dict[str, Any]:
    return {title: value(record) for title, value in columns.items()}


def as_rows(columns: Columns[Record], records: Iterable[Record]) -> list[dict[str, Any]]:
    return [as_row(columns, record) for record in records]


def print_json(value: Any) -> None:
    print(strict_json.encode(plain(value)).decode(), flush=True)


def plain(value: Any) -> Any:
    """Converts amounts to major units, and times to the format of the API."""
    match value:
        case Money():
            return value.amount
        case datetime():
            return iso(value)
        case Mapping():
            return {key: plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return value


def print_table(rows: Sequence[Mapping[str, Any]], empty: str = "") -> None:
    if not rows:
        console().print(empty)
        return
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in rows[0]:
        table.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row.values()))
    # Do not wrap a table that is written to a pipe or file.
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    console(width, soft_wrap=False).print(table)


def print_csv(rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> None:
    writer = csv.DictWriter(sys.stdout, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows)


def csv_cell(value: Any) -> Any:
    """Formats a value for CSV, and escapes text that a spreadsheet would run as a formula."""
    value = plain(value)
    if not isinstance(value, str):
        return value
    return f"'{printable(value)}" if value.startswith(FORMULA_STARTS) else printable(value)


def print_lines(fields: Mapping[str, Any]) -> None:
    flat = dict(_flattened(fields))
    width, screen = max(map(len, flat)), console()
    for name, value in flat.items():
        screen.print(f"[bold]{name:<{width}}[/]  ", end="")
        screen.print(_cell(value), markup=False)


class Output(msgspec.Struct, frozen=True):
    """Prints a command's result: as JSON if --json was given, otherwise as text."""

    as_json: bool

    def print_text(self, text: str, value: Any) -> None:
        """Prints the text, or the value as JSON if --json was given."""
        print_json(value) if self.as_json else print(text, flush=True)

    def print_fields(self, fields: Mapping[str, Any]) -> None:
        print_json(fields) if self.as_json else print_lines(fields)

    def print_rows(
        self, rows: Sequence[Mapping[str, Any]], empty: str = "", shown: Sequence[str] = ()
    ) -> None:
        """Prints rows.

        Text output has the columns in `shown`, or all columns if it is empty.
        """
        if self.as_json:
            print_json(list(rows))
        else:
            print_table([{name: row[name] for name in shown or row} for row in rows], empty)

    def print_record(self, fields: dict[str, Any], **lists: str) -> None:
        """Prints a record, and a table for each of its lists.

        `lists` maps each list's name to the text that is printed if the list is empty.
        """
        if self.as_json:
            print_json(fields)
            return
        tables = {name: fields.pop(name) for name in lists}
        print_lines(fields)
        for name, rows in tables.items():
            if rows or lists[name]:
                print_table(rows, lists[name])


def _flattened(fields: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for name, value in fields.items():
        if isinstance(value, Mapping):
            flat += _flattened(value, f"{prefix}{name} ")
        else:
            flat.append((f"{prefix}{name}".replace("_", " "), value))
    return flat


def _cell(value: Any) -> str:
    """Formats a value for people, with money and times as on the pages."""
    match value:
        case None | [] | ():
            return "-"
        case bool():
            return "yes" if value else "no"
        case Money():
            return str(value).replace("\N{NO-BREAK SPACE}", " ")
        case datetime():
            return zoned_moment(value)
        case list() | tuple():
            return ", ".join(_cell(item) for item in value)
    return printable(str(value))


def zoned_moment(at: datetime) -> str:
    """Formats a time as `31 Jan 2026, 14:05:09 WAT`, in Nigeria's time zone, with its name."""
    return in_lagos(at).strftime(f"{DAY}, %H:%M:%S WAT")


def printable(text: str) -> str:
    """Escapes unprintable characters, so that third-party text cannot control the terminal."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
