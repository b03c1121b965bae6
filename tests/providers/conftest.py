from collections.abc import AsyncIterator
from typing import Any

import pytest

from manilla.kit.http_client.client import HttpClient
from manilla.providers.port import Adapter
from manilla.providers.rails import open_client
from tests.providers import scripted, simulated
from tests.providers.adapters import Adapters
from tests.providers.monnify import samples as monnify
from tests.providers.scripted import Scripted
from tests.providers.simulated import SimulatorSetup

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


@pytest.fixture(scope="module", autouse=True)
def _invariants_hold() -> None:
    """Disables the check of the whole ledger, because no test in this folder moves money."""


@pytest.fixture(scope="session")
async def _server() -> AsyncIterator[Scripted]:
    async with scripted.running() as running:
        yield running


@pytest.fixture
def server(_server: Scripted) -> Scripted:
    """The scripted server, without the requests and responses of the previous test."""
    _server.reset()
    return _server


@pytest.fixture(scope="session")
async def _setup() -> AsyncIterator[SimulatorSetup]:
    async with simulated.running() as setup:
        yield setup


@pytest.fixture
async def setup(_setup: SimulatorSetup) -> SimulatorSetup:
    """The simulator in its initial state."""
    await _setup.reset()
    return _setup


@pytest.fixture(scope="session")
async def client() -> AsyncIterator[HttpClient]:
    async with open_client() as client:
        yield client


@pytest.fixture
def adapters(client: HttpClient, server: Scripted) -> Adapters:
    """An adapter for each provider, with the scripted server as its API."""
    adapters = Adapters(client)
    for provider, given in CREDENTIALS.items():
        adapters.add(provider, **given, base_url=server.url)
    return adapters


@pytest.fixture
def a(adapters: Adapters) -> Adapter:
    return adapters.of("providera")


@pytest.fixture
def b(adapters: Adapters) -> Adapter:
    return adapters.of("providerb")


@pytest.fixture
def c(adapters: Adapters) -> Adapter:
    return adapters.of("providerc")


def envelope(provider: str, data: Any, *, success: bool = True, message: str = "ok") -> Any:
    if provider == "monnify":
        return monnify.ok(data) if success else monnify.refusal(message)
    has_word = provider in ("providerc", "flutterwave")
    word = ("success" if success else "error") if has_word else success
    return {"status": word, "message": message, "data": data}
