"""Runs the simulator as a separate process with its state in memory and without a database."""

import asyncio
import signal
import socket
from collections.abc import AsyncIterator

from aiohttp import web
from aiohttp.typedefs import Handler

from manilla_simulator import control, control_page, dispatch, pages
from manilla_simulator.settings import SimulatorSettings
from manilla_simulator.world import World

SHUTDOWN_SECONDS = 2.0
KEEP_ALIVE_SECONDS = 75.0


def build(settings: SimulatorSettings) -> web.Application:
    settings.refuse_production()
    world = World(settings)
    app = web.Application(
        middlewares=[_refuse_other_sites], client_max_size=dispatch.BODY_BYTES_MAX
    )

    async def lifetime(_app: web.Application) -> AsyncIterator[None]:
        await world.open()
        yield
        await world.close()

    app.cleanup_ctx.append(lifetime)
    app.router.add_get("/healthz", _healthz)
    app.router.add_post("/merchants/{merchant}/notifications", _healthz)
    app.router.add_post("/merchants/{merchant}/unavailable", _be_unavailable)
    pages.add_routes(app, world)
    control.add_routes(app, world)
    control_page.add_routes(app, world)
    for provider in world.providers.values():
        dispatch.add_routes(app, provider)
    return app


async def run(settings: SimulatorSettings, listener: socket.socket) -> None:
    """Serves requests until the process gets a stop signal. The signal also ends hanging calls."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    runner = web.AppRunner(
        build(settings),
        access_log=None,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        shutdown_timeout=SHUTDOWN_SECONDS,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        await stop.wait()
    finally:
        await runner.cleanup()


async def _healthz(_request: web.Request) -> web.StreamResponse:
    return control.reply({"status": "ok"})


async def _be_unavailable(_request: web.Request) -> web.StreamResponse:
    """Responds to a notification like a merchant's server that is temporarily unavailable."""
    return control.reply({"error": "This server is temporarily unavailable."}, 503)


@web.middleware
async def _refuse_other_sites(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Rejects POST requests from other sites, so that no web page can control the simulator."""
    site = request.headers.get("Sec-Fetch-Site")
    if request.method == "POST" and site not in (None, "same-origin", "none"):
        return control.reply({"error": "Requests from other sites are refused."}, 403)
    return await handler(request)
