"""Short runs of the simulation: one with a fixed seed, one with a random seed."""

import random

import pytest

from tests.simulation import plan
from tests.simulation.run import run

pytestmark = pytest.mark.long

MINUTES = 2
FIXED_SEED = 20_261_118


class TestFixedSeed:
    async def test_two_minutes_match_the_model(self) -> None:
        await _run(FIXED_SEED)


class TestRandomSeed:
    async def test_two_minutes_match_the_model(self) -> None:
        await _run(random.randrange(2**32))


async def _run(seed: int) -> None:
    print(f"seed {seed}")
    report = await run(seed, plan.rounds(seed), MINUTES * 60)
    print(report.as_text())
    assert report.violations == [], f"Repeat with `make simulate SEED={seed}`."
    assert report.checks["quiet moments"] == len(report.played)
