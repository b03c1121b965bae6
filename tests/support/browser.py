"""Finds or installs a browser for the page tests: `python -m tests.support.browser`.

When run as root, it installs Debian's headless Chromium, which needs only a third of the CPU time.
Otherwise it uses the system's Chromium, or the Chromium that Playwright downloads. If there is no
browser, the page tests are skipped with a message.
"""

import os
import shutil
import sys
from pathlib import Path

from tests.support import packages

WITHOUT_WINDOW = "chromium-headless-shell"
NAMES = (WITHOUT_WINDOW, "chromium", "chromium-browser", "google-chrome")
NO_BROWSER = f"no browser; Debian's package is {WITHOUT_WINDOW}"


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
    packages.install(WITHOUT_WINDOW)
    if find() is None:
        packages.run([sys.executable, "-m", "playwright", "install", "chromium"])


def main() -> None:
    if not shutil.which(WITHOUT_WINDOW):
        _install()
    print("Browser for the page tests:", find() or NO_BROWSER)


if __name__ == "__main__":
    main()
