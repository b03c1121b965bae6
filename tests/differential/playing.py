"""Plays one plan in another version's tree and in this one, at the same time."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.differential import plan
from tests.faults import release

PROJECT = Path(__file__).parents[2]
HERE = Path("tests", "differential")
PARTS = ("tests", "tools", "pyproject.toml")


def compare(base: str, folder: Path, seed: int, events: int) -> list[str]:
    """Returns the rows that only one of the two versions stored, marked with - and +."""
    plan.write(folder / "plan.json", seed, events)
    code = _unpack(base, folder)
    with ThreadPoolExecutor() as pool:
        runs = [
            pool.submit(_play, code, code / release.ENVIRONMENT, folder / "base.txt", folder),
            pool.submit(_play, PROJECT, Path(sys.prefix), folder / "now.txt", folder),
        ]
        before, now = [run.result() for run in runs]
    differences = [f"- {row}" for row in before - now] + [f"+ {row}" for row in now - before]
    return sorted(differences, key=lambda row: (row[2:].split(" ", 2)[:2], row[0], row))


def _unpack(base: str, folder: Path) -> Path:
    """Unpacks the version with its tests, and replaces this package by the current one."""
    code = release.unpack(PROJECT, base, folder, *PARTS, requirements="requirements-dev.txt")
    shutil.rmtree(code / HERE, ignore_errors=True)
    shutil.copytree(PROJECT / HERE, code / HERE)
    if not (code / "tests/support").exists():
        # In earlier versions, the helper modules are in the folder `tests` itself.
        for file in (code / HERE).glob("*.py"):
            file.write_text(file.read_text().replace("tests.support.", "tests."))
    return code


def _play(code: Path, environment: Path, rows: Path, folder: Path) -> set[str]:
    variables = {
        **os.environ,
        plan.FILE: str(folder / "plan.json"),
        plan.ROWS: str(rows),
        "PYTHONPATH": os.pathsep.join(
            str(code / part) for part in (".", *(f"{each}/src" for each in release.ADDITIONAL))
        ),
    }
    command = [f"{environment}/bin/python", "-m", "pytest", "-n0", "-q", f"{HERE}/test_stories.py"]
    done = subprocess.run(
        command, cwd=code, env=variables, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise AssertionError(f"{code} could not play the plan:\n{done.stdout[-4000:]}")
    lines = rows.read_text().splitlines()
    assert len(lines) > 1, f"{code} stored nothing"
    counted: dict[str, int] = {}
    found = set()
    for line in lines:  # equal rows of a story count separately
        counted[line] = counted.get(line, 0) + 1
        found.add(f"{line} ({counted[line]})")
    return found
