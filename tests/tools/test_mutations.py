"""The mutation test covers existing modules with existing tests, and its results are explained."""

import json
from pathlib import Path

from tools.mutations.areas import AREAS

MODULES = [tests for area in AREAS.values() for tests in area]


def test_each_pattern_matches_a_module(project: Path) -> None:
    assert [each.modules for each in MODULES if not list(project.glob(each.modules))] == []


def test_each_named_test_exists(project: Path) -> None:
    named = {test for each in MODULES for test in (*each.narrow, *each.wide)}
    assert sorted(test for test in named if not (project / test).exists()) == []


def test_95_percent_of_the_mutants_are_killed_and_survivors_are_explained(project: Path) -> None:
    mutants = json.loads((project / "docs/proof/mutations.json").read_text())["mutants"]
    survived = [each for each in mutants if each["outcome"] == "survived"]
    different = [each for each in survived if "equivalent" not in each]
    assert [each["diff"] for each in different if "explained" not in each] == []
    assert len(different) <= 0.05 * (len(mutants) - len(survived) + len(different))
