"""Runs a command and prints its wall-clock and CPU time: `python -m tools.measured COMMAND ...`.

The CPU time includes all descendant processes, even those whose parent process ended first.
"""

import contextlib
import ctypes
import os
import resource
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
ORPHAN_SECONDS_MAX = 5


def main() -> None:
    adopt_orphans()
    started = time.monotonic()
    status = subprocess.run(sys.argv[1:], check=False).returncode
    wait_for_orphans()
    print(summary(time.monotonic() - started))
    raise SystemExit(status if status >= 0 else 128 - status)


def adopt_orphans() -> None:
    """Makes this process the parent of orphaned descendants, so that their CPU time is counted."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def wait_for_orphans() -> None:
    """Waits for orphaned processes to end, so that their CPU time is counted.

    The wait ends after ORPHAN_SECONDS_MAX.
    """
    latest = time.monotonic() + ORPHAN_SECONDS_MAX
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < latest:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.05)


def summary(wall_seconds: float) -> str:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    minutes, seconds = divmod(round(wall_seconds), 60)
    return f"{minutes} min {seconds} s, {used.ru_utime + used.ru_stime:.0f} s of CPU time"


if __name__ == "__main__":
    main()
