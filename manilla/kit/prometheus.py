"""Prometheus metrics that all processes on a machine share through files, served at one URL.

When a process has ended, its file is merged into one file for all ended processes. Deleting the
file would decrease the totals, and a counter must never decrease.
"""

import asyncio
import atexit
import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from bisect import bisect_left
from collections import Counter as Counts
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# prometheus-client selects its storage on import, and shares files if this variable is set.
if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(prefix="manilla-metrics-")
    atexit.register(shutil.rmtree, os.environ["PROMETHEUS_MULTIPROC_DIR"], ignore_errors=True)

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
    start_http_server,
    values,
)
from prometheus_client.mmap_dict import MmapedDict

from manilla.kit.errors import Refusal

__all__ = [
    "CONTENT_TYPE",
    "Counter",
    "Histogram",
    "gauge",
    "merge_ended_processes",
    "render",
    "serving",
]

CONTENT_TYPE = CONTENT_TYPE_LATEST
_NAME = re.compile(r"(counter|histogram|gauge_mostrecent)_(\d+)\.db")
MERGED = 0  # replaces the process id in the names of merged files
LOCK = "lock"


class MetricsFile(MmapedDict):
    """A metrics file whose disk space is allocated in advance.

    The library writes to memory that is mapped to a file. If that part of the file has no disk
    space yet and the disk is full, the kernel kills the process. This class raises an OSError
    instead.
    """

    FIRST_BYTES = 64 * 1024
    VALUE_BYTES_MAX = 28  # maximum size in bytes of a stored value, not counting its name

    def __init__(self, filename: str | Path) -> None:
        with Path(filename).open("ab") as file:
            os.posix_fallocate(file.fileno(), 0, self.FIRST_BYTES)
        super().__init__(filename)  # type: ignore[no-untyped-call]

    def _init_value(self, key: str) -> None:
        size = self._capacity
        while self._used + len(key.encode()) + self.VALUE_BYTES_MAX > size:
            size *= 2
        if size > self._capacity:
            os.posix_fallocate(self._f.fileno(), 0, size)
        super()._init_value(key)  # type: ignore[no-untyped-call]


values.MmapedDict = MetricsFile  # type: ignore[attr-defined, assignment]


class RequestTimes:
    """Counts requests and their durations in memory, and regularly adds them to the shared files.

    Writing to the files for each request would have more overhead.
    """

    FLUSH_SECONDS = 0.5

    def __init__(self, requests: Counter, seconds: Histogram) -> None:
        self._requests = requests
        self._seconds = seconds
        self._counts: dict[tuple[str, int], int] = {}
        self._durations: dict[str, list[float]] = {}
        _in_memory.append(self)

    def add(self, endpoint: str, status: int, seconds: float) -> None:
        if not self._counts:
            asyncio.get_running_loop().call_later(self.FLUSH_SECONDS, self.flush)
        key = endpoint, status
        self._counts[key] = self._counts.get(key, 0) + 1
        self._durations.setdefault(endpoint, []).append(seconds)

    def flush(self) -> None:
        counts, self._counts = self._counts, {}
        durations, self._durations = self._durations, {}
        for labels, number in counts.items():
            self._requests.labels(*labels).inc(number)
        for endpoint, seconds in durations.items():
            _observe_all(self._seconds.labels(endpoint), seconds)


_in_memory: list[RequestTimes] = []


def _observe_all(histogram: Any, values: list[float]) -> None:
    """Records many values with only one write per histogram bucket."""
    bounds = histogram._upper_bounds
    in_buckets = Counts(bisect_left(bounds, value) for value in values)
    histogram._sum.inc(sum(values))
    for place, number in in_buckets.items():
        histogram._buckets[place].inc(number)


def gauge(name: str, text: str, *labels: str) -> Gauge:
    """Creates a gauge whose value is the last value that any process has set."""
    return Gauge(name, text, labels, multiprocess_mode="mostrecent")


def merge_ended_processes() -> None:
    folder = Path(os.environ["PROMETHEUS_MULTIPROC_DIR"])
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for file in sorted(folder.glob("*.db")):
            name = _NAME.fullmatch(file.name)
            if name is not None and int(name[2]) != MERGED and not _runs(int(name[2])):
                _merge(file, folder / f"{name[1]}_{MERGED}.db")


def _merge(file: Path, into: Path) -> None:
    merged: Any = MetricsFile(into)
    try:
        counts = list(merged.read_all_values_from_file(file))
        file.unlink()
        for key, value, at, _ in counts:
            before, before_at = merged.read_value(key)
            if not file.name.startswith("gauge"):
                merged.write_value(key, before + value, at)
            elif at >= before_at:
                merged.write_value(key, value, at)
    finally:
        merged.close()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def render() -> bytes:
    for tallies in _in_memory:
        tallies.flush()
    try:
        return _render()
    except FileNotFoundError:  # a starting process has just merged and deleted a file, so retry
        return _render()


def _render() -> bytes:
    return generate_latest(_registry())


def _registry() -> CollectorRegistry:
    """Returns a registry that reads the files of all processes."""
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry


class MetricsPortRefusal(Refusal):
    message = "The metrics cannot be served."


@contextlib.contextmanager
def serving(host: str, port: int) -> Iterator[None]:
    """Serves the metrics in a thread, for a program that has no HTTP port of its own."""
    try:
        server, thread = start_http_server(port, host, _registry())
    except OSError as error:
        text = f"Cannot serve metrics on {host}:{port}: {error.strerror}."
        raise MetricsPortRefusal(text) from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
