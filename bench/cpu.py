"""Reads the CPU time and memory of processes from /proc."""

import os
import time
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
NANOSECONDS = 1_000_000_000
READ_TRIES = 20


def of_program(pid: int) -> float:
    """Returns the CPU seconds that a process and its running children have used so far."""
    return sum(of_process(each) for each in (pid, *children(pid)))


def of_process(pid: int) -> float:
    """Returns the CPU seconds that a process has used so far.

    Reads the scheduler's counter if the kernel has one. `stat` counts in hundredths of a second,
    which is too coarse for a database backend in a short block.
    """
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / NANOSECONDS
    except FileNotFoundError:
        user, system, _, _ = _times(pid)
        return user + system


def of_server(postmaster: int) -> float:
    """Returns a PostgreSQL server's CPU seconds, including children that have ended.

    When a child ends, the kernel adds its CPU time to the parent, so no CPU time is lost. A child
    that ends while /proc is read would be missed or counted twice, so the reading is repeated.
    """
    for _ in range(READ_TRIES):
        family, ended = children(postmaster), _of_ended_children(postmaster)
        try:
            living = sum(of_process(pid) for pid in (postmaster, *family))
        except (FileNotFoundError, ProcessLookupError):
            continue
        if (family, ended) == (children(postmaster), _of_ended_children(postmaster)):
            return living + ended
    raise RuntimeError("The server's processes start and end too fast to be measured.")


def children(parent: int) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if int(_fields(int(folder.name))[1]) == parent:
                    found.append(int(folder.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return sorted(found)


def pin(pid: int, number: int = 1) -> None:
    """Pins a process and its children to the first CPUs, which are the same for all contenders.

    CPUs are rarely equally fast. For example, a virtual machine's CPU can be half as fast while
    another virtual machine on the same host is busy.
    """
    first = sorted(os.sched_getaffinity(0))[:number]
    for each in (pid, *children(pid)):
        for task in Path(f"/proc/{each}/task").iterdir():
            os.sched_setaffinity(int(task.name), first)


def busy_share(seconds: float) -> float:
    """Returns the share of the machine's CPU time that is not idle."""
    before = _machine_ticks()
    time.sleep(seconds)
    total, idle = (end - begin for begin, end in zip(before, _machine_ticks(), strict=True))
    return 1 - idle / total if total else 0.0


def _machine_ticks() -> tuple[int, int]:
    """Returns the total and the idle CPU ticks so far."""
    ticks = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks), ticks[3] + ticks[4]


def resident_bytes(pid: int) -> int:
    """Returns the resident memory of a process and its children, including shared pages."""
    return sum(_memory(each, "Rss:") for each in (pid, *children(pid)))


def proportional_bytes(pid: int) -> int:
    """Returns the memory with shared pages divided among their users, so that sums are right."""
    return _memory(pid, "Pss:")


def _memory(pid: int, name: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0  # the process has ended since its id was read
    for line in lines:
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


def _of_ended_children(pid: int) -> float:
    _, _, user, system = _times(pid)
    return user + system


def _times(pid: int) -> tuple[float, float, float, float]:
    """Returns the user and system seconds of a process and of its children that have ended."""
    user, system, children_user, children_system = (
        int(text) / TICKS_PER_SECOND for text in _fields(pid)[11:15]
    )
    return user, system, children_user, children_system


def _fields(pid: int) -> list[str]:
    """Returns the fields of `stat` after the process name, which may contain spaces."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
