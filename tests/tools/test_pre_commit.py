"""The checks before each commit are those of `make check`."""

import re
from pathlib import Path


def test_every_step_of_make_check_runs_before_a_commit(project: Path) -> None:
    [steps] = re.findall(
        r"^check:.*\n((?:\t.*\n)+)", (project / "Makefile").read_text(), re.MULTILINE
    )
    wanted = re.findall(r"(?:RUN\)|BIN\)/python) (\S+)", steps)
    hooks = (project / ".pre-commit-config.yaml").read_text()
    names = {name.rpartition("/")[2] for name in wanted}
    assert {"ruff", "mypy", "lint-imports", "tools.migrations"} <= names
    assert [
        name for name in sorted(names) if not re.search(rf"[ /]{re.escape(name)}\b", hooks)
    ] == []
