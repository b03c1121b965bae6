"""The adapters in use: built from the current credentials, and rebuilt when they change."""

import asyncio
from typing import Any

import aiohttp

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.environment import Environment
from manilla.platform import changes
from manilla.providers import credentials
from manilla.providers.credentials import Credentials
from manilla.providers.health import Health, Rail
from manilla.providers.port import Adapter, Answer, Direction, Provider, Unknown
from manilla.providers.providera import ProviderA
from manilla.providers.providerb import ProviderB
from manilla.providers.providerc import ProviderC
from manilla.providers.wire import CALL_SECONDS, CONNECT_SECONDS, Wire

CALLS_AT_ONCE = 64  # per provider
PROBE_REFERENCE = "PROBE"


class Rails:
    """All providers with their current configuration, and which of them can be offered."""

    def __init__(
        self,
        db: Database,
        keyring: Keyring,
        watch: changes.ChangeWatch,
        session: aiohttp.ClientSession,
        *,
        is_production_mode: bool,
    ) -> None:
        self._db = db
        self._keyring = keyring
        self._session = session
        self._is_production_mode = is_production_mode
        self._credentials = {provider: Credentials(provider, {}) for provider in Provider}
        self._adapters: dict[Provider, Adapter] = {}
        self.loads = (
            0  # incremented with every load, so that callers can cache what they derive from it
        )
        self._places = {provider: asyncio.Semaphore(CALLS_AT_ONCE) for provider in Provider}
        self.health = Health(db, watch)
        watch.follow(changes.PROVIDERS, self._refresh)

    def credentials(self, provider: Provider) -> Credentials:
        return self._credentials[provider]

    def adapter(self, provider: Provider) -> Adapter | None:
        """Returns None if the credentials are incomplete."""
        return self._adapters.get(provider)

    def is_offered(
        self, provider: Provider, direction: Direction, environment: Environment
    ) -> bool:
        """Whether the provider is configured and enabled in this direction.

        In production, a provider's test account is never offered.
        """
        current = self._credentials[provider]
        is_real_money = self._is_production_mode and environment is Environment.PRODUCTION
        return current.is_open(direction) and not (is_real_money and current.is_sandbox)

    def is_down(self, provider: Provider, direction: Direction) -> bool:
        return self.health.rail(provider, direction).is_down

    async def probe(self) -> None:
        """Probes every rail that is down with a harmless call. One that answers is marked as up."""
        await asyncio.gather(*(self._probe(rail) for rail in self.health.rails_down()))

    async def _probe(self, rail: Rail) -> None:
        adapter = self.adapter(rail.provider)
        if adapter is None:
            return
        with rail.probing():
            answer = await _ask(adapter, rail)
        if not (isinstance(answer, Unknown) and answer.is_rail_down):
            await self.health.mark_up(rail)

    async def _refresh(self, _known_version: int) -> None:
        await self.load()

    async def load(self) -> None:
        self._credentials = await credentials.load(self._db, self._keyring)
        self.loads += 1
        self._adapters = {
            provider: self._build(current)
            for provider, current in self._credentials.items()
            if current.is_valid
        }

    def _build(self, current: Credentials) -> Adapter:
        provider = current.provider
        pay_in = self.health.rail(provider, Direction.PAY_IN)
        pay_out = self.health.rail(provider, Direction.PAY_OUT)
        wire = Wire(
            self._session,
            current.value("base_url"),
            _headers(current),
            _read_word if provider is Provider.C else _read_flag,
            self._places[provider],
            current.secrets,
        )
        match provider:
            case Provider.A:
                return ProviderA(wire, pay_in, pay_out, current.webhook_secret)
            case Provider.B:
                return ProviderB(
                    wire,
                    pay_in,
                    pay_out,
                    webhook_secret=current.webhook_secret,
                    business_id=current.value("business_id"),
                    virtual_account_bank=current.value("default_va_bank"),
                )
            case Provider.C:
                return ProviderC(wire, pay_in, pay_out, current.webhook_secret)


def open_session() -> aiohttp.ClientSession:
    """Opens the HTTP session for providers: limited connections, no cookies, no proxy settings."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=CALLS_AT_ONCE * len(Provider), keepalive_timeout=30),
        timeout=aiohttp.ClientTimeout(total=CALL_SECONDS, sock_connect=CONNECT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        headers={"User-Agent": "Manilla", "Accept": "application/json"},
    )


def _headers(current: Credentials) -> dict[str, str]:
    secret_key = current.value("secret_key")
    if current.provider is Provider.B:
        return {"api-key": current.value("api_key"), "api-secret": f"Bearer {secret_key}"}
    return {"Authorization": f"Bearer {secret_key}"}


def _read_word(status: Any) -> bool | None:
    """Reads provider C's status: True for success, False for error, None for anything else."""
    return status == "success" if status in ("success", "error") else None


def _read_flag(status: Any) -> bool | None:
    """Reads provider A's or B's status; None if it is not a boolean."""
    return status if isinstance(status, bool) else None


async def _ask(adapter: Adapter, rail: Rail) -> Answer[Any]:
    if rail.direction is Direction.PAY_IN:
        return await adapter.charge_state(PROBE_REFERENCE)
    return await adapter.balance("NGN")
