"""`python -m bench` runs every benchmark and prints the results."""

import argparse
import asyncio
import signal
import sys
import time
import traceback
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from bench import cpu, grown, previous, report
from bench.frame import Measured, Plan, measure
from bench.history import LARGE, SMALL
from bench.rows import GROWTH, LONG, ROWS
from bench.server import Server, private_server
from bench.stage import BASELINE_PYTHON, prepared

FULL = Plan(rounds=9, block_seconds=0.8, warm_seconds=1.0, clients=(1, 2, 4, 8, 16))
QUICK = Plan(rounds=5, block_seconds=0.2, warm_seconds=0.2, clients=(1, 8), overload_seconds=10)
ROW_SECONDS_MAX, GROWTH_SECONDS_MAX = 600, 3 * 3600
# Longer blocks, because the differences are small.
GROWN = Plan(rounds=11, block_seconds=1.2, warm_seconds=1.0, clients=(1,))
LOOK_SECONDS = 0.5
FILE_WIDTH = 130


def main() -> None:
    options = _options()
    plan = QUICK if options.quick else GROWN if options.growth else FULL
    names = options.only or _names(options)
    if options.keep is not None and not GROWTH.keys() >= set(names):
        raise SystemExit("Only the rows of --growth can use a kept folder.")
    if not GROWTH.keys() >= set(names) and not BASELINE_PYTHON.exists():
        raise SystemExit("The baseline is not installed: run `make bench` once.")
    try:
        found = asyncio.run(_run(names, plan, options))
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise SystemExit("Stopped. All processes have been ended.") from None
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    if len(found["rows"]) < len(names):
        raise SystemExit("A row has failed. Its error is shown above.")


def _names(options: argparse.Namespace) -> list[str]:
    if options.growth:
        return list(GROWTH)
    return [name for name in ROWS if not (options.quick and name in LONG)]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a shorter, less precise run")
    parser.add_argument(
        "--growth",
        action="store_true",
        help="only the rows that compare a short and a long history",
    )
    parser.add_argument(
        "--only", choices=[*ROWS, *GROWTH], action="append", help="only this row; may be repeated"
    )
    parser.add_argument(
        "--release",
        metavar="VERSION",
        help="store this run's ratios, which the next release is compared with",
    )
    parser.add_argument(
        "--store",
        action="store_true",
        help="store the results of --growth, from which `make docs` writes a table",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="only with rows of --growth: keep the long databases here, or use those kept earlier",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to FILE")
    return parser.parse_args()


async def _run(names: Sequence[str], plan: Plan, options: argparse.Namespace) -> dict[str, Any]:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    began = time.monotonic()
    busy = cpu.busy_share(LOOK_SECONDS)
    console = Console(width=None if sys.stdout.isatty() else FILE_WIDTH)
    async with private_server(options.keep) as server:
        rows = []
        async for row in _measure(server, names, plan, console):
            rows.append(row)
            if options.store and row.row.name in GROWTH:
                # A long run may be interrupted, so each row is stored at once.
                grown.save([row], SMALL, LARGE, busy)
        used = _memory(server)
    if long := [row for row in rows if row.row.name in GROWTH]:
        grown.print_all(console, long)
    else:
        report.print_slower(console, rows, previous.load())
    if options.release is not None:
        previous.save(options.release, rows)
    console.print(
        f"  PostgreSQL: {used['processes']} processes, {used['bytes'] // report.MEBIBYTE} MiB."
        f" The run: {time.monotonic() - began:.0f} seconds."
        f" The machine before it: {busy:.0%} busy.\n"
    )
    return report.as_json(rows, used, busy)


async def _measure(
    server: Server, names: Sequence[str], plan: Plan, console: Console
) -> AsyncIterator[Measured]:
    """Measures the rows, and prints each row when it has been measured."""
    async with prepared(server, plan, has_baseline=not GROWTH.keys() >= set(names)) as stage:
        for name in names:
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            seconds_max = GROWTH_SECONDS_MAX if name in GROWTH else ROW_SECONDS_MAX
            try:
                async with asyncio.timeout(seconds_max), {**ROWS, **GROWTH}[name](stage) as row:
                    await server.analyze()
                    measured = await measure(row, plan, server)
            except Exception as error:
                # The other rows can still be measured.
                server.show_logs()
                traceback.print_exception(error)
                continue
            report.print_row(console, measured)
            yield measured


def _memory(server: Server) -> dict[str, int]:
    family = [server.postmaster, *cpu.children(server.postmaster)]
    return {"processes": len(family), "bytes": sum(map(cpu.proportional_bytes, family))}


if __name__ == "__main__":
    main()
