"""Runs the tests of changed code: `make changed`, or `python -m tools.changed [BASE]`.

Code has changed if it differs from the commit BASE (default: HEAD), committed or not. If a test
file has changed, its tests run. If a package has changed, the test folders that TESTS lists for it
run, by default the folder with the package's name. `make test` runs the tests of all packages.
"""

import subprocess
import sys
from pathlib import Path

# Maps each package to its test folders, if they are not named like the package.
TESTS = {
    "manilla/sql": ("tests/sql", "tests/ledger", "tests/payments", "tests/payouts"),
    "manilla/methods": ("tests/test_fees.py", "tests/payouts", "tests/payments"),
    "manilla/beneficiaries": ("tests/payouts/beneficiaries", "tests/payouts/test_nuban.py"),
    "manilla/routing": ("tests/payouts/routing",),
    "manilla/transfers": ("tests/payouts", "tests/refunds"),
    "manilla/platform": ("tests/cli", "tests/api"),
    "manilla/approvals": ("tests/audit", "tests/console"),
    "clients/python": ("tests/client_library", "tests/samples", "tests/contract"),
    "clients/typescript": ("tests/contract", "tests/samples"),
    "clients/contract": ("tests/contract", "tests/api/test_vectors.py"),
    "clients/php": ("tests/client_library", "tests/contract", "tests/samples"),
    "plugins/woocommerce": ("tests/woocommerce",),
    "simulator/src": ("tests/simulator", "tests/providers"),
    "bench": ("tests/bench",),
    "docs/samples": ("tests/samples",),
    "docs": ("tests/operating", "tests/reference/test_pages.py"),
    "deploy": ("tests/operating",),
}


def main() -> None:
    paths = sorted({test for name in _changed(sys.argv[1:]) for test in _tests(name)})
    if not paths:
        print("No tests belong to the changed files.")
        return
    print("Tests:", *paths, flush=True)
    command = [sys.executable, "-m", "pytest", *paths]
    raise SystemExit(subprocess.run(command, check=False).returncode)


def _changed(words: list[str]) -> list[str]:
    base = words[0] if words else "HEAD"
    changed = _git("diff", "--name-only", base) + _git("ls-files", "-o", "--exclude-standard")
    return changed.splitlines()


def _tests(name: str) -> list[str]:
    path = Path(name)
    if path.parts[0] == "tests" and path.name.startswith("test_"):
        found = [name]
    else:
        package = "/".join(path.parts[:2])
        default = f"tests/{path.parts[1]}" if len(path.parts) > 1 else ""
        found = list(TESTS.get(package) or TESTS.get(path.parts[0]) or [default])
    return [each for each in found if each and Path(each).exists()]


def _git(*words: str) -> str:
    return subprocess.check_output(["git", *words], text=True)


if __name__ == "__main__":
    main()
