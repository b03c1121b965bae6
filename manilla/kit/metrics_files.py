"""Merges the metrics files of ended processes into one.

Deleting them instead would decrease the totals, and a counter must never decrease.
"""

import fcntl
import os
import re
from pathlib import Path
from typing import Any

from prometheus_client.mmap_dict import MmapedDict

_NAME = re.compile(r"(counter|histogram|gauge_mostrecent)_(\d+)\.db")
_Counts: Any = MmapedDict  # the library has no type annotations
MERGED = 0  # stands in for the process id in file names
LOCK = "lock"


def merge_ended(folder: Path) -> None:
    with (folder / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for file in sorted(folder.glob("*.db")):
            name = _NAME.fullmatch(file.name)
            if name is not None and int(name[2]) != MERGED and not _runs(int(name[2])):
                _merge(file, folder / f"{name[1]}_{MERGED}.db")


def _merge(file: Path, into: Path) -> None:
    counts = list(_Counts.read_all_values_from_file(file))
    file.unlink()
    merged = _Counts(into)
    try:
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
