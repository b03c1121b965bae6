import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from manilla_simulator.program import build
from manilla_simulator.settings import SimulatorSettings

from tests.simulator.merchant_platform import Platform


@pytest.fixture(scope="module", autouse=True)
def _invariants_hold() -> None:
    """Disables the check of the whole ledger, because these tests use no database."""


@pytest.fixture(scope="session")
async def _platform() -> AsyncIterator[Platform]:
    """The simulator and a platform, which run on separate ports and communicate over HTTP."""
    simulator, receiver = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    simulator_url, receiver_url = (
        f"http://127.0.0.1:{each.getsockname()[1]}" for each in (simulator, receiver)
    )
    async with aiohttp.ClientSession() as session:
        platform = Platform(session, simulator_url)
        platform.url = receiver_url
        receiving = web.Application()
        receiving.router.add_post("/{path:.*}", platform.receive)
        receiving.router.add_get("/back", _back)
        settings = SimulatorSettings(
            mode="development",
            base_url=simulator_url,
            webhook_base_url=receiver_url,
            settle_seconds=0.05,
            webhook_retry_seconds=(0.05, 0.05, 0.05),
        )
        runners = []
        for app, listener in ((build(settings), simulator), (receiving, receiver)):
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            await web.SockSite(runner, listener).start()
            runners.append(runner)
        yield platform
        for runner in runners:
            await runner.cleanup()


async def _back(_request: web.Request) -> web.Response:
    page = '<!doctype html><link rel="icon" href="data:,"><title>The shop</title>'
    return web.Response(text=page, content_type="text/html")


@pytest.fixture
async def platform(_platform: Platform) -> Platform:
    """A platform whose simulator has just been reset."""
    await _platform.control("reset", {})
    await _platform.arrived()  # Wait until the webhooks of the previous test have arrived.
    _platform.received.clear()
    _platform.answers.clear()
    return _platform
