"""The order of the test modules: longest first, or shuffled. The tests of a module stay together.

`durations.json` has the wall-clock and CPU seconds that each module took when they were last
recorded (`python -m tests.support.ordering FILE`, with a report from `pytest --junitxml`). A wrong
or missing entry makes the test run only slightly slower. `make test` names the modules whose CPU
time has grown since.
"""

import json
import random
import sys
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

from tests.support import cpu_time

DURATIONS = Path(__file__).parents[1] / "durations.json"
RECORDED_SECONDS_MIN = 0.5
GROWTH_MAX = 1.2  # compared with the recorded CPU time
GROWN_SECONDS_MIN = 0.5  # ignores smaller differences, which are chance


class Used(NamedTuple):
    seconds: float
    cpu_seconds: float


def recorded() -> dict[str, Used]:
    return {module: Used(*each) for module, each in json.loads(DURATIONS.read_text()).items()}


def longest_first(items: list[pytest.Item]) -> None:
    used = recorded()
    items.sort(key=lambda item: -used.get(_module(item), Used(0, 0)).seconds)


def shuffle(items: list[pytest.Item], seed: str) -> None:
    chance = random.Random(seed)
    modules = [list(group) for _, group in groupby(items, key=_module)]
    chance.shuffle(modules)
    for module in modules:
        chance.shuffle(module)
    items[:] = [item for module in modules for item in module]


def _module(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def durations(report: Path) -> dict[str, Used]:
    """Returns each module's wall-clock and CPU seconds from a JUnit report, longest first."""
    used: dict[str, Used] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        module = case.get("classname", "").replace(".", "/") + ".py"
        before = used.get(module, Used(0, 0))
        used[module] = Used(
            before.seconds + float(case.get("time", "0")), before.cpu_seconds + _cpu_seconds(case)
        )
    return dict(sorted(used.items(), key=lambda each: -each[1].seconds))


def _cpu_seconds(case: ElementTree.Element) -> float:
    found = case.find(f"properties/property[@name='{cpu_time.PROPERTY}']")
    return 0 if found is None else float(found.get("value", "0"))


def grown(now: dict[str, Used], before: dict[str, Used]) -> dict[str, float]:
    """Returns the modules that take more CPU time than recorded, with their growth, largest first.

    Another machine may be faster or slower as a whole, so the median module has not grown.
    """
    factors = {
        module: now[module].cpu_seconds / before[module].cpu_seconds
        for module in now.keys() & before.keys()
        if before[module].cpu_seconds
    }
    usual = median(factors.values()) if factors else 1
    found = {
        module: factor / usual
        for module, factor in factors.items()
        if factor / usual > GROWTH_MAX
        and now[module].cpu_seconds - usual * before[module].cpu_seconds > GROWN_SECONDS_MIN
    }
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def main() -> None:
    rows = [
        f" {json.dumps(module)}: [{used.seconds:.1f}, {used.cpu_seconds:.1f}]"
        for module, used in durations(Path(sys.argv[1])).items()
        if max(used) >= RECORDED_SECONDS_MIN
    ]
    DURATIONS.write_text("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
