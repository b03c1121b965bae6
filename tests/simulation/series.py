"""Runs the simulation with one seed after another, and stores the result of each run.

`python -m tests.simulation.series --minutes 60 --each 10` runs for about an hour. Each run adds a
line to `results.jsonl`, and its steps are printed if it fails. Then `docs/proof.md` is updated.
"""

import argparse
import random
import subprocess
import sys
import time

from tests.operating import tables


def main() -> None:
    wanted = _arguments()
    deadline = time.monotonic() + wanted.minutes * 60
    while time.monotonic() < deadline:
        minutes = min(wanted.each, (deadline - time.monotonic()) / 60)
        command = [sys.executable, "-m", "tests.simulation", "--store"]
        command += ["--seed", str(random.randrange(2**32)), "--minutes", f"{minutes:.2f}"]
        command += ["--minimize-minutes", str(wanted.minimize_minutes)]
        subprocess.run(command, check=False)
        tables.main()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.series")
    parser.add_argument("--minutes", type=float, default=60, help="no run starts later")
    parser.add_argument("--each", type=float, default=10, help="the duration of each run")
    parser.add_argument("--minimize-minutes", type=float, default=15)
    return parser.parse_args()


if __name__ == "__main__":
    main()
