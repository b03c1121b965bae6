"""`python -m bench`: measures the rows one after the other and prints what it found."""

import argparse
import asyncio
import signal
import time
from pathlib import Path

import msgspec
from rich.console import Console

from bench import cpu, report
from bench.frame import Measured, Plan, measure
from bench.rows import ROWS
from bench.server import Server, private_server
from bench.stage import BASELINE_PYTHON, prepared

FULL = Plan(rounds=5, block_seconds=2, warm_seconds=1)
QUICK = Plan(rounds=3, block_seconds=0.7, warm_seconds=0.3)
RUN_SECONDS_MAX = 300


def main() -> None:
    options = _options()
    if not BASELINE_PYTHON.exists():
        raise SystemExit("The baseline is not installed: run `make bench` once.")
    asyncio.run(_run(options, Console()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter, and therefore rougher")
    parser.add_argument("--only", choices=list(ROWS), action="append", help="this row alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers to FILE")
    return parser.parse_args()


async def _run(options: argparse.Namespace, console: Console) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    began = time.monotonic()
    async with asyncio.timeout(RUN_SECONDS_MAX), private_server() as server:
        rows = await _measure(server, options, console)
        used = _server_memory(server)
    console.print(
        f"PostgreSQL: {used['processes']} processes, {used['bytes'] // report.MEBIBYTE} MiB. "
        f"{time.monotonic() - began:.0f} seconds. bench/README.md says how to read this."
    )
    if options.json:
        options.json.write_bytes(
            msgspec.json.format(msgspec.json.encode(report.as_json(rows, used)))
        )


async def _measure(server: Server, options: argparse.Namespace, console: Console) -> list[Measured]:
    rows = []
    async with prepared(server, quick=options.quick) as stage:
        for name in options.only or ROWS:
            async with ROWS[name](stage) as row:
                plan = QUICK if options.quick else FULL
                rows.append(await measure(row, plan, server.postmaster))
            report.print_row(console, rows[-1])
    return rows


def _server_memory(server: Server) -> dict[str, int]:
    family = [server.postmaster, *cpu.children(server.postmaster)]
    return {"processes": len(family), "bytes": sum(map(cpu.proportional_bytes, family))}


if __name__ == "__main__":
    main()
