"""The calendar clocks of the simulated hosts.

`clock.c` is preloaded into all processes of a host, and adds an offset to their calendar clock. The
offset is in a file, so that the simulation can change it at any time. Timeouts use the monotonic
clock, which does not change. Without a C compiler, the simulation runs without clock faults.
"""

import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")
VARIABLE = "MANILLA_SIMULATION_CLOCKS"
# The simulation itself and the first host use the first clock.
FIRST, SECOND, DATABASE = "first", "second", "database"
HOSTS = (FIRST, SECOND, DATABASE)


class Clocks:
    """The offsets of all hosts."""

    def __init__(self) -> None:
        folder = os.environ.get(VARIABLE)
        self._folder = Path(folder) if folder else None
        self._passed = 0  # how many seconds have passed in addition to the real time
        self._wrong = dict.fromkeys(HOSTS, 0)  # how many seconds each host's clock is fast
        self._write()

    @property
    def can_change(self) -> bool:
        return self._folder is not None

    def variables(self, host: str) -> dict[str, str]:
        """Returns the environment variables for the processes of a host."""
        return {} if self._folder is None else _variables(self._folder, host)

    def jump(self, seconds: int) -> bool:
        """Lets time pass on all hosts. Returns False if no clock can be changed."""
        self._passed += seconds
        self._write()
        return self.can_change

    def skew(self, host: str, seconds: int) -> bool:
        """Makes the clock of one host fast or slow, compared with the other hosts."""
        self._wrong[host] = seconds
        self._write()
        return self.can_change

    def _write(self) -> None:
        if self._folder is not None:
            for host, wrong in self._wrong.items():
                _write(self._folder / host, self._passed + wrong)


def start_again_with_clocks() -> None:
    """Starts this program again with the first clock, if a C compiler is installed."""
    compiler = shutil.which("cc")
    if VARIABLE in os.environ or compiler is None:
        return
    folder = Path(tempfile.mkdtemp(prefix="manilla-clocks-"))
    folder.chmod(0o755)  # PostgreSQL runs as another user.
    library = str(folder / "clock.so")
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", library, str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    for host in HOSTS:
        _write(folder / host, 0)
    variables = {**os.environ, VARIABLE: str(folder), **_variables(folder, FIRST)}
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], variables)


def remove() -> None:
    """Removes the clocks' files at the end of the program."""
    if folder := os.environ.get(VARIABLE):
        shutil.rmtree(folder, ignore_errors=True)


def _variables(folder: Path, host: str) -> dict[str, str]:
    return {"LD_PRELOAD": str(folder / "clock.so"), "MANILLA_CLOCK": str(folder / host)}


def _write(file: Path, seconds: int) -> None:
    """Changes the offset in place, because processes have mapped the file into their memory."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT, 0o644), "wb") as clock:
        clock.write(struct.pack("q", seconds))
