"""Crash points: named steps at which a test can kill the process to check that no data is lost.

Crash points are disabled unless `arm` is called, which only happens in development mode. A crash
point kills the process if the armed folder contains a file with the point's name. The crash point
deletes the file first, so that the restarted process does not crash again.
"""

import os
from pathlib import Path

EXIT_CODE = 86

_folder: Path | None = None


def arm(folder: Path) -> None:
    global _folder  # noqa: PLW0603 - each process has one folder
    _folder = folder


def point(name: str) -> None:
    if _folder is None:
        return
    try:
        (_folder / name).unlink()
    except FileNotFoundError:
        return
    os._exit(EXIT_CODE)
