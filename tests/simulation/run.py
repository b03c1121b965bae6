"""Runs rounds of a plan in a new world, and reports what happened."""

import asyncio
import json
import subprocess
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import manilla
from tests.simulation import plan
from tests.simulation.administrators import AdministratorSteps
from tests.simulation.faults import FaultSteps
from tests.simulation.plan import ADMINISTRATOR, FAULT, Round, Step
from tests.simulation.quiet import QuietMoment
from tests.simulation.teams import TeamSteps
from tests.simulation.world import World
from tests.support import template

VIOLATIONS_MAX = 20


@dataclass
class Report:
    seed: int
    played: list[Round] = field(default_factory=list)
    seconds: float = 0.0
    operations: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    checks: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    def as_json(self, indent: int | None = None) -> str:
        document = {
            "seed": self.seed,
            "version": _version(),
            "outcome": "failed" if self.violations else "passed",
            "rounds": len(self.played),
            "seconds": round(self.seconds, 1),
            "operations": dict(sorted(self.operations.items())),
            "outcomes": dict(sorted(self.outcomes.items())),
            "faults": dict(sorted(self.faults.items())),
            "checks": dict(sorted(self.checks.items())),
            "violations": self.violations[:VIOLATIONS_MAX],
        }
        return json.dumps(document, indent=indent)

    def as_text(self) -> str:
        lines = [f"seed {self.seed}: {len(self.played)} rounds in {self.seconds:.0f} s"]
        for title, counts in (("operations", self.operations), ("faults", self.faults)):
            total = sum(counts.values())
            rate = total / max(self.seconds, 1) * 3600
            lines += [f"{title}: {total}, {rate:.0f} an hour", *_table(counts)]
        lines += ["requests not accepted at once:", *_table(self.outcomes)]
        lines += ["checks:", *_table(self.checks)]
        lines += ["violations:", *(f"  {each}" for each in self.violations or ["none"])]
        return "\n".join(lines)


def _version() -> str:
    """Returns the last commit that changed the product, with a `+` if it was changed since."""
    commit = _git("log", "-1", "--format=%h", "--", "manilla").stdout.strip()
    is_changed = _git("diff", "--quiet", "HEAD", "--", "manilla").returncode == 1
    return commit + "+" * is_changed if commit else manilla.__version__


def _git(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["git", *words], capture_output=True, text=True, check=False)


def _table(counts: dict[str, int]) -> list[str]:
    ordered = sorted(counts.items(), key=lambda each: -each[1])
    return [f"  {number:7d}  {name}" for name, number in ordered]


class Progress:
    """Counts the steps of merchants, so that other lanes can wait for a number of them."""

    def __init__(self, total: int) -> None:
        self.done = 0
        self._total = total
        self._changed = asyncio.Condition()

    async def add(self) -> None:
        async with self._changed:
            self.done += 1
            self._changed.notify_all()

    async def until(self, count: int) -> None:
        count = min(count, self._total)
        async with self._changed:
            await self._changed.wait_for(lambda: self.done >= count)

    async def more(self, count: int) -> None:
        await self.until(self.done + count)


Runner = TeamSteps | FaultSteps | AdministratorSteps


async def play(world: World, steps: Round, quiet: QuietMoment) -> list[str]:
    """Runs the lanes of one round at the same time, then waits for the quiet moment."""
    lanes = plan.lanes(steps)
    merchants = [step for step in steps if step.lane not in (ADMINISTRATOR, FAULT)]
    progress = Progress(len(merchants))
    faults = FaultSteps(world, progress.more)
    administrators = AdministratorSteps(world, progress.more)

    async def attempt(runner: Runner, step: Step) -> None:
        try:
            await runner.run(step)
        except Exception as error:
            # The simulation expects every error that a fault can cause, so this is a finding too.
            world.violations.append(f"{step} raised {error!r}")

    async def run_merchant(lane: str, mine: list[Step]) -> None:
        runner = TeamSteps(world, world.shops[int(lane.split()[1])])
        for step in mine:
            await attempt(runner, step)
            await progress.add()

    async def run_other(runner: Runner, mine: list[Step]) -> None:
        for step in mine:
            await progress.until(step.after)
            await attempt(runner, step)

    async with asyncio.TaskGroup() as group:
        for lane, mine in lanes.items():
            if lane == FAULT:
                group.create_task(run_other(faults, mine))
            elif lane == ADMINISTRATOR:
                group.create_task(run_other(administrators, mine))
            else:
                group.create_task(run_merchant(lane, mine))
    violations = await quiet.reach(faults)
    return [*world.violations, *violations]


async def run(
    seed: int, rounds: Iterable[Round], seconds: float = float("inf"), folder: Path | None = None
) -> Report:
    """Plays rounds in a new world until one violates the model or the time is over.

    The world's data and logs stay in `folder`, or are deleted if no folder is given.
    """
    report = Report(seed)
    with template.shared_folder(), tempfile.TemporaryDirectory() as temporary:
        world = World(folder or Path(temporary))
        try:
            await world.open()
            began, quiet = time.monotonic(), QuietMoment(world)
            for steps in rounds:
                report.violations = await play(world, steps, quiet)
                report.played.append(steps)
                report.seconds = time.monotonic() - began
                operations, faults = world.operations.total(), world.faults.total()
                counts = f"{operations} operations, {faults} faults"
                print(f"{report.seconds:5.0f} s: {len(report.played)} rounds, {counts}", flush=True)
                if report.violations or report.seconds >= seconds:
                    break
        finally:
            await world.close()
        report.operations, report.faults = dict(world.operations), dict(world.faults)
        report.checks, report.outcomes = dict(world.checks), dict(world.outcomes)
    return report
