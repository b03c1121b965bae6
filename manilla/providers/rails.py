"""Builds adapters from the current credentials, and rebuilds them when credentials change."""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, overload

import msgspec

from manilla.kit import changes, time_limits
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.kit.http_client.client import HttpClient
from manilla.providers import credentials
from manilla.providers.health import Health, Rail
from manilla.providers.kind import AdapterContext, Credentials
from manilla.providers.kinds import KINDS
from manilla.providers.port import (
    OUR_REFERENCE,
    Adapter,
    Answer,
    ChargeState,
    Direction,
    KnownAs,
    RefundState,
    RefusalCode,
    Refused,
    TransferState,
    Unknown,
    WebhookSubject,
)

CALLS_AT_ONCE = 64  # maximum number of concurrent calls per account
CALLING_ACCOUNTS = 4  # number of accounts that can reach their call limit at the same time
PROBE_REFERENCE = "PROBE"
NO_REFUND_STATUS = Refused(
    RefusalCode.NOT_SUPPORTED, "The provider's API has no status query for refunds."
)


class Schedule(msgspec.Struct, frozen=True):
    """How often we query a provider about a transaction.

    Older transactions are queried less often.
    """

    # Each step has a maximum age, and the interval in seconds between queries up to that age.
    steps: tuple[tuple[timedelta, float], ...]
    # The interval for overdue transactions, or None for an eighth of the age. Queries never stop.
    overdue_seconds: float | None = None

    @property
    def first_seconds(self) -> float:
        return self.steps[0][1]

    @property
    def last_seconds(self) -> float:
        return self.overdue_seconds or self.steps[-1][1]

    def is_overdue(self, age: timedelta) -> bool:
        return age >= self.steps[-1][0]

    def seconds(self, age: timedelta) -> float:
        overdue_seconds = self.overdue_seconds or age.total_seconds() / 8
        return next((seconds for limit, seconds in self.steps if age < limit), overdue_seconds)


class Rails:
    """All provider accounts with their current configuration and availability."""

    def __init__(
        self,
        db: Database,
        keyring: Keyring,
        watch: changes.ChangeWatch,
        client: HttpClient,
        *,
        is_production_mode: bool,
    ) -> None:
        self._db = db
        self._keyring = keyring
        self._client = client
        self._is_production_mode = is_production_mode
        self._credentials = {name: Credentials(name, kind) for name, kind in KINDS.items()}
        self._adapters: dict[str, Adapter] = {}
        self._offered: dict[tuple[str, Direction, Environment], bool] = {}
        # Incremented with every load, so that callers can cache values derived from the accounts.
        self.loads = 0
        self._loading = asyncio.Lock()
        self._calls: dict[str, asyncio.Semaphore] = {}  # limits each account's concurrent calls
        self.health = Health(db, watch)
        watch.follow(changes.PROVIDERS, self._refresh)

    @property
    def accounts(self) -> Mapping[str, Credentials]:
        """Maps each account's name to its credentials."""
        return self._credentials

    def credentials(self, provider: str) -> Credentials:
        return self._credentials[provider]

    def adapter(self, provider: str) -> Adapter | None:
        """Returns the account's adapter, or None if the account is not fully configured."""
        return self._adapters.get(provider)

    @overload
    async def state(
        self, kind: Literal[WebhookSubject.CHARGE], provider: str, reference: str
    ) -> Answer[ChargeState]: ...

    @overload
    async def state(
        self,
        kind: Literal[WebhookSubject.TRANSFER],
        provider: str,
        reference: str,
        known: KnownAs = OUR_REFERENCE,
    ) -> Answer[TransferState]: ...

    @overload
    async def state(
        self,
        kind: Literal[WebhookSubject.REFUND],
        provider: str,
        reference: str,
        known: KnownAs = OUR_REFERENCE,
    ) -> Answer[RefundState]: ...

    @overload
    async def state(
        self, kind: WebhookSubject, provider: str, reference: str, known: KnownAs = OUR_REFERENCE
    ) -> Answer[Any]: ...

    async def state(
        self, kind: WebhookSubject, provider: str, reference: str, known: KnownAs = OUR_REFERENCE
    ) -> Answer[Any]:
        """Queries the provider for the status of a charge, transfer or refund."""
        capabilities = self.credentials(provider).kind.capabilities
        if kind is WebhookSubject.REFUND and not capabilities.refund_status:
            return NO_REFUND_STATUS
        adapter = self.adapter(provider)
        if adapter is None:
            return Unknown(f"{provider} is not configured")
        match kind:
            case WebhookSubject.TRANSFER:
                sent = known.sent_reference or adapter.transfer_reference(reference)
                return await adapter.transfer_state(sent)
            case WebhookSubject.REFUND:
                return await adapter.refund_state(reference, known)
            case _:
                return await adapter.charge_state(reference)

    def may_resend(self, kind: WebhookSubject, provider: str) -> bool:
        """Returns True if a transfer or refund that the provider does not know may be resent."""
        current = self._credentials.get(provider)
        if current is None:
            return False
        capabilities = current.kind.capabilities
        is_refund = kind is WebhookSubject.REFUND
        return capabilities.resend_refund if is_refund else capabilities.resend_transfer

    def is_offered(self, provider: str, direction: Direction, environment: Environment) -> bool:
        """Returns True if the provider is configured and enabled in this direction.

        A provider's test account is never offered in production.
        """
        key = provider, direction, environment
        if key not in self._offered:
            self._offered[key] = self._is_offered(*key)
        return self._offered[key]

    def _is_offered(self, provider: str, direction: Direction, environment: Environment) -> bool:
        current = self._credentials.get(provider)
        if current is None:
            return False
        is_real_money = self._is_production_mode and environment is Environment.PRODUCTION
        return current.is_open(direction) and not (is_real_money and current.is_sandbox)

    def is_down(self, provider: str, direction: Direction) -> bool:
        return self.down_since(provider, direction) is not None

    def down_since(self, provider: str, direction: Direction) -> datetime | None:
        return self.health.rail(provider, direction).down_since

    def is_drained(self, provider: str) -> bool:
        """Returns True if an administrator has stopped new payouts through this account."""
        return provider in self.health.drained

    async def probe(self) -> None:
        """Probes every rail that is down. Marks a rail as up if it responds."""
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
        """Reloads the accounts.

        Only one load runs at a time, so old data never replaces newer data.
        """
        async with self._loading:
            self._credentials = await credentials.load(self._db, self._keyring)
            self._offered = {}
            self.loads += 1
            self._adapters = {
                provider: self._build(current)
                for provider, current in self._credentials.items()
                if current.is_valid
            }

    def _build(self, current: Credentials) -> Adapter:
        provider = current.provider
        context = AdapterContext(
            current,
            self.health.rail(provider, Direction.PAY_IN),
            self.health.rail(provider, Direction.PAY_OUT),
            self._client,
            self._calls.setdefault(provider, asyncio.Semaphore(CALLS_AT_ONCE)),
        )
        return current.kind.build(context)


def open_client() -> HttpClient:
    """Opens the HTTP client for providers."""
    return HttpClient(
        connections=CALLS_AT_ONCE * CALLING_ACCOUNTS,
        keepalive_seconds=30,
        connect_seconds=time_limits.current.provider_connect_seconds,
        headers={"User-Agent": "Manilla", "Accept": "application/json"},
    )


async def _ask(adapter: Adapter, rail: Rail) -> Answer[Any]:
    if rail.direction is Direction.PAY_IN:
        return await adapter.charge_state(PROBE_REFERENCE)
    return await adapter.balance("NGN")
