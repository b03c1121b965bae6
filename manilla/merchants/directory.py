"""Who is calling: merchants and their live credentials, in memory and never a second stale."""

from decimal import Decimal

import msgspec

from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.ledger.posting import Environment
from manilla.merchants import credentials, queries
from manilla.merchants.credentials import LiveCredential
from manilla.merchants.merchants import Bearer, Status
from manilla.platform import changes

CALLERS_MAX = 50_000


class Caller(msgspec.Struct, frozen=True):
    """A merchant in one environment: what a request may be refused by without asking the database.

    It may refuse, never permit: the statement that moves money reads the rows again.
    """

    merchant_id: int
    name: str
    environment: Environment
    merchant_key: str
    status: Status
    commission_percent: Decimal
    commission_bearer: Bearer
    gateways: frozenset[str] | None
    payouts_enabled: bool
    kyc_verified: bool
    phone_verified: bool
    has_bvn: bool
    currencies: frozenset[str]
    active_wallets: frozenset[str]
    credentials: tuple[LiveCredential, ...]

    def live_credentials(self) -> list[LiveCredential]:
        return credentials.live(self.credentials)

    @property
    def is_sandbox(self) -> bool:
        return self.environment is Environment.SANDBOX


class Directory:
    def __init__(self, db: Database, keyring: Keyring, watch: changes.Watch) -> None:
        self._db = db
        self._keyring = keyring
        self._watch = watch
        self._callers: dict[tuple[Environment, str], Caller] = {}
        self._round = 0
        watch.follow(changes.MERCHANTS, self._refresh)

    async def find(self, environment: Environment, merchant_key: str) -> Caller | None:
        """The merchant who has this key in this environment."""
        await self._watch.ensure_fresh()
        known = self._callers.get((environment, merchant_key))
        if known is not None:
            return known
        read_in_round = self._round
        caller = await self._load(environment, merchant_key)
        # What was read before a change was announced must not be kept after it.
        if caller is not None and read_in_round == self._round:
            self._remember(caller)
        return caller

    def _remember(self, caller: Caller) -> None:
        if len(self._callers) >= CALLERS_MAX:
            del self._callers[next(iter(self._callers))]
        self._callers[caller.environment, caller.merchant_key] = caller

    async def _refresh(self, known_version: int) -> None:
        changed = set(await queries.changed_since(self._db, known_version))
        self._round += 1
        self._callers = {
            key: caller
            for key, caller in self._callers.items()
            if caller.merchant_id not in changed
        }

    async def _load(self, environment: Environment, merchant_key: str) -> Caller | None:
        merchant_id = await queries.merchant_id_by_key(self._db, environment, merchant_key)
        if merchant_id is None:
            return None
        merchant = await queries.merchant(self._db, merchant_id)
        assert merchant is not None
        rows = await queries.credentials(self._db, merchant_id, environment)
        wallets = await queries.wallets(self._db, merchant_id)
        return Caller(
            merchant_id=merchant_id,
            name=merchant.name,
            environment=environment,
            merchant_key=merchant_key,
            status=Status(merchant.status),
            commission_percent=merchant.commission_percent,
            commission_bearer=Bearer(merchant.commission_bearer),
            gateways=None if merchant.gateways is None else frozenset(merchant.gateways),
            payouts_enabled=merchant.payouts_enabled,
            kyc_verified=merchant.kyc_verified,
            phone_verified=merchant.phone_verified,
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
                )
                for row in rows
            ),
        )
