"""Makes a browser available for the page tests: `python -m tests.browser`.

The system's Chromium where there is one; else Debian's package, where we are root; else
Playwright's own. Where none can be had, the page tests are skipped and say so.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
NO_BROWSER = "no browser: install Chromium to run the page tests"


def find() -> str | None:
    for name in NAMES:
        if path := shutil.which(name):
            return path
    return _playwrights_own()


def _playwrights_own() -> str | None:
    folder = Path(
        os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache/ms-playwright"
    )
    found = sorted(folder.glob("chromium-*/chrome-linux*/chrome"))
    return str(found[-1]) if found else None


def _install() -> None:
    commands: list[list[str]] = []
    if os.geteuid() == 0 and shutil.which("apt-get"):
        commands.append(["apt-get", "update", "-qq"])
        commands.append(["apt-get", "install", "-qq", "--no-install-recommends", "chromium"])
    else:
        commands.append([sys.executable, "-m", "playwright", "install", "chromium"])
    for command in commands:
        print("$", *command, flush=True)
        subprocess.run(
            command,
            check=False,
            stdout=subprocess.DEVNULL,
            timeout=600,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        )


def main() -> None:
    if find() is None:
        _install()
    print("Browser for the page tests:", find() or NO_BROWSER)


if __name__ == "__main__":
    main()
