"""The simulator with test keys for every provider, and the checks of our provider accounts."""

import socket
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from manilla_simulator.program import build
from manilla_simulator.settings import (
    FlutterwaveAccount,
    KoraAccount,
    MonnifyAccount,
    PaystackAccount,
    SimulatorSettings,
)

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.providers import credentials
from manilla.providers.checks.account import check_account
from manilla.providers.checks.report import CheckedQuestion, CheckReport
from manilla.providers.rails import open_client

# Maps each provider to its account settings, with test keys if the provider has them.
TEST: dict[str, dict[str, str]] = {
    "providera": {"secret_key": "sim_a_secret", "webhook_secret": "sim_a_webhook"},
    "providerb": {
        "api_key": "sim_b_key",
        "secret_key": "sim_b_secret",
        "business_id": "sim_b_business",
        "default_va_bank": "000017",
    },
    "providerc": {"secret_key": "sim_c_secret", "webhook_secret": "sim_c_webhook"},
    "paystack": {"secret_key": "sk_test_paystack_simulated"},
    "kora": {"secret_key": "sk_test_kora_simulated"},
    "flutterwave": {
        "secret_key": "FLWSECK_TEST-simulated",
        "secret_hash": "simulated-secret-hash",
    },
    "monnify": {
        "api_key": "MK_TEST_SIMULATED",
        "secret_key": "SIMULATEDMONNIFYSECRET",
        "contract_code": "1234567890",
        "source_account_number": "8012345678",
    },
}
LIVE = {
    "paystack": {"secret_key": "sk_live_paystack_simulated"},
    "kora": {"secret_key": "sk_live_kora_simulated"},
    "flutterwave": {"secret_key": "FLWSECK-live-simulated-X"},
    "monnify": {"api_key": "MK_PROD_SIMULATED"},
}


class CheckedProviders:
    """Controls the simulator, and runs the checks of our provider accounts."""

    def __init__(self, db: Database, keyring: Keyring, http: aiohttp.ClientSession, url: str):
        self.db = db
        self._keyring = keyring
        self._http = http
        self._url = url
        self.configured: set[str] = set()

    async def configure(self, provider: str, **given: str) -> None:
        """Changes the test account's settings, which are stored when the account is first used."""
        if provider not in self.configured:
            self.configured.add(provider)
            path = provider[-1] if provider.startswith("provider") else provider
            wanted = {"base_url": f"{self._url}/{path}", "sandbox": "true"}
            given = {**TEST[provider], **wanted, **given}
            await credentials.clear(self.db, provider)
        if given:
            await credentials.change(self.db, self._keyring, provider, given)

    async def control(self, path: str, document: Any) -> None:
        async with self._http.post(f"{self._url}/control/api/{path}", json=document) as reply:
            assert reply.status == 200, await reply.text()

    async def requests(self, provider: str) -> list[dict[str, Any]]:
        url = f"{self._url}/control/api/{provider}/requests?limit=1000"
        async with self._http.get(url) as reply:
            listed: list[dict[str, Any]] = (await reply.json())["requests"]
            return listed

    async def go_live(self, provider: str) -> None:
        """Replaces the test account with a live account, in the simulator and in our settings."""
        keys = LIVE.get(provider, {})
        if keys:
            await self.control(f"{provider}/account", keys)
        await self.configure(provider, **keys, sandbox="false")

    async def check(self, provider: str, *, is_live: bool = False) -> CheckReport:
        await self.configure(provider)
        async with open_client() as client:
            return await check_account(
                self.db, self._keyring, client, provider, "http://127.0.0.1:9", is_live=is_live
            )


def question(report: CheckReport, name: str) -> CheckedQuestion:
    return next(each for each in report.checks if each.name == name)


@pytest.fixture
async def providers(db: Database, keyring: Keyring) -> AsyncIterator[CheckedProviders]:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    settings = SimulatorSettings(
        mode="development",
        base_url=url,
        webhook_base_url="http://127.0.0.1:9",
        settle_seconds=0,
        paystack=PaystackAccount(secret_key=TEST["paystack"]["secret_key"]),
        kora=KoraAccount(secret_key=TEST["kora"]["secret_key"]),
        flutterwave=FlutterwaveAccount(secret_key=TEST["flutterwave"]["secret_key"]),
        monnify=MonnifyAccount(api_key=TEST["monnify"]["api_key"]),
    )
    runner = web.AppRunner(build(settings), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    async with aiohttp.ClientSession() as http:
        providers = CheckedProviders(db, keyring, http, url)
        yield providers
    await runner.cleanup()
    for provider in providers.configured:
        await credentials.clear(db, provider)
