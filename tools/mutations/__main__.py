"""`make mutations SEED=7 NUMBER=10` tests 10 mutants for each area.

The results are added to docs/proof/mutations.json. Each mutant changes one place in a temporary
copy of the repository, never in the work tree. A mutant is killed if a test fails. A mutant that
makes the tests hang is recorded as a timeout, and counts as killed. A result is stored only if the
failed test passes on the unchanged code.

`python -m tools.mutations --again` tests the survivors without an explanation again, after new
tests were written. To explain a survivor, add a field to its entry: `equivalent` if no caller can
notice the change, and otherwise `explained`.
"""

import argparse
import importlib.util
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tools.mutations.areas import AREAS
from tools.mutations.mutants import ROOT, Mutant, draw

RESULTS = ROOT / "docs/proof/mutations.json"
LIMIT_SECONDS = 600
NOTE = """\
`make mutations` draws mutants at random, and tests each mutant in a copy of the repository. A \
mutant that makes the tests hang counts as killed. An equivalent mutant survives because no caller \
can notice the change, and is not part of the percentage. The column "New tests" counts the killed \
mutants that survived until a test was added. [mutations.json](proof/mutations.json) lists each \
mutant with its diff and the test that failed, and explains the survivors."""


class Copy:
    """A temporary copy of the repository, in which one mutant at a time is tested."""

    def __init__(self, folder: Path, templates: Path) -> None:
        self._folder = folder
        for name in subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
        paths = (folder, folder / "clients/python/src", folder / "simulator/src")
        variables = {"PYTHONPATH": ":".join(map(str, paths))}
        self._environment = {**os.environ, **variables, "MANILLA_TEST_TEMPLATES": str(templates)}

    def outcome(self, mutant: Mutant) -> tuple[str, str]:
        """Returns the outcome, and the test that failed."""
        self._write(mutant.file, mutant.code())
        try:
            narrow = self.run(mutant.tests().narrow)
            return self.run(mutant.tests().wide) if narrow[0] == "survived" else narrow
        finally:
            self._write(mutant.file, (ROOT / mutant.file).read_text())

    def _write(self, name: str, code: str) -> None:
        file = self._folder / name
        # Python would use old bytecode if the new code has the same size and the same time.
        Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
        file.write_text(code)

    def run(self, tests: Sequence[str]) -> tuple[str, str]:
        if not tests:
            return "survived", ""
        python = str(ROOT / ".venv/bin/python")
        command = [python, "-m", "pytest", "-x", "-q", "--tb=line", "-m", "not long", *tests]
        place: Any = {"cwd": self._folder, "env": self._environment, "start_new_session": True}
        with tempfile.TemporaryFile("w+") as output:
            with subprocess.Popen(command, stdout=output, stderr=output, **place) as run:
                code = _wait(run)
            output.seek(0)
            text = output.read()
        if code == 0:
            return "survived", ""
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", text, re.MULTILINE)
        return "timeout" if code is None else "killed", failed[1] if failed else tests[0]


def _wait(run: "subprocess.Popen[Any]") -> int | None:
    # Count waits instead of reading a clock, so that a pause of all processes causes no timeout.
    for _ in range(LIMIT_SECONDS):
        try:
            return run.wait(1)
        except subprocess.TimeoutExpired:
            continue
    os.killpg(run.pid, signal.SIGKILL)
    return None


class Results:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"mutants": []}
        self.mutants: list[dict[str, Any]] = stored["mutants"]

    def contains(self, mutant: Mutant) -> bool:
        key = mutant.file, mutant.operator, mutant.diff()
        return any((each["file"], each["operator"], each["diff"]) == key for each in self.mutants)

    def unexplained(self) -> list[dict[str, Any]]:
        survived = [each for each in self.mutants if each["outcome"] == "survived"]
        return [each for each in survived if not {"equivalent", "explained"} & each.keys()]

    def add(self, entry: dict[str, Any], outcome: str, failed: str) -> None:
        with self._lock:
            is_new = "outcome" not in entry
            if not is_new and outcome != "survived":
                entry["survived_at_first"] = True
            entry.update(outcome=outcome, failed_test=failed)
            self.mutants += [entry] if is_new else []
            self.save()

    def save(self) -> None:
        rows = [_row(area, [e for e in self.mutants if e["area"] == area]) for area in AREAS]
        stored = {"note": NOTE, "rows": [*rows, _row("all", self.mutants)], "mutants": self.mutants}
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(stored, indent=1) + "\n")


def _row(area: str, mutants: Sequence[dict[str, Any]]) -> dict[str, Any]:
    survived = [each for each in mutants if each["outcome"] == "survived"]
    killed = len(mutants) - len(survived)
    equivalent = sum("equivalent" in each for each in survived)
    different = len(mutants) - equivalent
    return {
        "area": area,
        "mutants": len(mutants),
        "equivalent": equivalent,
        "killed": killed,
        "new_tests": sum("survived_at_first" in each for each in mutants),
        "survived": len(survived) - equivalent,
        "percent_killed": f"{100 * killed / different:.1f}" if different else "",
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.mutations")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, default=10, help="mutants for each area")
    parser.add_argument("--copies", type=int, default=1, help="mutants tested at the same time")
    parser.add_argument("--again", action="store_true", help="test unexplained survivors again")
    wanted = parser.parse_args()
    results = Results()
    entries = results.unexplained() if wanted.again else _drawn(results, wanted)
    with tempfile.TemporaryDirectory(prefix="manilla-mutations-") as folder:
        _test(entries, results, Path(folder), wanted.copies)
    results.save()
    for row in json.loads(RESULTS.read_text())["rows"]:
        print("  ".join(f"{name}: {value}" for name, value in row.items()))


def _drawn(results: Results, wanted: argparse.Namespace) -> list[dict[str, Any]]:
    """Draws mutants that have no result yet, the first of each area before the second ones."""
    areas = (draw(area, wanted.number, wanted.seed) for area in AREAS)
    drawn = (each for turn in zip_longest(*areas) for each in turn if each)
    new = [mutant for mutant in drawn if not results.contains(mutant)]
    return [{"seed": wanted.seed, **each._asdict(), "diff": each.diff()} for each in new]


def _test(entries: Sequence[dict[str, Any]], results: Results, folder: Path, copies: int) -> None:
    templates = folder / "templates"
    templates.mkdir()
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for number in range(copies):
        free.put(Copy(folder / f"copy-{number}", templates))
    passing: set[str] = set()

    def test(entry: dict[str, Any]) -> None:
        mutant = Mutant(*(entry[name] for name in Mutant._fields))
        if mutant.diff() != entry["diff"]:
            print(f"{mutant.file} has changed since this result: delete its entry.")
            return
        copy = free.get()
        outcome, failed = copy.outcome(mutant)
        if outcome == "killed" and failed not in passing and copy.run([failed])[0] == "survived":
            passing.add(failed)
        free.put(copy)
        if outcome == "killed" and failed not in passing:
            outcome = "not stored, because this test also fails without the mutant:"
        else:
            results.add(entry, outcome, failed)
        print(f"{mutant.area}: {mutant.file}:{mutant.line} {outcome} {failed}", flush=True)

    with ThreadPoolExecutor(copies) as threads:
        list(threads.map(test, entries))


if __name__ == "__main__":
    main()
