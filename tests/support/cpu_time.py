"""The CPU time that each test module takes, including the servers and browsers that it uses."""

import contextlib
import os
from collections.abc import Generator
from pathlib import Path

import pytest

PROPERTY = "cpu_seconds"
_TICKS = os.sysconf("SC_CLK_TCK")

# The CPU time of this test process, and of its descendants, when the last module had ended.
_counted = 0.0


def pytest_collection_finish() -> None:
    """Excludes the time that importing and collecting the tests takes from the first module."""
    global _counted  # noqa: PLW0603
    _counted = _of_tree(os.getpid())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """Reports the CPU time of the module with the result of the module's last test."""
    global _counted  # noqa: PLW0603
    yield
    if nextitem is None or nextitem.path != item.path:
        used = _of_tree(os.getpid())
        # The time of a browser that has ended may be missing, because its helpers are orphans.
        item.user_properties.append((PROPERTY, f"{max(0, used - _counted):.2f}"))
        _counted = used


def _of_tree(root: int) -> float:
    """Returns the seconds that a process, its descendants and its waited-for children used."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended
            # The fields after the name, which is in parentheses and may contain spaces.
            fields = path.read_text().rpartition(")")[2].split()
            pid = int(path.parent.name)
            children.setdefault(int(fields[1]), []).append(pid)
            ticks[pid] = sum(int(each) for each in fields[11:15])
    total, todo = 0, [root]
    while todo:
        pid = todo.pop()
        total += ticks.get(pid, 0)
        todo += children.get(pid, [])
    return total / _TICKS
