"""The results of `make bench-growth`: one table of all operations, and the stored results.

`growth.json` has one run for each size of the long history. `make docs` writes the results into
docs/operating/growth.md.
"""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from bench.frame import Measured

FILE = Path(__file__).parent / "growth.json"
PREFIX = "growth-"


class Ratio(msgspec.Struct, frozen=True):
    """The long history divided by the short history: the median of the rounds, and their range."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.median:.2f}"
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


class Operation(msgspec.Struct, frozen=True):
    name: str
    cost: Ratio  # CPU time of the program and the database
    database: Ratio  # CPU time of the database
    cost_us: tuple[float, float]  # in the short and in the long history, in microseconds
    buffers: tuple[float, float]  # in the short and in the long history
    maximum: float  # of `cost`

    @property
    def is_met(self) -> bool:
        return self.cost.median <= self.maximum


class Run(msgspec.Struct, frozen=True):
    date: str
    machine: str
    small: int
    large: int
    operations: list[Operation]


def operation(measured: Measured) -> Operation:
    few, many = (
        measured.typical(each.name)
        for each in measured.row.contenders
        if each.name.startswith("after ")
    )
    ratios = {
        each.name.split(":")[0]: Ratio(
            round(measured.median(each), 3),
            round(min(measured.values(each)), 3),
            round(max(measured.values(each)), 3),
        )
        for each in measured.row.comparisons
    }
    [maximum] = {each.target.bound for each in measured.row.comparisons if each.target}
    return Operation(
        measured.row.name.removeprefix(PREFIX),
        ratios["cost"],
        ratios["database CPU"],
        (round(few.total_us, 1), round(many.total_us, 1)),
        (round(few.buffers or 0, 1), round(many.buffers or 0, 1)),
        maximum,
    )


def print_all(console: Console, rows: Sequence[Measured]) -> None:
    table = Table(box=box.SIMPLE_HEAD, title="growth, long / short history")
    for heading in ("operation", "CPU time", "database CPU time", "buffers", "target", ""):
        table.add_column(heading, no_wrap=True)
    for each in map(operation, rows):
        verdict = "[green]ok[/]" if each.is_met else "[red]MISSED[/]"
        buffers = " / ".join(f"{number:,.1f}" for number in reversed(each.buffers))
        target = f"≤ {each.maximum:g}"
        table.add_row(each.name, str(each.cost), str(each.database), buffers, target, verdict)
    console.print(table)


def load(file: Path = FILE) -> list[Run]:
    return msgspec.json.decode(file.read_bytes(), type=list[Run]) if file.exists() else []


def save(rows: Sequence[Measured], small: int, large: int, busy: float, file: Path = FILE) -> None:
    """Stores this run. It replaces the rows of an earlier run with the same size."""
    runs = {run.large: run for run in load(file)}
    known = {each.name: each for each in (runs[large].operations if large in runs else [])}
    known |= {each.name: each for each in map(operation, rows)}
    machine = f"{os.cpu_count()} CPUs, {busy:.0%} busy before the run, Linux {platform.release()}"
    date = datetime.now(UTC).date().isoformat()
    runs[large] = Run(date, machine, small, large, list(known.values()))
    content = msgspec.json.encode([runs[each] for each in sorted(runs)])
    file.write_bytes(msgspec.json.format(content) + b"\n")
