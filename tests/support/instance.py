"""Runs `manilla up` and the `manilla` command as real processes."""

import base64
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from manilla.cli.instance import Running, write_running
from manilla.kit.embedded.postgres import find_binaries
from manilla.settings import Settings
from tests.support import template
from tests.support.client import Site
from tests.support.command import manilla
from tests.support.timeouts import TIMEOUT_SECONDS

MANILLA = [sys.executable, "-m", "manilla"]


class InstanceFolder:
    """An instance's data folder, which the `manilla` command uses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def command(self, *words: str, **environment: str) -> Any:
        run = manilla(*words, "--json", "--data", str(self.folder), **environment)
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)

    def sql(self, statement: str) -> None:
        url = json.loads((self.folder / "instance.json").read_text())["migration_url"]
        subprocess.run([str(find_binaries() / "psql"), url, "-qc", statement], check=True)


def idle_instance(folder: Path, settings: Settings) -> InstanceFolder:
    """Returns an instance that runs only its database, which is sufficient for most commands."""
    folder.mkdir(mode=0o700)
    urls = (settings.base_url, settings.database_url, settings.migration_url)
    write_running(folder, Running(os.getpid(), settings.mode, *urls))
    (folder / "master.key").write_text(base64.b64encode(settings.master_keys[0]).decode())
    return InstanceFolder(folder)


class UpProcess:
    """A `manilla up` process, and the file with its output."""

    def __init__(
        self,
        command: Sequence[str],
        output: Path,
        *,
        environment: Mapping[str, str],
        at: Path | None = None,
    ) -> None:
        self.output = output
        with output.open("wb") as stream:
            self.process = subprocess.Popen(
                command,
                stdout=stream,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=at,
                start_new_session=True,
            )

    def wait(self, seconds: float = TIMEOUT_SECONDS) -> Self:
        deadline = time.monotonic() + seconds
        while "Ctrl-C stops everything" not in self.output.read_text():
            assert self.process.poll() is None, self.output.read_text()
            assert time.monotonic() < deadline, self.output.read_text()
            time.sleep(0.05)
        return self

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(TIMEOUT_SECONDS)


class Instance(InstanceFolder, UpProcess):
    def __init__(
        self,
        folder: Path,
        *options: str,
        port: int | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
        is_first_start: bool = False,
    ) -> None:
        """Prepares the data folder if it does not exist, unless this is the first start."""
        InstanceFolder.__init__(self, folder)
        self.port = port or free_port()
        environment = {**os.environ, **environment}
        if not (is_first_start or folder.exists() or "MANILLA_DATABASE_URL" in environment):
            prepare_folder(folder, *options)
        command = [
            *(*MANILLA, "up", "--port", str(self.port), "--data", str(folder)),
            # The instance has one worker, unless a test needs several.
            *("--workers", "1"),
            "--no-demo-history",  # Only a few tests enable the demo history.
            *options,
        ]
        output = folder.parent / f"{folder.name}.out"
        UpProcess.__init__(self, command, output, environment=environment)

    @property
    def site(self) -> Site:
        return Site(self.port)

    def tree(self) -> list[int]:
        """Returns the process ids of `manilla up` and all its descendants."""
        found, waiting = [], [self.process.pid]
        while waiting:
            pid = waiting.pop()
            found.append(pid)
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                waiting += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return found

    def processes(self, program: str) -> list[int]:
        """Returns the process ids of a program: `serve`, `worker` or `simulator`."""
        return [pid for pid in self.tree() if _runs(pid, program)]

    def postmaster(self) -> int:
        return int((self.folder / "postgres" / "postmaster.pid").read_text().split()[0])


def _runs(pid: int, name: str) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return name.encode() in words


def prepare_folder(folder: Path, *options: str) -> None:
    """Creates a data folder as if an instance had already run in it with these options."""
    if "--no-demo" in options:
        template.copy_migrated(folder)
    else:
        template.copy_with_demo(folder, _start_and_stop)


def _start_and_stop(folder: Path) -> None:
    assert Instance(folder).wait().stop() == 0


_reserved: list[socket.socket] = []


def free_port() -> int:
    """Returns a free port. The next higher port is also free, for the simulator.

    Both ports stay bound until this process ends, so no other test process chooses them. A server
    can still listen on them, because it sets SO_REUSEADDR and this process does not listen.
    """
    while True:
        port = random.randrange(20_000, 32_000, 2)  # Choose a port below the ephemeral port range.
        pair = [socket.socket(), socket.socket()]
        try:
            for number, each in enumerate(pair):
                each.bind(("127.0.0.1", port + number))
        except OSError:
            for each in pair:
                each.close()
        else:
            for each in pair:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _reserved.extend(pair)
            return port
