"""Crash points: named steps at which a process can be made to die, to prove that nothing is lost.

Off unless the wiring arms them, which it does in development mode alone. A point fires when a file
of its name lies in the armed folder, and takes the file away first: the process that is started in
its place lives.
"""

import os
from pathlib import Path

EXIT_CODE = 86

_folder: Path | None = None


def arm(folder: Path) -> None:
    global _folder  # noqa: PLW0603 - of a process there is one
    _folder = folder


def point(name: str) -> None:
    if _folder is None:
        return
    try:
        (_folder / name).unlink()
    except FileNotFoundError:
        return
    os._exit(EXIT_CODE)
