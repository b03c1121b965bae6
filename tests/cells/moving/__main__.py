"""Runs two cells behind HAProxy under load, and moves a merchant between them: `make cells`.

The program kills the command that moves the merchant, API processes and workers at random. At the
end, it compares what merchants, providers and the ledgers report with a model.
"""

import argparse
import asyncio
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from manilla.kit import time_limits
from manilla.kit.time_limits import TimeLimits
from tests.cells.moving import report
from tests.cells.moving.load import EventFollower, Load
from tests.cells.moving.mover import Move, Mover
from tests.cells.moving.world import RAILS, CellWorld
from tests.support import packages, results
from tools import proof


def main() -> None:
    wanted = _arguments()
    if not shutil.which("haproxy"):
        packages.install("haproxy")
    if not shutil.which("haproxy"):
        sys.exit("HAProxy is missing: install Debian's package haproxy.")
    # Manilla runs with its own time limits, and not with the longer limits of the tests.
    for name in [name for name in os.environ if name.startswith("MANILLA_")]:
        del os.environ[name]
    time_limits.use(TimeLimits())
    # Close the world before the program ends.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="manilla-cells-"))
    print(f"seed {wanted.seed}, logs: {folder}", flush=True)
    try:
        result = asyncio.run(_run(folder, wanted))
    except BaseException:
        print(f"The run ended early: SEED={wanted.seed}; logs: {folder}", flush=True)
        raise
    results.write(result, wanted.output)
    print(proof.moves(wanted.output))
    print(f"Written to {wanted.output}")
    if not result.is_good:
        print(result.findings)
        sys.exit(f"The moves did not keep their guarantees: SEED={wanted.seed}; logs: {folder}")
    shutil.rmtree(folder)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.cells.moving", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 1_000_000))
    parser.add_argument("--moves", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=240, help="start no move after this time")
    parser.add_argument("--output", type=Path, default=proof.MOVES)
    return parser.parse_args()


async def _run(folder: Path, wanted: argparse.Namespace) -> report.Result:
    began = time.monotonic()
    world = CellWorld(folder)
    try:
        await world.open()
        follower = EventFollower(world, RAILS)
        mover = Mover(world, random.Random(wanted.seed))
        load = Load(world, wanted.seed, follower)
        async with results.noting_stalls(mover.stalls), load.running():
            moves = await _move_all(world, mover, follower, wanted)
        findings = await report.check(world, follower, mover)
        about = {
            "date": f"{datetime.now(UTC):%Y-%m-%d}",
            "seed": wanted.seed,
            "versions": {
                "HAProxy": results.version_of("haproxy", "-v"),
                "PostgreSQL": await world.cells[0].db.value("SHOW server_version"),
            },
            "minutes": round((time.monotonic() - began) / 60, 1),
            "load_average": round(os.getloadavg()[1], 1),
            "cores": os.cpu_count() or 1,
        }
        return report.summarize(world, follower, moves, findings, about)
    finally:
        await world.close()


async def _move_all(
    world: CellWorld, mover: Mover, follower: EventFollower, wanted: argparse.Namespace
) -> list[Move]:
    merchant, moves = world.shops[0].id, list[Move]()
    deadline = time.monotonic() + wanted.minutes * 60
    for number in range(wanted.moves):
        if time.monotonic() > deadline:
            break
        source, target = world.cells if number % 2 == 0 else reversed(world.cells)
        moves.append(await mover.move(merchant, source, target))
        # The providers list only their newest records, so they are read after each move.
        await follower.read_providers()
        print(f"{number + 1:3} {moves[-1]}", flush=True)
    await mover.calls(merchant)
    return moves


if __name__ == "__main__":
    main()
