"""Creates provider adapters with the given credentials, without a database."""

import asyncio

from manilla.kit.http_client.client import HttpClient
from manilla.providers.health import Rail
from manilla.providers.kind import AdapterContext, Credentials
from manilla.providers.kinds import KINDS
from manilla.providers.port import Adapter, Direction


class Adapters:
    """One account of each provider kind that a test uses, with all rails up."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self._adapters: dict[str, Adapter] = {}
        self._rails: list[Rail] = []

    def add(self, provider: str, **given: str) -> Adapter:
        """Adds an account, or replaces the account with one that has other credentials."""
        tripped = asyncio.Event()
        pay_in, pay_out = (Rail(provider, direction, tripped) for direction in Direction)
        credentials = Credentials(provider, KINDS[provider], given)
        assert credentials.is_valid, credentials.missing
        calls = asyncio.Semaphore(64)
        context = AdapterContext(credentials, pay_in, pay_out, self._client, calls)
        self._adapters[provider] = KINDS[provider].build(context)
        self._rails += [pay_in, pay_out]
        return self._adapters[provider]

    def of(self, provider: str) -> Adapter:
        return self._adapters[provider]

    def close_breakers(self) -> None:
        """Closes the circuit breakers, so that every call is sent."""
        for rail in self._rails:
            rail.reset()
