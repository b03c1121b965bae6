"""No text makes one of our regular expressions slow: the steps grow with the text's length."""

import ast
import importlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import multipart  # type: ignore[import-untyped]
import pytest

import manilla
from manilla.ledger.trx_ids import TRX_IDS
from manilla.payments import declines
from manilla.saved_ways import declines as way_declines
from manilla.web.serving import router
from tests.kit.backtracking import Pattern, TooManySteps

FOLDER = Path(manilla.__file__).parent
FUNCTIONS = {
    f"re.{name}"
    for name in ("compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall")
} | {"re.finditer"}
ANCHORED = {"match", "fullmatch"}
SIZES = (6, 12, 24)
GROWTH_MAX = 3  # twice as many steps for a text of twice the length are linear; four are quadratic

OWN_MAPS = "matches a whole line of the operator's map files"
# Patterns that a text can make slow, and why nobody else chooses the text
ACCEPTED = {
    "cells/maps.py: (?P<key>\\S+)\\s+(?P<cell>[a-z0-9-]+)": OWN_MAPS,
    "cells/maps.py: \\\\?(?P<key>[^\\s~;]+)\\s+(?P<cell>[a-z0-9-]+);": OWN_MAPS,
    "cells/maps.py: (?:~\\*\\^)?(?P<key>[0-9A-Z]+)\\s+(?P<cell>[a-z0-9-]+);": OWN_MAPS,
}
# Calls whose pattern is not a constant, and the patterns that they use
COMPUTED: dict[str, Iterable[str]] = {
    "ledger/invariants.py: re.search(f\"\\\\b{row['name']}\\\\b\", sql)": [r"\bwallet\b"],
    "ledger/invariants.py: re.search(f\"\\\\b{row['name']} AS \\\\(\", tables)": [
        r"\bwallet AS \("
    ],
    "ledger/transaction_lists.py: msgspec.Meta(pattern=ids.pattern)": [TRX_IDS.pattern],
    "payments/declines.py: re.search(pattern, words)": [each for each, _ in declines._MEANINGS],
    "saved_ways/declines.py: re.search(rule.pattern, words)": [
        each.pattern for each in way_declines.RULES
    ],
    "web/rendering.py: re.search(f'id=\"h-({re.escape(name)}(-[0-9]+)?)\"', body)": [
        'id="h-(a(-[0-9]+)?)"'
    ],
    "web/serving/router.py: re.compile(_pattern(path))": [
        router._pattern("/a/{b:int}/c/{d:str}/e"),
        router._pattern("/a/{b:str}/{c:path}"),
    ],
}
UNCHECKED = {"reference/code_samples.py": "colors our own code samples"}


class Found(NamedTuple):
    file: str
    call: str
    pattern: str | bytes | None  # None if only the running code knows the pattern
    flags: int
    is_anchored: bool


@cache
def _sources() -> dict[Path, str]:
    files = (file for file in sorted(FOLDER.rglob("*.py")) if "samples" not in file.parts)
    return {file: file.read_text() for file in files}


def _in_file(file: Path) -> Iterator[Found]:
    """Finds the patterns that are passed to the functions of `re`, or as `pattern`."""
    source = _sources()[file]
    if not re.search(r"\bre\.|\bpattern=", source):
        return
    module = ".".join(file.relative_to(FOLDER.parent).with_suffix("").parts)
    known = vars(importlib.import_module(module.removesuffix(".__init__")))
    tree = ast.parse(source)
    names = {
        node.value: node.targets[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        place = str(file.relative_to(FOLDER)), ast.unparse(call)
        function = ast.unparse(call.func).removeprefix("re.")
        if ast.unparse(call.func) in FUNCTIONS:
            name = names.get(call)
            used = _methods(source, name) if name else {function} - {"compile"}
            is_anchored = bool(used) and used <= ANCHORED
            flags = [*call.args[1:], *(each.value for each in call.keywords)][-1:]
            flag = int(_value(flags[0], known) or 0) if function == "compile" and flags else 0
            yield Found(*place, _value(call.args[0], known), flag, is_anchored)
        for given in call.keywords:
            if given.arg == "pattern":
                yield Found(*place, _value(given.value, known), 0, False)


def _methods(source: str, name: str) -> set[str]:
    """Returns the methods that are called on a compiled pattern."""
    texts = [source] if name.startswith("_") else _sources().values()
    return {method for text in texts for method in re.findall(rf"\b{name}\.(\w+)", text)}


def _value(node: ast.expr, known: dict[str, Any]) -> Any:
    try:
        return eval(compile(ast.Expression(node), "", "eval"), known)
    except (NameError, AttributeError):
        return None


def _growth(pattern: Pattern, attack: tuple[str, str, str], *, is_anchored: bool) -> float:
    start, part, end = attack
    steps = [pattern.steps(start + part * size + end, is_anchored=is_anchored) for size in SIZES]
    return (steps[2] - steps[1]) / max(steps[1] - steps[0], 8)


def _slow(text: str | bytes, flags: int = 0, *, is_anchored: bool = False) -> str | None:
    """Returns a text for which the number of steps grows faster than its length."""
    pattern = Pattern(text, flags)
    for attack in pattern.attacks(is_anchored=is_anchored):
        try:
            if _growth(pattern, attack, is_anchored=is_anchored) > GROWTH_MAX:
                return repr(attack)
        except TooManySteps:
            return repr(attack)
    return None


def test_no_text_makes_a_pattern_slow() -> None:
    found = [each for file in _sources() for each in _in_file(file) if each.file not in UNCHECKED]
    computed = {f"{each.file}: {each.call}" for each in found if each.pattern is None}
    assert computed == COMPUTED.keys()
    slow = {
        f"{each.file}: {each.pattern!s}"
        for each in found
        if each.pattern is not None
        and _slow(each.pattern, each.flags, is_anchored=each.is_anchored)
    }
    assert slow == ACCEPTED.keys()
    assert not any(map(_slow, chain.from_iterable(COMPUTED.values())))
    assert len(found) > 100


def test_no_header_makes_the_parser_of_forms_slow() -> None:
    """It parses the headers of strangers' requests. Earlier versions had a slow pattern."""
    found = [each for each in vars(multipart).values() if isinstance(each, re.Pattern)]
    assert found
    assert not any(_slow(each.pattern, each.flags & re.ASCII) for each in found)


@pytest.mark.parametrize(
    ("pattern", "is_anchored"),
    [
        (r'"[^"]*"|\\.|\[[^\]]*\]', False),
        (r"\s+$", False),
        (r"id=[a-z=]+x;", False),
        (r'; *([a-z]+) *= *("(?:\\.|[^"])*"|[a-z]+)', False),
        (r"(a+)+", True),
        (r"(?:a|a)*b", True),
        (r"\d+\d+x", True),
        (r"x(\w+\s?)*y", True),
        (r"(?i)[a-f]+[0-9A-F]*-", True),
    ],
)
def test_a_slow_pattern_is_found(pattern: str, *, is_anchored: bool) -> None:
    assert _slow(pattern, is_anchored=is_anchored)


@pytest.mark.parametrize(
    "pattern", [r"\s+$", r"(?<!\s)\s+$", r"\A\s*\Z", r"(?>a+)b", r"[a-z]+@[a-z]+"]
)
def test_a_pattern_without_slow_texts_is_accepted(pattern: str) -> None:
    assert _slow(pattern, is_anchored=not pattern.startswith("(?<")) is None
