from collections.abc import AsyncIterator
from typing import Any

import pytest

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.platform.changes import ChangeWatch
from manilla.providers import credentials
from manilla.providers.kinds import KINDS
from manilla.providers.port import Adapter, Direction
from manilla.providers.rails import Rails, open_session
from tests.providers import scripted
from tests.providers.monnify import samples as monnify
from tests.providers.scripted import Scripted

ABC = ("providera", "providerb", "providerc")
CREDENTIALS: dict[str, dict[str, str]] = {
    "providera": {"secret_key": "a-secret", "webhook_secret": "a-hook"},
    "providerb": {
        "api_key": "b-key",
        "secret_key": "b-secret",
        "business_id": "b-business",
        "default_va_bank": "000017",
    },
    "providerc": {"secret_key": "c-secret", "webhook_secret": "c-hook"},
    "kora": {"secret_key": "sk_live_k", "public_key": "pk_live_k"},
    "paystack": {"secret_key": "sk_live_p"},
    "flutterwave": {"secret_key": "FLWSECK-f-X", "secret_hash": "f-hash"},
    "monnify": {
        "api_key": "MK_PROD_1",
        "secret_key": "m-secret",
        "contract_code": "1234567890",
        "source_account_number": "8012345678",
    },
}
PROVIDERS = tuple(CREDENTIALS)


@pytest.fixture
async def server() -> AsyncIterator[Scripted]:
    async with scripted.running() as running:
        yield running


@pytest.fixture
async def rails(db: Database, keyring: Keyring, server: Scripted) -> AsyncIterator[Rails]:
    """All providers, each served by the scripted server, with rails that are up."""
    for provider, given in CREDENTIALS.items():
        await credentials.clear(db, provider)
        await credentials.change(db, keyring, provider, {**given, "base_url": server.url})
    await db.execute("UPDATE rail_state SET is_down = false")
    async with open_session() as session:
        rails = Rails(db, keyring, ChangeWatch(db), session, is_production_mode=False)
        await rails.load()
        yield rails
    for provider in KINDS:
        await credentials.clear(db, provider)


@pytest.fixture
def a(rails: Rails) -> Adapter:
    return adapter(rails, "providera")


@pytest.fixture
def b(rails: Rails) -> Adapter:
    return adapter(rails, "providerb")


@pytest.fixture
def c(rails: Rails) -> Adapter:
    return adapter(rails, "providerc")


def adapter(rails: Rails, provider: str) -> Adapter:
    found = rails.adapter(provider)
    assert found is not None
    return found


def envelope(provider: str, data: Any, *, success: bool = True, message: str = "ok") -> Any:
    if provider == "monnify":
        return monnify.ok(data) if success else monnify.refusal(message)
    has_word = provider in ("providerc", "flutterwave")
    word = ("success" if success else "error") if has_word else success
    return {"status": word, "message": message, "data": data}


DIRECTIONS = tuple(Direction)
