"""Runs the checks and the tests in parallel: `make test`, `make test-all`.

Usage: `python -m tools.suite [--all] [--processes N] [PYTEST ARGUMENTS]`. Prints the failures, the
ten modules with the most CPU time, the modules whose CPU time has grown, and the total wall-clock
and CPU time.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.support import ordering
from tools import measured

REPORT = Path(".reports/tests.xml")
MODULES_PRINTED = 10

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
    ["-m", "tools.woocommerce"],
)


def main() -> None:
    wanted, pytest_arguments = _arguments()
    measured.adopt_orphans()
    started = time.monotonic()
    for check in QUICK_CHECKS:
        if subprocess.run([sys.executable, *check], check=False).returncode:
            raise SystemExit(1)
    with ThreadPoolExecutor(1) as beside:
        checks = beside.submit(_checks)
        tests = subprocess.run(_pytest(wanted, pytest_arguments), check=False).returncode
        failed = _printed(checks)
    measured.wait_for_orphans()
    _print_modules(ordering.durations(REPORT), is_complete=not (wanted.all or pytest_arguments))
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


class Check(NamedTuple):
    command: str
    output: str
    status: int
    cpu_seconds: float


def _checks() -> list[Check]:
    return [_check(arguments) for arguments in CHECKS]


def _check(arguments: list[str]) -> Check:
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen([sys.executable, *arguments], stdout=output, stderr=output)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        seconds = used.ru_utime + used.ru_stime
        return Check(" ".join(arguments), output.read(), process.returncode, seconds)


def _printed(checks: "Future[list[Check]]") -> bool:
    """Prints the output of the failed checks, and returns whether there are any."""
    failed = [check for check in checks.result() if check.status]
    for check in failed:
        print("\nA check failed:", check.command, check.output, sep="\n")
    seconds = sum(check.cpu_seconds for check in checks.result())
    result = f"{len(failed)} failed" if failed else "all passed"
    print(f"Checks: {result}, {seconds:.0f} s of CPU time")
    return bool(failed)


def _print_modules(modules: dict[str, ordering.Used], *, is_complete: bool) -> None:
    most = sorted(modules.items(), key=lambda each: -each[1].cpu_seconds)[:MODULES_PRINTED]
    print(f"The {MODULES_PRINTED} modules with the most CPU time:")
    for module, used in most:
        print(f"  {used.cpu_seconds:6.1f} s of CPU, {used.seconds:6.1f} s  {module}")
    if is_complete:
        for module, growth in ordering.grown(modules, ordering.recorded()).items():
            print(f"Grown by {growth - 1:.0%} since the CPU time was recorded: {module}")


if __name__ == "__main__":
    main()
