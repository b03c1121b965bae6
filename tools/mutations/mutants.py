"""Draws mutants at random. Cosmic Ray generates them.

These mutants are skipped:
- type annotations, type aliases and the options of classes (`frozen`, `kw_only`), because mypy
  checks them;
- arguments of log calls;
- `is` replaced by `==`, because these are equivalent for None and for members of an enumeration;
- stars in parameters and arguments, which are not operators, and mutants that do not compile.

Cosmic Ray changes no strings, and therefore no docstrings and no SQL.
"""

import difflib
import random
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

from tools.mutations.areas import AREAS, ModuleTests

ROOT = Path(__file__).parents[2]
NO_OPERATORS = ("argument", "arglist", "param", "parameters", "lambdef", "star_expr", "atom")
SAME = ("ReplaceComparisonOperator_Is_Eq", "ReplaceComparisonOperator_IsNot_NotEq")


class Mutant(NamedTuple):
    area: str
    file: str
    line: int
    operator: str
    occurrence: int

    def code(self) -> str:
        return _mutated(self)

    def diff(self) -> str:
        before, after = (ROOT / self.file).read_text().splitlines(), self.code().splitlines()
        lines = difflib.unified_diff(before, after, n=0, lineterm="")
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))

    def compiles(self) -> bool:
        try:
            compile(self.code(), self.file, "exec")
        except SyntaxError:
            return False
        return True

    def tests(self) -> ModuleTests:
        return next(each for each in AREAS[self.area] if Path(self.file).match(each.modules))


@cache
def _mutated(mutant: Mutant) -> str:
    operator = plugins.get_operator(f"core/{mutant.operator}")()
    return str(mutate_code((ROOT / mutant.file).read_text(), operator, mutant.occurrence))


def draw(area: str, number: int, seed: int) -> list[Mutant]:
    """Draws mutants at different places in the area's modules, at most one for each place."""
    places = defaultdict(list)
    for file in sorted({file for each in AREAS[area] for file in ROOT.glob(each.modules)}):
        for place, mutant in _mutants(area, file):
            places[mutant.file, place].append(mutant)
    chance = random.Random(f"{seed} {area}")
    order = chance.sample(sorted(places), len(places))
    drawn = (chance.choice(places[place]) for place in order)
    return list(islice((mutant for mutant in drawn if mutant.compiles()), number))


def _mutants(area: str, file: Path) -> Iterator[tuple[tuple[int, int], Mutant]]:
    tree = get_ast(file.read_text())
    for name in plugins.operator_names():
        operator = plugins.get_operator(name)
        if operator.arguments():
            continue
        positions = (
            (node, place)
            for node in ast_nodes(tree)
            for place, _ in operator().mutation_positions(node)
        )
        short = name.removeprefix("core/")
        for occurrence, (node, place) in enumerate(positions):
            if not _is_skipped(node, short):
                path = str(file.relative_to(ROOT))
                yield place, Mutant(area, path, place[0], short, occurrence)


def _is_skipped(node: Any, operator: str) -> bool:
    if operator in SAME or (node.type == "operator" and node.parent.type in NO_OPERATORS):
        return True
    while node.parent is not None:
        child, node = node, node.parent
        if (
            (node.type == "annassign" and child is node.children[1])
            or (node.type == "tfpdef" and child is node.children[2])
            or (node.type == "funcdef" and child is node.annotation)
            or (node.type == "classdef" and child is not node.children[-1])
            or (node.type == "atom_expr" and node.children[0].get_code(False) == "log")
            or ("_BitOr_" in operator and node.type == "file_input" and _is_alias(child))
        ):
            return True
    return False


def _is_alias(statement: Any) -> bool:
    return bool(statement.type == "simple_stmt" and statement.children[0].type == "expr_stmt")
