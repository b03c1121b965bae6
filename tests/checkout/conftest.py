import socket
from collections.abc import AsyncIterator

import aiohttp
import msgspec
import pytest
from aiohttp import web
from manilla_simulator.program import build
from manilla_simulator.settings import (
    CredentialsA,
    CredentialsB,
    CredentialsC,
    SimulatorSettings,
)

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.platform.settings import CheckoutChoice
from manilla.providers import credentials
from manilla.providers.kinds import KINDS
from manilla.services import Services
from tests.checkout.shop import Shop
from tests.payments.steps import setting
from tests.support.client import Site

CREDENTIALS = {
    "providera": {**msgspec.to_builtins(CredentialsA()), "sandbox": "true"},
    "providerb": {**msgspec.to_builtins(CredentialsB()), "default_va_bank": "000017"},
    "providerc": msgspec.to_builtins(CredentialsC()),
}


@pytest.fixture(scope="module")
async def simulator() -> AsyncIterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    settings = SimulatorSettings(mode="development", base_url=url, webhook_base_url=url)
    runner = web.AppRunner(build(settings), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    yield url
    await runner.cleanup()


@pytest.fixture(scope="module")
async def providers(db: Database, keyring: Keyring, simulator: str) -> AsyncIterator[None]:
    for provider, given in CREDENTIALS.items():
        known = {name: text for name, text in given.items() if text}
        address = f"{simulator}/{provider[-1]}"
        await credentials.clear(db, provider)
        await credentials.change(db, keyring, provider, {**known, "base_url": address})
    await db.execute("UPDATE rail_state SET is_down = false")
    yield
    for provider in KINDS:
        await credentials.clear(db, provider)


@pytest.fixture(scope="module")
async def shop(
    site: Site, services: Services, simulator: str, providers: None
) -> AsyncIterator[Shop]:
    for rail in services.rails.health.rails_down():
        rail.reset()
    await services.watch.look()
    async with aiohttp.ClientSession() as session:
        yield Shop(site, services, simulator, session)


@pytest.fixture(scope="module")
async def every_gateway(services: Services) -> AsyncIterator[None]:
    """Makes the checkout list each gateway separately instead of one entry per way to pay."""
    async with setting(services, "checkout_choice", CheckoutChoice.GATEWAYS):
        yield


@pytest.fixture(autouse=True)
async def _reset_providers(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Resets the simulator's faults and the circuit breakers after each test."""
    yield
    if "shop" in request.fixturenames:
        shop: Shop = request.getfixturevalue("shop")
        await shop.provider("reset", {})
        health = shop.services.rails.health
        if rails := health.rails_down():
            # Flush now, because a later flush would mark the rail as down again.
            await health.flush()
            for rail in rails:
                await health.mark_up(rail)
            await shop.services.watch.look()
