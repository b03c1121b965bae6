"""Runs the tests under stress: `make test-stress`, or `python -m tools.stress --runs N --seed N`.

Busy loops use CPU time at random moments, random test processes are paused for up to three seconds,
and the tests run in random order. Each run uses a different seed. A test that fails only under
stress depends on the speed of the machine or on the order of the tests.
"""

import argparse
import contextlib
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

STOP_SECONDS_MAX = 3.0
PAUSE_SECONDS_MAX = 1.0  # the maximum time until another process is paused
BUSY_SECONDS_MAX = 20.0
# Each busy loop has idle phases, in which the tests run at full speed.
IDLE_SECONDS_MAX = 10.0


def main() -> None:
    wanted = _arguments()
    first = wanted.seed or random.randrange(1, 1_000_000)
    passed: list[int] = []
    for seed in range(first, first + wanted.runs):
        print(f"Seed {seed}", flush=True)
        if _run(seed, wanted.loops, wanted.arguments):
            print(f"Failed with seed {seed}. Passed before: {passed}")
            raise SystemExit(1)
        passed.append(seed)
    print(f"Passed with the seeds {passed}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.stress")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seed", type=int, help="the first run's seed; each later run adds 1")
    parser.add_argument("--loops", type=int, default=2 * (os.cpu_count() or 1))
    parser.add_argument("arguments", nargs="*", help="arguments for tools.suite, after --")
    return parser.parse_args()


def _run(seed: int, loops: int, arguments: list[str]) -> int:
    command = [sys.executable, "-m", "tools.suite", "--shuffle", str(seed), *arguments]
    with (
        _busy(loops, seed),
        subprocess.Popen(command) as run,
        _stopping(run.pid, random.Random(seed)),
    ):
        return run.wait()


@contextlib.contextmanager
def _busy(loops: int, seed: int) -> Iterator[None]:
    processes = [
        multiprocessing.Process(
            target=_loop, args=(random.Random(f"{seed} {number}"),), daemon=True
        )
        for number in range(loops)
    ]
    for each in processes:
        each.start()
    try:
        yield
    finally:
        for each in processes:
            each.kill()


def _loop(chance: random.Random) -> None:
    while True:
        until = time.monotonic() + chance.uniform(0, BUSY_SECONDS_MAX)
        while time.monotonic() < until:
            pass
        time.sleep(chance.uniform(0, IDLE_SECONDS_MAX))


@contextlib.contextmanager
def _stopping(root: int, chance: random.Random) -> Iterator[None]:
    """Pauses random descendants of the process `root`, one process at a time."""
    ended = threading.Event()
    thread = threading.Thread(target=_stop_some, args=(root, chance, ended))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _stop_some(root: int, chance: random.Random, ended: threading.Event) -> None:
    while not ended.wait(chance.uniform(0, PAUSE_SECONDS_MAX)):
        if descendants := _descendants(root):
            _stop(chance.choice(descendants), chance.uniform(0, STOP_SECONDS_MAX))


def _stop(pid: int, seconds: float) -> None:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state in "TZ":  # Skip a process that has ended, or that a test has stopped on purpose.
            return
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)


def _descendants(root: int) -> list[int]:
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                children = [int(each) for each in (task / "children").read_text().split()]
                found += children
                waiting += children
    return found


if __name__ == "__main__":
    main()
