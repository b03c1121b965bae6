"""Runs the command `manilla-client` in this process, with a separate home folder.

A new process would need a fifth of a second of CPU time to load its modules.
"""

import contextlib
import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO
from unittest import mock

from manilla_client.command import main

from tests.support.timeouts import TIMEOUT_SECONDS

# Tests start this command in a process to send signals or to attach a terminal.
TOOL = [sys.executable, "-m", "manilla_client"]


def environment(home: Path, **variables: str) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("MANILLA_")}
    places = {"XDG_CONFIG_HOME": str(home / "config"), "XDG_STATE_HOME": str(home / "state")}
    return {**ours, "HOME": str(home), **places, **variables}


def tool(
    home: Path, *words: str, input: str = "", **variables: str
) -> "subprocess.CompletedProcess[str]":
    with (
        mock.patch.dict(os.environ, environment(home, **variables), clear=True),
        mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(input.encode()), encoding="utf-8")),
        _captured("stdout") as out,
        _captured("stderr") as err,
    ):
        try:
            code = main(words)
        except SystemExit as ended:
            code = int(ended.code or 0)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def process(home: Path, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Runs `listen` in a separate process, because `listen` replaces signal handlers."""
    return subprocess.run(
        [*TOOL, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=environment(home, **variables),
        timeout=TIMEOUT_SECONDS,
    )


class _OfThread(io.TextIOBase):
    """Writes the output of one thread to a buffer, and the output of all other threads as usual."""

    def __init__(self, own: TextIO, others: TextIO) -> None:
        self._thread = threading.get_ident()
        self._own, self._others = own, others

    def write(self, text: str) -> int:
        is_own = threading.get_ident() == self._thread
        return (self._own if is_own else self._others).write(text)


@contextlib.contextmanager
def _captured(name: str) -> Iterator[io.StringIO]:
    own = io.StringIO()
    with mock.patch.object(sys, name, _OfThread(own, getattr(sys, name))):
        yield own


def variables(port: int, merchant_key: str, api_key: str, api_secret: str) -> dict[str, str]:
    return {
        "MANILLA_URL": f"http://127.0.0.1:{port}",
        "MANILLA_MERCHANT_KEY": merchant_key,
        "MANILLA_API_KEY": api_key,
        "MANILLA_API_SECRET": api_secret,
    }
