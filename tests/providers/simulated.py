"""The simulator over HTTP, and a server that receives the simulator's webhooks."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from aiohttp import web
from manilla_simulator.program import build
from manilla_simulator.settings import SimulatorSettings

from manilla.providers.port import Adapter, Done, Headers, TransferState, TransferStatus
from tests.support.timeouts import TIMEOUT_SECONDS
from tests.support.waiting import until


class SimulatorSetup:
    """Controls the simulator, and records the webhooks that it sends."""

    def __init__(self, session: aiohttp.ClientSession, simulator_url: str, own_url: str) -> None:
        self.session = session
        self.simulator_url = simulator_url
        self.own_url = own_url
        self.received: asyncio.Queue[tuple[str, Headers, bytes]] = asyncio.Queue()

    async def control(self, path: str, document: Any) -> None:
        url = f"{self.simulator_url}/control/api/{path}"
        async with self.session.post(url, json=document) as reply:
            assert reply.status == 200, await reply.text()

    async def reset(self) -> None:
        """Restores the simulator's state, after all webhooks that are being sent have arrived."""
        await self.control("reset", {})
        self.received = asyncio.Queue()

    async def receive(self, request: web.Request) -> web.Response:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in request.raw_headers:
            headers.setdefault(name.lower(), []).append(value)
        provider = request.path.rsplit("/", 1)[1]
        await self.received.put((provider, headers, await request.read()))
        return web.Response()

    async def webhook(self) -> tuple[str, Headers, bytes]:
        return await asyncio.wait_for(self.received.get(), TIMEOUT_SECONDS)


async def _serve(app: web.Application, listener: socket.socket) -> web.AppRunner:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    return runner


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[SimulatorSetup]:
    simulator, ours = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    urls = [f"http://127.0.0.1:{each.getsockname()[1]}" for each in (simulator, ours)]
    async with aiohttp.ClientSession() as session:
        setup = SimulatorSetup(session, *urls)
        settings = SimulatorSettings(
            mode="development", base_url=urls[0], webhook_base_url=urls[1], settle_seconds=0
        )
        receiving = web.Application()
        receiving.router.add_post("/webhooks/{provider}", setup.receive)
        runners = [await _serve(build(settings), simulator), await _serve(receiving, ours)]
        yield setup
        for runner in runners:
            await runner.cleanup()


async def final_transfer(each: Adapter, reference: str) -> TransferState:
    """Waits until the transfer is no longer pending, and returns the transfer's state."""

    async def read() -> TransferState | None:
        answer = await each.transfer_state(reference)
        assert isinstance(answer, Done), answer
        return None if answer.value.status is TransferStatus.PENDING else answer.value

    found = await until(read)
    assert found is not None
    return found
