"""Prints the results as tables, and returns them as JSON."""

import os
import platform
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from bench import previous
from bench.frame import Comparison, Contender, Measured, Target
from bench.previous import ReleaseRatios

MEBIBYTE = 1024 * 1024
NUMBERS = ("a second", "program", "database", "WAL bytes", "statements", "buffers", "RSS MiB")


def print_row(console: Console, measured: Measured) -> None:
    console.print(_numbers(measured))
    console.print(_ratios(measured))


def print_slower(console: Console, rows: Sequence[Measured], release: ReleaseRatios | None) -> None:
    """Lists the ratios that are worse than in the previous release."""
    if release is None:
        console.print("  The ratios of a previous release are not stored.")
        return
    found = previous.slower(rows, release)
    if not found:
        console.print(f"  No ratio is worse than in {release.version} by more than a tenth.")
        return
    console.print(f"  [red]Worse than in {release.version} by more than a tenth:[/]")
    for each in found:
        console.print(f"  {each.row}, {each.comparison}: {each.before:.2f}, now {each.now:.2f}")


def _numbers(measured: Measured) -> Table:
    """Shows the medians of the rounds, which are not comparable between machines."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("medians; CPU time in µs per operation", no_wrap=True)
    for heading in NUMBERS:
        table.add_column(heading, justify="right")
    table.add_row(f"[bold]{measured.row.name}[/] {measured.row.title}")
    for contender in measured.row.contenders:
        table.add_row(*_number_cells(measured, contender))
    return table


def _number_cells(measured: Measured, contender: Contender) -> list[str]:
    block = measured.typical(contender.name)
    resident = measured.memory.get(contender.name)
    statements = measured.statements.get(contender.name, block.statements)
    return [
        "  " + ", ".join(filter(None, (contender.name, contender.detail))),
        f"{block.rate:,.0f}",
        "" if contender.pid is None else f"{block.program_us:,.0f}",
        f"{block.database_us:,.0f}",
        f"{block.wal_bytes:,.0f}",
        "" if statements is None else f"{statements:.3f}",
        "" if block.buffers is None else f"{block.buffers:,.1f}",
        "" if resident is None else f"{resident / MEBIBYTE:,.0f}",
    ]


def _ratios(measured: Measured) -> Table:
    """Shows the ratios, which are the main result of the run."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("ratios within a round", no_wrap=True)
    for heading in ("median", "low", "high"):
        table.add_column(heading, justify="right")
    table.add_column("target", justify="right")
    table.add_column("")
    for comparison in measured.row.comparisons:
        values, middle = measured.values(comparison), measured.median(comparison)
        shown = (f"{value:.2f}" for value in (middle, min(values), max(values)))
        table.add_row(f"  {comparison.name}", *shown, *_verdict(comparison, middle))
    return table


def _verdict(comparison: Comparison, value: float) -> tuple[str, str]:
    target = comparison.target
    if target is None:
        return "", ""
    return _bound(target), "[green]ok[/]" if target.is_met(value) else "[red]MISSED[/]"


def _bound(target: Target) -> str:
    return f"{'≤' if target.at_most else '≥'} {target.bound:g}"


def as_json(rows: Sequence[Measured], server: dict[str, int], busy: float) -> dict[str, Any]:
    return {
        "machine": {
            "cpus": os.cpu_count(),
            "busy_before": busy,
            "kernel": platform.release(),
            "python": platform.python_version(),
        },
        "server": server,
        "rows": [
            {
                "name": measured.row.name,
                "title": measured.row.title,
                "rounds": measured.rounds,
                "resident_bytes": measured.memory,
                "statements": measured.statements,
                "comparisons": [
                    _comparison(measured, comparison) for comparison in measured.row.comparisons
                ],
            }
            for measured in rows
        ],
    }


def _comparison(measured: Measured, comparison: Comparison) -> dict[str, Any]:
    middle, target = measured.median(comparison), comparison.target
    return {
        "name": comparison.name,
        "values": measured.values(comparison),
        "median": middle,
        "target": None if target is None else _bound(target),
        "met": None if target is None else target.is_met(middle),
    }
