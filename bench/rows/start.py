"""Measures how fast `manilla up` starts on existing data, and how much memory its processes use."""

import asyncio
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench import cpu
from bench.comparisons import detail
from bench.frame import PRODUCT, Contender, Row, Target, Work
from bench.stage import Stage, answers

STARTS = 3
SETTLE_SECONDS = 5.0  # time for the worker, which starts last, to become idle
MEBIBYTE = 1024 * 1024
MANILLA = (sys.executable, "-m", "manilla")
TARGETS = {
    "seconds until ready": 2.5,
    "CPU seconds until ready": None,
    "API process, resident MiB": 70,
    "API process, proportional MiB": None,
    "worker, resident MiB": 60,
    "worker, proportional MiB": None,
    "CPU seconds of --help": 0.3,
}


@asynccontextmanager
async def opened(stage: Stage) -> AsyncIterator[Row]:
    folder = stage.server.folder / "start"
    await _start(folder)  # creates the database; this start is not measured

    async def run(_seconds: float) -> Work:
        began = time.monotonic()
        found = [{**await _start(folder), **await _help()} for _ in range(STARTS)]
        typical = {name: statistics.median(each[name] for each in found) for name in TARGETS}
        return Work(STARTS, time.monotonic() - began, typical)

    yield Row(
        name="start",
        title="`manilla up` on existing data",
        contenders=[Contender(PRODUCT, run, None)],
        comparisons=[
            detail(name, PRODUCT, None if bound is None else Target(bound, at_most=True))
            for name, bound in TARGETS.items()
        ],
        once=True,
    )


async def _start(folder: Path) -> dict[str, float]:
    words = ("up", "--port", "0", "--data", str(folder), "--no-demo-history", "--workers", "1")
    own = {name: value for name, value in os.environ.items() if not name.startswith("MANILLA_")}
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *(*MANILLA, *words, "--follow-parent", "--json"), stdout=asyncio.subprocess.PIPE, env=own
    )
    try:
        assert process.stdout is not None
        port = int(json.loads(await process.stdout.readline())["base_url"].rsplit(":", 1)[1])
        assert answers(port)
        seconds, used = time.monotonic() - began, cpu.of_program(process.pid)
        await asyncio.sleep(SETTLE_SECONDS)
        return {
            "seconds until ready": seconds,
            "CPU seconds until ready": used,
            **_memory(process.pid, "serve", "API process"),
            **_memory(process.pid, "worker", "worker"),
        }
    finally:
        process.terminate()
        await process.wait()


def _memory(parent: int, name: str, title: str) -> dict[str, float]:
    [pid] = [pid for pid in cpu.children(parent) if name in _words(pid)]
    return {
        f"{title}, resident MiB": cpu.resident_bytes(pid) / MEBIBYTE,
        f"{title}, proportional MiB": cpu.proportional_bytes(pid) / MEBIBYTE,
    }


def _words(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


async def _help() -> dict[str, float]:
    before = _children_seconds()
    process = await asyncio.create_subprocess_exec(
        *(*MANILLA, "--help"), stdout=asyncio.subprocess.DEVNULL
    )
    await process.wait()
    return {"CPU seconds of --help": _children_seconds() - before}


def _children_seconds() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime
