"""Takes the previous release's code from the git history, and runs its processes."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.instance import free_port

RELEASE = re.compile(r"^(\w+) release: \d+\.\d+\.\d+$", re.MULTILINE)
FIRST = (
    # This commit is version 0.1.0, which has no release commit.
    "b11925c3f803fb9da1a382cca696316a1af269ea"
)
STOP_SECONDS = 30
# paths of the packages whose code is in a folder `src`
ADDITIONAL = ("simulator", "clients/python")
REQUIREMENTS = "requirements.txt"
ENVIRONMENT = ".venv"


def previous(project: Path) -> str:
    """Returns the commit of the newest release before the current one."""
    log = _git(project, "log", "--format=%H %s", "HEAD^").stdout.decode()
    found = RELEASE.search(log)
    commit = found.group(1) if found else FIRST
    if _git(project, "cat-file", "-e", f"{commit}^{{commit}}").returncode != 0:
        pytest.skip(f"This clone's history does not contain the previous release ({commit}).")
    return commit


def unpack(project: Path, commit: str, folder: Path) -> Path:
    """Unpacks the release's platform, simulator and client, and installs its dependencies."""
    archive = folder / "release.tar"
    parts = ("manilla", *ADDITIONAL, REQUIREMENTS)
    archive.write_bytes(_git(project, "archive", commit, *parts).stdout)
    code = folder / "release"
    code.mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", code], check=True)
    installer = project / "tools" / "install.py"
    # Install with the base interpreter, because the tests' environment may not contain pip.
    interpreter = Path(sys.base_prefix) / "bin" / "python3"
    command = [interpreter, installer, code / ENVIRONMENT, code / REQUIREMENTS]
    subprocess.run(command, check=True)
    return code


def _git(project: Path, *words: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(["git", *words], cwd=project, capture_output=True, check=False)


class Programs:
    """The command, the API and the worker of one version, which use one database.

    A version without a virtual environment uses the tests' environment.
    """

    def __init__(self, code: Path, folder: Path, environment: dict[str, str]) -> None:
        self._code = code
        own = code / ENVIRONMENT / "bin" / "python"
        self._python = str(own) if own.exists() else sys.executable
        self._log = (folder / f"{code.name}.log").open("ab")
        path = os.pathsep.join(
            str(each) for each in (code, *(code / part / "src" for part in ADDITIONAL))
        )
        self._environment = {**os.environ, **environment, "PYTHONPATH": path}
        self._running: list[subprocess.Popen[bytes]] = []
        self.port = free_port()

    def command(self, *words: str) -> str:
        done = subprocess.run(
            self._line(*words),
            cwd=self._code,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self) -> None:
        for words in (("serve", "--port", str(self.port)), ("worker",)):
            self._running.append(
                subprocess.Popen(
                    self._line(*words),
                    cwd=self._code,
                    env=self._environment,
                    stdout=self._log,
                    stderr=subprocess.STDOUT,
                )
            )

    def stop(self) -> None:
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        ended = [process.wait(STOP_SECONDS) for process in self._running]
        self._running.clear()
        self._log.close()
        assert set(ended) <= {0, -signal.SIGTERM}, ended

    def _line(self, *words: str) -> list[str]:
        return [self._python, "-m", "manilla", *words]
