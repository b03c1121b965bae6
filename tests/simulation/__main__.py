"""Runs the simulation: `python -m tests.simulation --seed 7 --minutes 2`.

If the run violates the model, the program searches for a short part of the plan that still fails,
prints it, and writes it to a file that `--plan` plays again.
"""

import argparse
import asyncio
import os
import random
import signal
from collections.abc import Iterable
from pathlib import Path

from tests.simulation import clocks, plan
from tests.simulation.minimize import Minimizer
from tests.simulation.plan import Round
from tests.simulation.run import Report, run
from tests.support import template

# All other limits are the product's own. On a busy machine, connecting takes longer than usual.
LIMITS = '{"host_connect_seconds": 5}'
PRINTED_MAX = 100  # a longer story is only written to its file
REPORTS = Path(".reports")
RESULTS = Path(__file__).with_name("results.jsonl")


def main() -> None:
    wanted = _arguments()
    os.environ["MANILLA_TIME_LIMITS"] = LIMITS
    clocks.start_again_with_clocks()
    # Close the world before the program ends.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if wanted.folder:
        wanted.folder.mkdir(parents=True)
    seed = random.randrange(2**32) if wanted.seed is None else wanted.seed
    print(f"seed {seed}", flush=True)
    with template.shared_folder():
        report = asyncio.run(run(seed, _rounds(wanted, seed), wanted.minutes * 60, wanted.folder))
        print(report.as_text(), flush=True)
        REPORTS.mkdir(exist_ok=True)
        (REPORTS / "simulation.json").write_text(report.as_json(indent=1))
        if wanted.store:
            with RESULTS.open("a") as results:
                results.write(report.as_json() + "\n")
        if report.violations:
            asyncio.run(_print_story(report, wanted.minimize_minutes * 60))
            raise SystemExit(1)


def _rounds(wanted: argparse.Namespace, seed: int) -> Iterable[Round]:
    if wanted.plan:
        return plan.read(wanted.plan.read_text())
    return plan.first_rounds(seed, wanted.rounds) if wanted.rounds else plan.rounds(seed)


async def _print_story(report: Report, seconds: float) -> None:
    async def fails(rounds: list[Round]) -> bool:
        return bool((await run(report.seed, rounds)).violations)

    minimizer = Minimizer(fails, seconds)
    rounds = await minimizer.shorten(report.played) if seconds else report.played
    steps = [step for each in rounds for step in each]
    file = REPORTS / f"simulation-{report.seed}.jsonl"
    file.write_text(plan.write(steps))
    print(f"seed {report.seed} fails with {len(steps)} steps ({minimizer.played} replays):")
    print(*steps[:PRINTED_MAX], sep="\n")
    print(f"Play them again: python -m tests.simulation --plan {file}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, help="the seed of the plan; random if omitted")
    parser.add_argument("--minutes", type=float, default=2, help="no round starts later")
    parser.add_argument("--rounds", type=int, help="the maximum number of rounds")
    parser.add_argument("--plan", type=Path, help="play the steps in this file")
    parser.add_argument("--folder", type=Path, help="an empty folder that keeps data and logs")
    parser.add_argument("--store", action="store_true", help="add the result to results.jsonl")
    parser.add_argument("--minimize-minutes", type=float, default=15)
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    finally:
        clocks.remove()
