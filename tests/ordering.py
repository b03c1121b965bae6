"""The order of the test modules: longest first, or shuffled. The tests of a module stay together.

`durations.json` has the seconds that each module took when durations were last recorded (`python -m
tests.ordering FILE`, with a report from `pytest --junitxml`). A wrong or missing entry makes the
test run only slightly slower.
"""

import json
import random
import sys
from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

import pytest

DURATIONS = Path(__file__).parent / "durations.json"
RECORDED_SECONDS_MIN = 1.0


def longest_first(items: list[pytest.Item]) -> None:
    seconds: dict[str, float] = json.loads(DURATIONS.read_text())
    items.sort(key=lambda item: -seconds.get(_module(item), 0))


def shuffle(items: list[pytest.Item], seed: str) -> None:
    chance = random.Random(seed)
    modules = [list(group) for _, group in groupby(items, key=_module)]
    chance.shuffle(modules)
    for module in modules:
        chance.shuffle(module)
    items[:] = [item for module in modules for item in module]


def _module(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def durations(report: Path) -> dict[str, float]:
    """Returns each module's duration in seconds from a JUnit report, longest first."""
    seconds: dict[str, float] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        module = case.get("classname", "").replace(".", "/") + ".py"
        seconds[module] = seconds.get(module, 0) + float(case.get("time", "0"))
    return dict(sorted(seconds.items(), key=lambda each: -each[1]))


def main() -> None:
    long = {
        module: round(seconds, 1)
        for module, seconds in durations(Path(sys.argv[1])).items()
        if seconds >= RECORDED_SECONDS_MIN
    }
    DURATIONS.write_text(json.dumps(long, indent=1) + "\n")


if __name__ == "__main__":
    main()
