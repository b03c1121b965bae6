"""Three database hosts on this machine, each with its own network, processes and disk.

The whole program runs in its own network, mount and PID namespaces (`isolated`). Nothing that it
listens on or mounts is visible outside, and all its processes end with it. Each host is a network
namespace that is connected to a private bridge.
"""

import contextlib
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from manilla.kit.embedded import postgres
from manilla.kit.embedded.process import SystemAccount
from tests.support.started_program import StartedProgram

# Inside the namespaces, a temporary file system hides the real /opt.
ROOT = Path("/opt")
DISK = "1g"
SPARE_BYTES = 64 * 1024
PATRONI = ROOT / "patroni"
PYTHON = ROOT / "python"
ETCD = ROOT / "etcd"
TOOLS = ("unshare", "nsenter", "setpriv", "mount", "ip")
NAMESPACES = ("--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
# A shell is the first process, because it also collects the exit status of orphaned processes.
INIT = ("sh", "-c", '"$@"; exit $?', "sh")


def isolated(*command: str) -> list[str]:
    """Returns a command that runs `command` in new namespaces."""
    # A process cannot see the processes outside its PID namespace. It would delete their metrics.
    own_metrics = ("env", "--unset=PROMETHEUS_MULTIPROC_DIR")
    return [*own_metrics, "unshare", *NAMESPACES, *INIT, *command]


def account() -> SystemAccount:
    found = postgres.server_account(ROOT / "none")
    assert found is not None, "only root can create hosts"
    return found


class Host:
    def __init__(self, number: int) -> None:
        self.name = f"db{number}"
        self.address = f"10.64.0.1{number}"
        self.folder = ROOT / self.name
        self.data = self.folder / "data"
        self._fill = self.folder / "fill"
        self._namespace = Path("/run/netns") / self.name
        self._started: list[StartedProgram] = []

    def create(self) -> None:
        name = self.name
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        _run("ip", "link", "set", name, "master", "cluster", "up")
        _run("ip", "-n", name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _run("ip", "-n", name, "link", "set", device, "up")
        self.folder.mkdir()
        _mount_disk(self.folder, DISK)
        os.chown(self.folder, account().uid, account().gid)

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        folder: Path | None = None,
    ) -> StartedProgram:
        """Starts a program in the folder, or in the host's own folder."""
        run_as = account()
        words = [
            *("nsenter", f"--net={self._namespace}", "setpriv", "--clear-groups"),
            *("--reuid", str(run_as.uid), "--regid", str(run_as.gid), *command),
        ]
        with log.open("ab") as output:
            process = subprocess.Popen(
                words,
                cwd=folder or self.folder,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **environment},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        program = StartedProgram(log.stem, process, log)
        self._started.append(program)
        return program

    def check(self) -> None:
        """Raises an error if a program has ended that nobody has killed."""
        for program in self._started:
            program.check()

    def send_signal(self, number: int, *programs: str) -> None:
        """Sends a signal to the host's processes, or only to those of the named programs."""
        sent: set[int] = set()
        # Repeat, because a process may have started another one in the meantime.
        while found := set(self._pids(programs)) - sent:
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            sent |= found
        if number == signal.SIGKILL:
            self._started = [each for each in self._started if not _is_killed(each, sent)]

    def kill_postmaster(self) -> None:
        pid = int((self.data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)

    def _pids(self, programs: Sequence[str]) -> list[int]:
        network = self._namespace.stat().st_ino
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes()
                is_named = any(name.encode() in words for name in programs)
                if (process / "ns/net").stat().st_ino == network and (is_named or not programs):
                    found.append(int(process.name))
        return found

    def disconnect(self) -> None:
        """Drops every packet from and to the host, without closing any connection."""
        _run("ip", "link", "set", self.name, "nomaster")

    def connect(self) -> None:
        _run("ip", "link", "set", self.name, "master", "cluster")

    def isolate(self, *, is_isolated: bool = True) -> None:
        """Drops the packets between isolated hosts. This program still reaches all hosts."""
        state = "on" if is_isolated else "off"
        _run("bridge", "link", "set", "dev", self.name, "isolated", state)

    def fill_disk(self) -> None:
        with self._fill.open("wb") as fill:
            while True:
                state = os.statvfs(self.folder)
                free_bytes = state.f_bavail * state.f_frsize
                try:
                    os.posix_fallocate(fill.fileno(), 0, max(1, free_bytes - SPARE_BYTES))
                except OSError as error:
                    # PostgreSQL may write to the disk after its free space was read.
                    if error.errno != errno.ENOSPC:
                        raise
                else:
                    return

    def free_disk(self) -> None:
        self._fill.unlink()


def create_network(hosts: Sequence[Host]) -> None:
    """Creates the private network and the hosts. This program has the address 10.64.0.1."""
    _run("ip", "link", "set", "lo", "up")
    _run("ip", "link", "add", "cluster", "type", "bridge")
    _run("ip", "addr", "add", "10.64.0.1/24", "dev", "cluster")
    _run("ip", "link", "set", "cluster", "up")
    Path("/run/netns").mkdir(exist_ok=True)
    for folder in (ROOT, Path("/run/netns")):
        _mount_disk(folder, DISK)
    for host in hosts:
        host.create()


def create_hosts(patroni: Path, etcd: Path) -> list[Host]:
    """Creates the private network and its hosts.

    `patroni` is Patroni's virtual environment, and `etcd` the program.
    """
    hosts = [Host(number) for number in (1, 2, 3)]
    create_network(hosts)
    # The account that runs PostgreSQL may not have access to these files and their parents.
    python = (patroni / "bin" / "python").resolve().parents[1]
    for source, target in ((etcd, ETCD), (patroni, PATRONI)):
        _run("cp", "--recursive", "--no-dereference", str(source), str(target))
        _run("chmod", "--recursive", "a+rX", str(target))
    PYTHON.mkdir()
    _run("mount", "--bind", str(python), str(PYTHON))
    names = ROOT / "hosts"
    lines = ["127.0.0.1 localhost", *(f"{host.address} {host.name}" for host in hosts)]
    names.write_text("\n".join(lines) + "\n")
    _run("mount", "--bind", str(names), "/etc/hosts")
    return hosts


def _mount_disk(folder: Path, size: str) -> None:
    _run("mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(folder))


def _is_killed(program: StartedProgram, killed: set[int]) -> bool:
    if program.process.pid not in killed:
        return False
    program.process.wait()
    return True


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
