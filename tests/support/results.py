"""Stores the results of long runs, and measures whether the machine stopped a run."""

import asyncio
import bisect
import contextlib
import itertools
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

# If this process itself is stopped for longer than this, its measurements mean nothing.
STALL_SECONDS = 5.0
LOOK_SECONDS = 0.1


def write(result: msgspec.Struct, file: Path) -> None:
    file.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")


def version_of(*command: str | Path) -> str:
    """Returns the version in the first line that the command prints."""
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return next(word for word in output.splitlines()[0].split() if word[0].isdigit())


def longest_gap(moments: Sequence[float], start: float, end: float) -> float:
    """Returns the longest time between two of these sorted moments, from start to end."""
    places = bisect.bisect_left(moments, start), bisect.bisect_right(moments, end)
    found = [start, *moments[slice(*places)], end]
    return max(after - before for before, after in itertools.pairwise(found))


@contextlib.asynccontextmanager
async def noting_stalls(stalls: list[float]) -> AsyncIterator[None]:
    """Adds the monotonic time to the list whenever this process was stopped and continues."""

    async def watch() -> None:
        before = time.monotonic()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = time.monotonic()
            if now - before > STALL_SECONDS:
                stalls.append(now)
            before = now

    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()
