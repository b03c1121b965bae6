"""Short runs of the simulation: one with a fixed seed, one with a random seed.

Each run is a separate program, because the simulation changes its own calendar clock.
"""

import random
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

MINUTES = 2
FIXED_SEED = 20_261_118


class TestFixedSeed:
    def test_two_minutes_match_the_model(self, project: Path) -> None:
        _run(project, FIXED_SEED)


class TestRandomSeed:
    def test_two_minutes_match_the_model(self, project: Path) -> None:
        _run(project, random.randrange(2**32))


def _run(project: Path, seed: int) -> None:
    command = [sys.executable, "-m", "tests.simulation"]
    command += ["--seed", str(seed), "--minutes", str(MINUTES)]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, f"Repeat with `make simulate SEED={seed}`.\n{done.stderr}"
