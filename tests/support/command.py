"""Runs the `manilla` command in a process that is forked from a process with all modules loaded.

Loading the modules takes half a second of CPU time, and the tests run about 300 commands.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from manilla.cli import main
from tests.support.timeouts import TIMEOUT_SECONDS

_processes = multiprocessing.get_context("forkserver")
# Preload two modules that Typer otherwise imports in every command, which takes 0.12 s.
_processes.set_forkserver_preload(
    [
        *sorted({f"manilla.cli.{each.where.partition(':')[0]}" for each in main.COMMANDS.values()}),
        "typer._adapters",
        "pydantic.type_adapter",
    ]
)


def manilla(*words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        process = _processes.Process(
            target=_run_command, args=(words, {**os.environ, **environment}, Path.cwd(), out, err)
        )
        process.start()
        process.join(TIMEOUT_SECONDS)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(words, TIMEOUT_SECONDS)
        return subprocess.CompletedProcess(
            words, process.exitcode, out.read_text(), err.read_text()
        )


def _run_command(
    words: tuple[str, ...], environment: Mapping[str, str], folder: Path, out: Path, err: Path
) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    sys.argv = ["manilla", *words]
    main.main()
