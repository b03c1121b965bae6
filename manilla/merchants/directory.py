"""Caches merchants and their valid credentials, at most a second out of date."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from functools import partial

import msgspec

from manilla.kit import changes, deadline
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment
from manilla.merchants import (
    api_keys,
    branding,
    checkout_origins,
    credentials,
    gateway_order,
    queries,
)
from manilla.merchants.api_keys import LiveKey
from manilla.merchants.branding import Branding
from manilla.merchants.credentials import LiveCredential
from manilla.merchants.merchants import CommissionBearer, MerchantLevel, MerchantStatus

CALLERS_MAX = 50_000

# An environment, and a merchant key, API key hash or merchant id.
Key = tuple[Environment, str | bytes | int]


class Caller(msgspec.Struct, frozen=True):
    """A cached merchant in one environment, for checks without a database query.

    The cache may only be used to reject requests. An SQL statement that moves money reads the rows
    again before it permits a movement.
    """

    merchant_id: int
    name: str
    environment: Environment
    email: str
    status: MerchantStatus
    commission_percent: Decimal
    commission_bearer: CommissionBearer
    gateways: frozenset[str] | None
    # Gateway codes in order of preference; empty if the merchant has no preference.
    gateway_order: tuple[str, ...]
    payouts_enabled: bool
    accounts_locked: bool
    kyc_verified: bool
    phone_verified: bool
    level: MerchantLevel
    has_bvn: bool
    currencies: frozenset[str]
    active_wallets: frozenset[str]
    credentials: tuple[LiveCredential, ...]
    branding: Branding
    # Types of transactions (payment, payout) whose `pending` events are sent to an endpoint.
    pending_events: frozenset[str] = frozenset()
    keys: tuple[LiveKey, ...] = ()  # additional API keys
    # The origins of the pages that may show checkout in a frame.
    checkout_origins: tuple[str, ...] = ()
    default_split: str | None = None  # the rule for payments without a split of their own

    def live_credentials(self) -> Sequence[LiveCredential]:
        return credentials.live(self.credentials)

    @property
    def is_sandbox(self) -> bool:
        return self.environment is Environment.SANDBOX


class Directory:
    def __init__(self, db: Database, keyring: Keyring, watch: changes.ChangeWatch) -> None:
        self._db = db
        self._keyring = keyring
        self._watch = watch
        self._callers: dict[Key, Caller] = {}
        self._flights: dict[tuple[Key, int], asyncio.Task[Caller | None]] = {}
        self._round = 0
        watch.follow(changes.MERCHANTS, self._refresh)

    async def find(self, environment: Environment, merchant_key: str) -> Caller | None:
        """Returns the merchant with this merchant key in this environment."""

        async def look_up() -> int | None:
            return await queries.merchant_id_by_key(self._db, environment, merchant_key)

        return await self._get((environment, merchant_key), look_up)

    def remembered(self, environment: Environment, merchant_key: str) -> Caller | None:
        """Returns the merchant if it is cached, without a database query."""
        return self._callers.get((environment, merchant_key))

    async def find_by_api_key(self, environment: Environment, api_key_hash: bytes) -> Caller | None:
        """Returns the merchant with this API key.

        The caller must check whether the key is still valid.
        """

        async def look_up() -> int | None:
            return await queries.merchant_id_by_api_key(self._db, environment, api_key_hash)

        return await self._get((environment, api_key_hash), look_up)

    async def of(self, environment: Environment, merchant_id: int) -> Caller:
        """Returns a merchant that must exist, because one of its transactions refers to it."""

        async def look_up() -> int | None:
            return merchant_id

        caller = await self._get((environment, merchant_id), look_up)
        assert caller is not None
        return caller

    async def read(self, environment: Environment, merchant_id: int) -> Caller:
        """Reads the merchant from the database, not the cache, to show its latest change."""
        return await self._load(environment, merchant_id)

    async def _get(self, key: Key, look_up: Callable[[], Awaitable[int | None]]) -> Caller | None:
        await self._watch.ensure_fresh()
        known = self._callers.get(key)
        if known is not None:
            return known
        # Concurrent callers share a database read that started after the latest announced change.
        flight = self._flights.get((key, self._round))
        if flight is None:
            flight = deadline.start_detached(self._fetch(key, look_up))
            self._flights[key, self._round] = flight
            flight.add_done_callback(partial(self._landed, (key, self._round)))
        # If a caller times out, the database read continues for the other callers.
        return await deadline.wait_for(flight)

    async def _fetch(self, key: Key, look_up: Callable[[], Awaitable[int | None]]) -> Caller | None:
        read_in_round = self._round
        merchant_id = await look_up()
        if merchant_id is None:
            return None
        caller = await self._load(key[0], merchant_id)
        # Data that was read before the latest announced change must not be cached.
        if read_in_round == self._round:
            self._remember(key, caller)
        return caller

    def _landed(self, flown: tuple[Key, int], flight: asyncio.Task[Caller | None]) -> None:
        del self._flights[flown]
        if not flight.cancelled():
            flight.exception()  # prevents a warning from asyncio if every caller has timed out

    def _remember(self, key: Key, caller: Caller) -> None:
        if len(self._callers) >= CALLERS_MAX:
            del self._callers[next(iter(self._callers))]
        self._callers[key] = caller

    async def _refresh(self, known_version: int) -> None:
        changed = set(await queries.changed_since(self._db, known_version))
        self._round += 1
        self._callers = {
            key: caller
            for key, caller in self._callers.items()
            if caller.merchant_id not in changed
        }

    async def _load(self, environment: Environment, merchant_id: int) -> Caller:
        merchant = await queries.merchant(self._db, merchant_id)
        assert merchant is not None
        rows = await queries.credentials(self._db, merchant_id, environment)
        wallets = await queries.wallets(self._db, merchant_id)
        return Caller(
            merchant_id=merchant_id,
            name=merchant.name,
            environment=environment,
            email=merchant.email,
            status=MerchantStatus(merchant.status),
            commission_percent=_plain(merchant.commission_percent),
            commission_bearer=CommissionBearer(merchant.commission_bearer),
            gateways=None if merchant.gateways is None else frozenset(merchant.gateways),
            gateway_order=await gateway_order.read(self._db, merchant_id, environment),
            payouts_enabled=merchant.payouts_enabled,
            accounts_locked=merchant.accounts_locked,
            kyc_verified=merchant.kyc_verified,
            phone_verified=merchant.phone_verified,
            level=MerchantLevel(merchant.level),
            has_bvn=merchant.has_bvn,
            currencies=frozenset(merchant.currencies),
            active_wallets=frozenset(
                wallet.currency
                for wallet in wallets
                if wallet.environment == environment and wallet.status == "active"
            ),
            credentials=tuple(
                LiveCredential(
                    row.api_key_hash,
                    self._keyring.open(
                        row.secret_sealed,
                        credentials.secret_context(merchant_id, environment, row.generation),
                    ),
                    row.expires_at,
                    row.generation,
                )
                for row in rows
            ),
            branding=await branding.find(self._db, merchant_id),
            pending_events=await queries.pending_events(self._db, merchant_id, environment),
            keys=await api_keys.live(self._db, self._keyring, merchant_id, environment),
            checkout_origins=await checkout_origins.read(self._db, merchant_id, environment),
            default_split=await queries.default_split(self._db, merchant_id, environment),
        )


def _plain(number: Decimal) -> Decimal:
    """Removes trailing zeros that the database column adds: 1.5 instead of 1.5000."""
    text = f"{number:f}"
    return Decimal(text.rstrip("0").rstrip(".") if "." in text else text)
