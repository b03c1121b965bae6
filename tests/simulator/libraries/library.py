"""Runs the unchanged library of a provider in a process, against the simulator.

The Python libraries have fixed URLs. They reach the simulator through an HTTPS proxy, which stands
for the providers' hosts. Environment variables, which the libraries' HTTP clients read, name the
proxy and its certificate. Flutterwave's Node library takes the API's URL as an argument.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.certificates import Certificate
from tests.support.timeouts import TIMEOUT_SECONDS

FOLDER = Path(__file__).parent
# Maps the hosts in the libraries' URLs to the simulator's dialects.
DIALECTS = {"api.paystack.co": b"/paystack", "api.monnify.com": b"/monnify"}
HEAD_END = b"\r\n\r\n"
RESULT_BYTES_MAX = 1024 * 1024


class Library:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._calls, self._results = process.stdin, process.stdout

    async def call(self, method: str, arguments: Mapping[str, Any] | None = None) -> Any:
        self._calls.write(json.dumps([method, arguments]).encode() + b"\n")
        async with asyncio.timeout(TIMEOUT_SECONDS):
            result = await self._results.readline()
        assert result, "the library's process has ended"
        return json.loads(result)


@contextlib.asynccontextmanager
async def running(
    command: Sequence[object], environment: Mapping[str, str]
) -> AsyncIterator[Library]:
    process = await asyncio.create_subprocess_exec(
        *map(str, command),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], **environment},
        limit=RESULT_BYTES_MAX,
    )
    try:
        yield Library(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def python_library(
    name: str, interpreter: Path, simulator: str, folder: Path
) -> AsyncIterator[Library]:
    certificate = Certificate(folder, tuple(DIALECTS))
    proxy = Proxy(int(simulator.rpartition(":")[2]), certificate)
    async with await asyncio.start_server(proxy.serve, "127.0.0.1", 0) as server:
        environment = {
            "HTTPS_PROXY": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}",
            "SSL_CERT_FILE": str(certificate.file),  # for httpx
            "REQUESTS_CA_BUNDLE": str(certificate.file),
        }
        async with running([interpreter, FOLDER / "call_python.py", name], environment) as library:
            yield library


class Proxy:
    """An HTTPS proxy that sends the calls to the providers' hosts to the simulator."""

    def __init__(self, simulator_port: int, certificate: Certificate) -> None:
        self._simulator_port = simulator_port
        self._certificate = certificate

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forwards one request. The libraries open a connection for each request."""
        connect = await reader.readuntil(HEAD_END)
        dialect = DIALECTS[connect.split()[1].decode().partition(":")[0]]
        writer.write(b"HTTP/1.1 200 Connection established" + HEAD_END)
        await writer.start_tls(self._certificate.of_server())
        method, _, rest = (await reader.readuntil(HEAD_END)).partition(b" ")
        received, sent = await asyncio.open_connection("127.0.0.1", self._simulator_port)
        sent.write(method + b" " + dialect + rest)
        await asyncio.gather(_copy(reader, sent), _copy(received, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while part := await reader.read(2**16):
            writer.write(part)
            await writer.drain()
    writer.close()
