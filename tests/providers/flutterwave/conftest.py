"""Flutterwave's adapter, with the scripted server as its API."""

import asyncio
from collections.abc import Callable

import pytest

from manilla.kit.http_client.client import HttpClient
from manilla.providers.health import Rail
from manilla.providers.kind import AdapterContext, Credentials
from manilla.providers.kinds.flutterwave import KIND
from manilla.providers.port import Adapter, Direction
from tests.providers.scripted import Scripted

SECRET_KEY, SECRET_HASH = "FLWSECK-4711-X", "a hash of our own"

Build = Callable[..., Adapter]


def adapter_of(client: HttpClient, base_url: str, **given: str) -> Adapter:
    own = {"secret_key": SECRET_KEY, "secret_hash": SECRET_HASH, "base_url": base_url, **given}
    tripped = asyncio.Event()
    pay_in, pay_out = (
        Rail("flutterwave", each, tripped) for each in (Direction.PAY_IN, Direction.PAY_OUT)
    )
    credentials = Credentials("flutterwave", KIND, own)
    return KIND.build(AdapterContext(credentials, pay_in, pay_out, client, asyncio.Semaphore(8)))


@pytest.fixture
def build(client: HttpClient, server: Scripted) -> Build:
    return lambda **given: adapter_of(client, server.url, **given)


@pytest.fixture
def flutterwave(build: Build) -> Adapter:
    return build()
