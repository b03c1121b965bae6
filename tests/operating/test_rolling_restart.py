"""Restarts the `manilla serve` processes one by one under load. The proxy gets no errors."""

import asyncio
import base64
import contextlib
import os
import subprocess
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from manilla.settings import Settings
from tests.support.client import Site
from tests.support.instance import MANILLA, free_port
from tests.support.timeouts import TIMEOUT_SECONDS

pytestmark = pytest.mark.long

CALLERS = 6
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: manilla\r\n\r\n"


class Backend:
    def __init__(self, settings: Settings) -> None:
        self.port = free_port()
        self.is_ready = False
        self._environment = {
            **os.environ,
            "MANILLA_MODE": "development",
            "MANILLA_DATABASE_URL": settings.database_url,
            "MANILLA_MASTER_KEY": base64.b64encode(settings.master_keys[0]).decode(),
            "MANILLA_BASE_URL": settings.base_url,
            "MANILLA_DRAIN_SECONDS": "3",
        }
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [*MANILLA, "serve", "--port", str(self.port), "--workers", "2"],
            env=self._environment,
        )

    async def check(self) -> None:
        """Polls the readiness endpoint, as a proxy does."""
        while True:
            try:
                self.is_ready = (await Site(self.port).send("GET", "/readyz")).status == 200
            except (OSError, IndexError):
                self.is_ready = False
            await asyncio.sleep(0.1)

    async def until_ready(self) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not self.is_ready:
                await asyncio.sleep(0.05)

    async def restart(self) -> None:
        self.process.terminate()
        await asyncio.to_thread(self.process.wait, TIMEOUT_SECONDS)
        self.is_ready = False
        self.start()
        await self.until_ready()


@pytest.fixture
async def backends(settings: Settings) -> AsyncIterator[list[Backend]]:
    backends = [Backend(settings) for _ in range(2)]
    checking = [asyncio.create_task(backend.check()) for backend in backends]
    try:
        yield backends
    finally:
        for task in checking:
            task.cancel()
        for backend in backends:
            backend.process.terminate()
            backend.process.wait(TIMEOUT_SECONDS)


class Load:
    """Callers with persistent connections, like a proxy."""

    def __init__(self, backends: list[Backend]) -> None:
        self._backends = backends
        self.answers: Counter[str] = Counter()
        self.is_done = False

    async def call(self, number: int) -> None:
        while not self.is_done:
            ready = [backend for backend in self._backends if backend.is_ready]
            backend = ready[number % len(ready)]
            reader, writer = await asyncio.open_connection("127.0.0.1", backend.port)
            with contextlib.closing(writer):
                while not self.is_done and await self._ask(reader, writer):
                    pass

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Sends one request. Returns whether the connection can be used again."""
        writer.write(REQUEST)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        is_kept = b"connection: close" not in head
        self.answers[f"{head.split()[1].decode()} {'kept' if is_kept else 'closed'}"] += 1
        return is_kept


async def test_a_rolling_restart_drops_no_connection_and_loses_no_request(
    backends: list[Backend],
) -> None:
    for backend in backends:
        await backend.until_ready()
    load = Load(backends)
    calling = [asyncio.create_task(load.call(number)) for number in range(CALLERS)]
    for backend in backends:
        await backend.restart()
    load.is_done = True
    await asyncio.gather(*calling)  # The call raises if the connection was refused or reset.
    assert set(load.answers) == {"200 kept", "200 closed"}
    assert load.answers["200 closed"] >= CALLERS // 2
