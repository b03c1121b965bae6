"""Checks the table in docs/asvs.md against the code: `python -m tools.asvs`.

This check is part of `make check`. The table must contain each requirement of the levels 1 and 2 of
OWASP's ASVS 5.0.0 once. Each test, function and file that the table names must exist.
"""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

DOCUMENT = Path("docs/asvs.md")
LEVEL = 2
RESULTS = ("met", "partly", "operator", "not met", "n/a")
# Rows with these results must name a test, code or document that shows the result.
SHOWN = ("met", "partly")

# The levels of the requirements in each section, in the order of their numbers.
_LEVELS = """
    1.1:22 1.2:1111122223 1.3:112222222223 1.4:222 1.5:123
    2.1:122 2.2:112 2.3:12223 2.4:23
    3.1:3 3.2:113 3.3:12223 3.4:11222233 3.5:11122333
    3.6:3 3.7:22333
    4.1:12233 4.2:23333 4.3:22 4.4:1222
    5.1:2 5.2:112333 5.3:113 5.4:222
    6.1:122 6.2:111111112222 6.3:11223333 6.4:112233
    6.5:22222333 6.6:2223 6.7:33 6.8:2222
    7.1:222 7.2:1111 7.3:22 7.4:11222 7.5:223 7.6:22
    8.1:1233 8.2:1123 8.3:133 8.4:23
    9.1:111 9.2:1222
    10.1:22 10.2:223 10.3:22223 10.4:1111122222233333
    10.5:22222 10.6:22 10.7:222
    11.1:2233 11.2:22233 11.3:11233 11.4:1222 11.5:23
    11.6:23 11.7:33
    12.1:12233 12.2:11 12.3:22223
    13.1:2333 13.2:222223 13.3:2233 13.4:1222233
    14.1:22 14.2:12223333 14.3:122
    15.1:12233 15.2:12233 15.3:1222222 15.4:3333
    16.1:2 16.2:22222 16.3:2222 16.4:222 16.5:2223
    17.1:23 17.2:22223333 17.3:22
"""
LEVELS = {
    section: levels for section, _, levels in (each.partition(":") for each in _LEVELS.split())
}

_ROW = re.compile(r"\| (\d+\.\d+\.\d+) \| (\d) \| [^|]+ \| ([^|]+) \| ([^|]+) \|")
_COUNT = re.compile(r"\| ([a-z/ ]+) \| (\d+) \| [^|]+ \|")
# A path in a folder, or a file in the project's root, possibly with the name of a definition.
_REFERENCE = re.compile(r"`(\w[\w@.-]*/[\w./@-]*\w|[\w-]+\.(?:md|txt))(?:::(\w+))?`")


class Row(msgspec.Struct, frozen=True):
    number: str
    level: str
    result: str
    evidence: str


def main() -> None:
    found = list(find_problems(DOCUMENT.read_text()))
    print(*found, sep="\n", end="\n" if found else "")
    raise SystemExit(1 if found else 0)


def find_problems(text: str) -> Iterator[str]:
    rows = [Row(*each) for each in _ROW.findall(text)]
    numbers = [row.number for row in rows]
    expected = requirements()
    if numbers != list(expected):
        missing = [each for each in expected if each not in numbers]
        surplus = [each for each in numbers if each not in expected]
        yield f"requirements are missing {missing}, unknown {surplus}, repeated or out of order"
    for row in rows:
        yield from _check(row, expected.get(row.number))
    counted = {result: int(count) for result, count in _COUNT.findall(text)}
    if counted != dict(Counter(row.result for row in rows)):
        yield f"the summary must be {dict(Counter(row.result for row in rows))}"


def requirements() -> dict[str, str]:
    """Maps the number of each requirement to its level."""
    return {
        f"{section}.{position}": level
        for section, levels in LEVELS.items()
        for position, level in enumerate(levels, 1)
        if int(level) <= LEVEL
    }


def _check(row: Row, level: str | None) -> Iterator[str]:
    if row.level != level:
        yield f"{row.number}: the level is {level}"
    if row.result not in RESULTS:
        yield f"{row.number}: unknown result {row.result}"
    references = _REFERENCE.findall(row.evidence)
    if row.result in SHOWN and not references:
        yield f"{row.number}: names no test, code or document"
    for path, name in references:
        if not Path(path).is_file():
            yield f"{row.number}: there is no file {path}"
        elif name and not _defines(path, name):
            yield f"{row.number}: {path} does not define {name}"


@cache
def _content(path: str) -> str:
    return Path(path).read_text()


def _defines(path: str, name: str) -> bool:
    """Whether a Python file defines a function, a class or a constant with the name."""
    definition = rf"^\s*(?:(?:async )?def|class) {name}\b|^{name}\b[^=\n]*=|^\w+, {name} = "
    return re.search(definition, _content(path), re.MULTILINE) is not None


if __name__ == "__main__":
    main()
