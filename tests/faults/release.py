"""Takes an earlier release's code from the git history, and runs its processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.instance import free_port
from tools import releases

STOP_SECONDS = 30
# paths of the packages whose code is in a folder `src`
ADDITIONAL = ("simulator", "clients/python")
REQUIREMENTS = "requirements.txt"
ENVIRONMENT = ".venv"


def find(project: Path, age: int) -> str:
    """Returns the commit of the previous release (age 1), or of the one before it (age 2)."""
    commits = list(releases.newest(project).values())
    if len(commits) < age:
        pytest.skip(f"This clone's history contains fewer than {age} releases.")
    return commits[age - 1]


def unpack(
    project: Path, commit: str, folder: Path, *more: str, requirements: str = REQUIREMENTS
) -> Path:
    """Unpacks the release's platform, simulator and client, and installs its dependencies.

    `more`: further files and folders of the release.
    """
    archive = folder / "release.tar"
    command = ["git", "archive", commit, "manilla", *ADDITIONAL, requirements, *more]
    archive.write_bytes(subprocess.check_output(command, cwd=project))
    code = folder / "release"
    code.mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", code], check=True)
    installer = project / "tools" / "install.py"
    # Install with the base interpreter, because the tests' environment may not contain pip.
    interpreter = Path(sys.base_prefix) / "bin" / "python3"
    install = [interpreter, installer, code / ENVIRONMENT, code / requirements]
    subprocess.run(install, check=True)
    return code


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
