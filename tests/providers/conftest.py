from collections.abc import AsyncIterator
from typing import Any

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.platform.changes import ChangeWatch
from manilla.providers import credentials
from manilla.providers.port import Adapter, Direction, Provider
from manilla.providers.rails import Rails, open_session
from tests.providers import scripted
from tests.providers.scripted import Scripted

CREDENTIALS: dict[Provider, dict[str, str]] = {
    Provider.A: {"secret_key": "a-secret", "webhook_secret": "a-hook"},
    Provider.B: {
        "api_key": "b-key",
        "secret_key": "b-secret",
        "business_id": "b-business",
        "default_va_bank": "000017",
    },
    Provider.C: {"secret_key": "c-secret", "webhook_secret": "c-hook"},
}


@pytest.fixture
async def server() -> AsyncIterator[Scripted]:
    async with scripted.running() as running:
        yield running


@pytest.fixture
async def rails(db: Database, keyring: Keyring, server: Scripted) -> AsyncIterator[Rails]:
    """All three providers, each served by the scripted server, with rails that are up."""
    for provider, given in CREDENTIALS.items():
        await credentials.clear(db, provider)
        await credentials.change(db, keyring, provider, {**given, "base_url": server.url})
    await db.execute("UPDATE rail_state SET is_down = false")
    async with open_session() as session:
        rails = Rails(db, keyring, ChangeWatch(db), session, is_production_mode=False)
        await rails.load()
        yield rails
    for provider in Provider:
        await credentials.clear(db, provider)


@pytest.fixture
def a(rails: Rails) -> Adapter:
    return adapter(rails, Provider.A)


@pytest.fixture
def b(rails: Rails) -> Adapter:
    return adapter(rails, Provider.B)


@pytest.fixture
def c(rails: Rails) -> Adapter:
    return adapter(rails, Provider.C)


def adapter(rails: Rails, provider: Provider) -> Adapter:
    found = rails.adapter(provider)
    assert found is not None
    return found


def envelope(provider: Provider, data: Any, *, success: bool = True, message: str = "ok") -> Any:
    word = ("success" if success else "error") if provider is Provider.C else success
    return {"status": word, "message": message, "data": data}


DIRECTIONS = tuple(Direction)
