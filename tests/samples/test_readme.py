"""The README's programs are those of the clients' READMEs, which the contract tests run."""

import re
from pathlib import Path

import pytest

from tests.support.invariants import ALL


@pytest.mark.parametrize(
    ("client", "language"), [("python", "python"), ("typescript", "ts"), ("php", "php")]
)
def test_the_readme_has_the_tested_program(project: Path, client: str, language: str) -> None:
    [shown] = programs(project / "README.md", language)
    assert shown == programs(project / "clients" / client / "README.md", language)[0]


def test_the_documentation_page_has_programs_of_the_readmes(project: Path) -> None:
    page = project / "manilla/reference/templates/pages/clients.html"
    shown = re.findall(r"{% raw %}(.*?){% endraw %}", page.read_text(), re.DOTALL)
    readmes = (project / "clients").glob("*/README.md")
    written = [text for readme in readmes for text in programs(readme, "[a-z]+")]
    assert len(shown) == 9
    assert [text for text in shown if not any(text.strip() in each for each in written)] == []


def programs(document: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", document.read_text(), re.DOTALL)


def test_the_readme_shows_real_lines_of_the_ledger_check(project: Path) -> None:
    shown = re.findall(r"^ *ok  0 +(.+)$", (project / "README.md").read_text(), re.MULTILINE)
    known = [invariant.promise for invariant in ALL]
    assert shown
    assert [line for line in shown if line not in known] == []
