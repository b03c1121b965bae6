"""The order of the test modules, and the recorded durations that determine the order."""

import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

from tests.support import ordering
from tests.support.ordering import Used

REPORT = """
<testsuites><testsuite>
  <testcase classname="tests.kit.test_money" name="one" time="0.5"/>
  <testcase classname="tests.kit.test_ids" name="two" time="2.0"/>
  <testcase classname="tests.kit.test_money" name="three" time="0.75">
    <properties><property name="cpu_seconds" value="0.4"/></properties>
  </testcase>
</testsuite></testsuites>"""


def _items(*names: str) -> list[Any]:
    return [Mock(nodeid=f"tests/{name[0]}.py::{name}") for name in names]


def test_a_shuffle_depends_on_its_seed_and_keeps_modules_together() -> None:
    names = [f"{module}{number}" for module in "abcdef" for number in range(5)]
    orders = []
    for seed in ("1", "1", "2"):
        items = _items(*names)
        ordering.shuffle(items, seed)
        orders.append([item.nodeid for item in items])
        modules = [item.nodeid.partition("::")[0] for item in items]
        assert [modules[start] for start in range(0, 30, 5)] == list(dict.fromkeys(modules))
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])


def test_the_durations_of_a_modules_tests_are_added(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    assert list(ordering.durations(report).items()) == [
        ("tests/kit/test_ids.py", (2.0, 0)),
        ("tests/kit/test_money.py", (1.25, 0.4)),
    ]


def test_a_modules_growth_is_found_on_a_slower_machine() -> None:
    before = {name: Used(1, 2) for name in "abcd"}
    now = {name: Used(1, 4) for name in "abc"} | {"d": Used(1, 8), "new": Used(1, 9)}
    assert ordering.grown(now, before) == {"d": 2}


def test_the_cpu_time_of_a_module_includes_its_child_processes(tmp_path: Path) -> None:
    busy = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"
    module = tmp_path / "test_busy.py"
    module.write_text(
        "import subprocess, sys\n"
        f"def test_child(): subprocess.run([sys.executable, '-c', {busy!r}])\n"
    )
    report = tmp_path / "report.xml"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "tests.support.cpu_time",
            module,
            f"--junitxml={report}",
        ],
        check=True,
        capture_output=True,
    )
    [used] = ordering.durations(report).values()
    assert used.cpu_seconds >= 0.5


def test_the_cpu_time_of_orphans_is_counted() -> None:
    busy = "import time; end = time.process_time() + 1.5\nwhile time.process_time() < end: pass"
    orphan = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {busy!r}])"
    # The shell waits for the orphan by reading from a pipe that the orphan keeps open.
    script = '"$0" -c "$1" | cat'
    run = subprocess.run(
        [sys.executable, "-m", "tools.measured", "sh", "-c", script, sys.executable, orphan],
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = int(run.stdout.split(", ")[1].split(" s")[0])
    assert seconds >= 1
