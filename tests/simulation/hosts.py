"""The second host: an API process and a worker, with their own clock and their own version."""

import contextlib
import os
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

from tests.faults import release
from tests.support.client import Site
from tests.support.instance import MANILLA, free_port
from tests.support.started_program import StartedProgram
from tests.support.waiting import until
from tools import releases

STOP_SECONDS = 60
PROJECT = Path(__file__).parents[2]


class SecondHost:
    """Runs `manilla serve` and `manilla worker`, in this version or in the previous release.

    Nothing restarts these processes when they end, except `start`.
    """

    def __init__(self, folder: Path, data: Path, variables: Mapping[str, str]) -> None:
        self._folder, self._data, self._variables = folder, data, variables
        self._previous = previous_release(folder / "previous")
        self._running: dict[str, StartedProgram] = {}
        self.is_previous = self._previous is not None
        self.port = free_port()

    @property
    def site(self) -> Site:
        return Site(self.port)

    def start(self) -> None:
        """Starts the processes that are not running."""
        for name, options in (("serve", ("--port", str(self.port))), ("worker", ())):
            program = self._running.get(name)
            if program is None or program.process.poll() is not None:
                self._running[name] = self._start(name, *options)

    async def until_ready(self) -> None:
        """Waits until the API process responds. Raises an error if a process has ended."""

        async def is_ready() -> bool:
            for program in self._running.values():
                program.check()
            with contextlib.suppress(OSError, IndexError):
                return (await self.site.send("GET", "/readyz")).status == 200
            return False

        await until(is_ready)

    def _start(self, *words: str) -> StartedProgram:
        path = self._folder / f"second-{words[0]}.log"
        with path.open("ab") as log:
            process = subprocess.Popen(
                [*MANILLA, *words, "--data", str(self._data)],
                stdout=log,
                stderr=subprocess.STDOUT,
                # Python finds the version's own package in the current folder.
                cwd=self._code,
                env={**os.environ, **self._variables, "PYTHONPATH": self._path()},
            )
        return StartedProgram(f"manilla {words[0]} of the second host", process, path)

    @property
    def _code(self) -> Path:
        return self._previous if self._previous is not None and self.is_previous else PROJECT

    def _path(self) -> str:
        parts = (self._code, *(self._code / part / "src" for part in release.ADDITIONAL))
        return os.pathsep.join(map(str, parts))

    def change_version(self) -> bool:
        """Upgrades the host, or rolls it back. Returns False if the old version is unknown."""
        if self._previous is None:
            return False
        self.stop()
        self.is_previous = not self.is_previous
        self.start()
        return True

    def stop(self) -> None:
        """Stops the processes as during an upgrade, and kills those that do not stop."""
        processes = [each.process for each in self._running.values()]
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGTERM)
        for process in processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()

    def processes(self, name: str) -> list[int]:
        program = self._running.get(name)
        is_running = program is not None and program.process.poll() is None
        return [program.process.pid] if program is not None and is_running else []


def previous_release(folder: Path) -> Path | None:
    """Unpacks the previous release, which runs with the current version's dependencies.

    Returns None if this folder is not a git repository with the release.
    """
    commits = list(releases.newest(PROJECT).values())
    if not commits:
        return None
    command = ["git", "archive", commits[0], "manilla", *release.ADDITIONAL]
    archive = subprocess.run(command, cwd=PROJECT, capture_output=True, check=True).stdout
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder
