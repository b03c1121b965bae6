"""What the run found: tables for people, JSON for programs."""

import os
import platform
import statistics
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.frame import Comparison, Measured, Target

MEBIBYTE = 1024 * 1024


def print_row(console: Console, measured: Measured) -> None:
    console.print(_contenders(measured))
    console.print(_comparisons(measured))
    console.print()


def _contenders(measured: Measured) -> Table:
    table = Table(title=f"{measured.row.name}: {measured.row.title}", title_justify="left")
    table.add_column("contender")
    for heading in ("per second", "program CPU µs", "database CPU µs", "together µs", "RSS MiB"):
        table.add_column(heading, justify="right")
    for contender in measured.row.contenders:
        block = measured.typical(contender.name)
        resident = measured.memory.get(contender.name)
        table.add_row(
            contender.name,
            f"{block.rate:,.0f}",
            f"{block.program_us:,.0f}" if contender.pid else "not counted",
            f"{block.database_us:,.0f}",
            f"{block.total_us:,.0f}" if contender.pid else "",
            f"{resident / MEBIBYTE:,.0f}" if resident else "",
        )
    return table


def _comparisons(measured: Measured) -> Table:
    table = Table()
    table.add_column("ratio within a round")
    for heading in ("median", "lowest", "highest", "target"):
        table.add_column(heading, justify="right")
    table.add_column("")
    for comparison in measured.row.comparisons:
        values = measured.values(comparison)
        middle = statistics.median(values)
        table.add_row(
            comparison.name,
            *(f"{value:.2f}" for value in (middle, min(values), max(values))),
            _bound(comparison.target),
            _verdict(comparison, middle),
        )
    return table


def _bound(target: Target | None) -> str:
    if target is None:
        return ""
    return f"{'at most' if target.at_most else 'at least'} {target.bound:g}"


def _verdict(comparison: Comparison, value: float) -> str:
    if comparison.target is None:
        return ""
    return "[green]ok[/]" if comparison.target.is_met(value) else "[red]MISSED[/]"


def as_json(rows: Sequence[Measured], server: dict[str, int]) -> dict[str, Any]:
    return {
        "machine": {
            "cpus": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
        },
        "server": server,
        "rows": [_row(measured) for measured in rows],
    }


def _row(measured: Measured) -> dict[str, Any]:
    return {
        "name": measured.row.name,
        "title": measured.row.title,
        "rounds": measured.rounds,
        "resident_bytes": measured.memory,
        "comparisons": [
            {
                "name": comparison.name,
                "values": measured.values(comparison),
                "median": statistics.median(measured.values(comparison)),
                "target": _bound(comparison.target) or None,
                "met": None
                if comparison.target is None
                else comparison.target.is_met(statistics.median(measured.values(comparison))),
            }
            for comparison in measured.row.comparisons
        ],
    }
