"""`tools.asvs` finds missing rows and references to tests that do not exist."""

import pytest

from tools import asvs

TEXT = asvs.DOCUMENT.read_text()


def test_the_table_is_complete_and_all_references_exist() -> None:
    assert list(asvs.find_problems(TEXT)) == []


def test_levels_1_and_2_have_253_requirements() -> None:
    levels = list(asvs.requirements().values())
    assert (levels.count("1"), levels.count("2")) == (70, 183)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("| 1.1.1 | 2 |", "| 1.1.9 | 2 |", "missing ['1.1.1'], unknown ['1.1.9']"),
        ("| 1.1.1 | 2 |", "| 1.1.1 | 1 |", "1.1.1: the level is 2"),
        ("tests/bulk/test_sheet.py::test_entities", "tests/bulk/no.py::test_entities", "no file"),
        ("::test_entities_are_rejected", "::test_entities", "does not define test_entities"),
        ("manilla/kit/crypto.py::KEY_BYTES", "manilla/kit/crypto.py::KEY", "does not define KEY"),
        ("| met | 1", "| met | 9", "the summary must be"),
    ],
)
def test_a_wrong_row_is_found(old: str, new: str, problem: str) -> None:
    assert old in TEXT
    assert problem in "\n".join(asvs.find_problems(TEXT.replace(old, new, 1)))


@pytest.mark.parametrize("result", ["met", "partly"])
def test_a_result_needs_evidence(result: str) -> None:
    [row] = [line for line in TEXT.splitlines() if line.startswith("| 1.2.6 |")]
    changed = TEXT.replace(row, row.replace("| n/a |", f"| {result} |"))
    assert "1.2.6: names no test, code or document" in list(asvs.find_problems(changed))
