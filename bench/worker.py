"""Runs a program that is measured without HTTP: it receives a duration, works and reports.

The program reads and writes one JSON object per line on standard input and output. It exits when
its input ends, so no program is left running when the benchmark exits.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from bench.frame import Contender, Work

END_SECONDS = 10
START_SECONDS = 300
# Also enough for a contender that ignores the duration, such as a check of a long ledger.
GRACE_SECONDS = 2 * 3600


class Worker:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.started: dict[str, Any] = {}  # what the program reported when it was ready

    def contender(self, name: str, order: dict[str, Any]) -> Contender:
        """Returns a contender that sends the given order to this program."""

        async def run(seconds: float) -> Work:
            assert self._process.stdin is not None
            self._process.stdin.write(msgspec.json.encode({**order, "seconds": seconds}) + b"\n")
            return msgspec.json.decode(await self.answer(seconds + GRACE_SECONDS), type=Work)

        return Contender(name, run, self._process.pid)

    async def answer(self, seconds_max: float) -> bytes:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), seconds_max)
        if not line:
            raise RuntimeError("A worker has ended early. Its error is shown above.")
        return line

    async def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), END_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


@asynccontextmanager
async def started(
    module: str,
    environment: dict[str, str],
    python: str = sys.executable,
) -> AsyncIterator[Worker]:
    worker = Worker(
        await asyncio.create_subprocess_exec(
            *(python, "-m", module),
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # only the benchmark itself handles Ctrl-C
        )
    )
    try:
        worker.started = msgspec.json.decode(await worker.answer(START_SECONDS))
        yield worker
    finally:
        await worker.end()
