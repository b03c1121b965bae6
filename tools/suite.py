"""Runs the checks and the tests in parallel: `make test`, `make test-all`.

Usage: `python -m tools.suite [--all] [--processes N] [PYTEST ARGUMENTS]`. Prints the failures, the
ten slowest test modules, and the total wall-clock and CPU time.
"""

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from tests.ordering import durations
from tools import measured

REPORT = Path(".reports/tests.xml")
SLOWEST = 10

# These checks take about a second and fail most often, so they run before the tests.
QUICK_CHECKS = (["-m", "ruff", "format", "--check", "."], ["-m", "ruff", "check", "."])
CHECKS = (
    ["-m", "mypy"],
    [str(Path(sys.executable).with_name("lint-imports"))],
    ["-m", "tools.structure"],
    ["-m", "tools.language"],
    ["-m", "tools.package_map", "--check"],
    ["-m", "tools.typescript", "--check"],
    ["-m", "tools.php_client", "--check"],
)


def main() -> None:
    wanted, pytest_arguments = _arguments()
    measured.adopt_orphans()
    started = time.monotonic()
    for check in QUICK_CHECKS:
        if subprocess.run([sys.executable, *check], check=False).returncode:
            raise SystemExit(1)
    with ThreadPoolExecutor(1) as beside:
        checks = beside.submit(_failed_checks)
        tests = subprocess.run(_pytest(wanted, pytest_arguments), check=False).returncode
        failed = _printed(checks)
    measured.wait_for_orphans()
    _print_slowest()
    print(measured.summary(time.monotonic() - started))
    raise SystemExit(tests or int(failed))


def _arguments() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(prog="python -m tools.suite")
    parser.add_argument("--all", action="store_true", help="also run tests marked as long")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    return parser.parse_known_args()


def _pytest(wanted: argparse.Namespace, arguments: list[str]) -> list[str]:
    REPORT.parent.mkdir(exist_ok=True)
    return [
        *(sys.executable, "-m", "pytest", "-n", str(wanted.processes)),
        *("--dist", "loadscope", "--no-loadscope-reorder", "-r", "s", f"--junitxml={REPORT}"),
        *([] if wanted.all else ["-m", "not long"]),
        *arguments,
    ]


def _failed_checks() -> list[str]:
    failed = []
    for check in CHECKS:
        done = subprocess.run([sys.executable, *check], check=False, capture_output=True, text=True)
        if done.returncode:
            failed.append(f"{' '.join(check)}\n{done.stdout}{done.stderr}")
    return failed


def _printed(checks: "Future[list[str]]") -> bool:
    failed = checks.result()
    for output in failed:
        print("\nA check failed:", output)
    print("Checks:", f"{len(failed)} failed" if failed else "all passed")
    return bool(failed)


def _print_slowest() -> None:
    print(f"The {SLOWEST} slowest modules:")
    for module, seconds in list(durations(REPORT).items())[:SLOWEST]:
        print(f"  {seconds:6.1f} s  {module}")


if __name__ == "__main__":
    main()
