"""`tools.language` finds discouraged words in texts and names, except in stored names."""

import pytest

from tools import language


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("Mend the file and send it anew.", "fix"),
        ("def go_on(self) -> None:", "continue"),
        ("# The merchant is told.", "notified, returned"),
        ("PAID_BY_HAND = 1", "manually"),
        ("Who was frozen must not send.", "name the actor"),
    ],
)
def test_a_word_to_replace_is_reported_with_its_line_and_advice(line: str, advice: str) -> None:
    first, *_ = language.check("a.md", f"# Title\n{line}\n")
    assert first.startswith("a.md:2: ")
    assert first.endswith(f"write {advice!r}")


@pytest.mark.parametrize(
    "line",
    [
        "SELECT parked_at FROM job",
        "The recommended amendment was commended.",
        "Notify the merchant again.",
    ],
)
def test_stored_names_and_words_that_contain_one_are_accepted(line: str) -> None:
    assert list(language.check("a.md", line)) == []


def test_a_file_without_such_words_is_accepted() -> None:
    assert list(language.check("a.py", '"""Sends a payout once."""\n')) == []
