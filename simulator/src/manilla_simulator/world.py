"""Contains all simulated providers."""

import asyncio

import aiohttp

from manilla_simulator.dialects import providera, providerb, providerc
from manilla_simulator.dialects.flutterwave import contract as flutterwave
from manilla_simulator.dialects.kora import contract as kora
from manilla_simulator.dialects.monnify import contract as monnify
from manilla_simulator.dialects.paystack import contract as paystack
from manilla_simulator.provider import Provider
from manilla_simulator.settings import SimulatorSettings
from manilla_simulator.state import Charge

CONNECTIONS_MAX = 200
WIRES = (
    providera.WIRE,
    providerb.WIRE,
    providerc.WIRE,
    paystack.WIRE,
    kora.WIRE,
    monnify.WIRE,
    flutterwave.WIRE,
)


class World:
    def __init__(self, settings: SimulatorSettings) -> None:
        self.settings = settings
        self.providers = {wire.key: Provider(wire, settings) for wire in WIRES}
        self._session: aiohttp.ClientSession | None = None

    def provider(self, name: str) -> Provider | None:
        """Finds a provider by its key, such as `a`, or its name, such as `providera`."""
        return self.providers.get(name.removeprefix("provider"))

    def find_account(self, account_number: str) -> tuple[Provider, Charge] | None:
        for provider in self.providers.values():
            charge = provider.charges.by_account.get(account_number)
            if charge is not None:
                return provider, charge
        return None

    async def reset(self) -> None:
        for provider in self.providers.values():
            provider.reset()
        await asyncio.gather(*(each.outbox.finish_posting() for each in self.providers.values()))

    async def open(self) -> None:
        # All providers share one connection limit, because they send webhooks to the same host.
        connector = aiohttp.TCPConnector(limit=CONNECTIONS_MAX)
        self._session = aiohttp.ClientSession(connector=connector)
        for provider in self.providers.values():
            provider.outbox.session = self._session

    async def close(self) -> None:
        for provider in self.providers.values():
            provider.reset()
            await provider.outbox.close()
        if self._session is not None:
            await self._session.close()
