"""The balances at providers that are available for payouts, and the providers' transfer fees."""

import time

from manilla.kit.database.connections import Database
from manilla.kit.money import Money
from manilla.providers.port import Done
from manilla.providers.rails import Rails
from manilla.transfers.refusals import ProviderInsufficientBalance

BALANCE_KEPT_SECONDS = 5


class ProviderFunds:
    """The balances at providers that are available for payouts, cached for a few seconds."""

    def __init__(self, db: Database, rails: Rails) -> None:
        self._db = db
        self._rails = rails
        self._kept: dict[tuple[str, str], tuple[float, Money | None]] = {}
        self._fees: dict[str, tuple[float, dict[str, int]]] = {}  # by currency

    def is_known(self, provider: str, currency: str) -> bool:
        kept_until, _ = self._kept.get((provider, currency), (0.0, None))
        return time.monotonic() < kept_until

    def cached_minor(self, provider: str, currency: str) -> int | None:
        """Returns the cached balance minus the transfer fee, or None if the balance is unknown."""
        if not self.is_known(provider, currency):
            return None
        _, available = self._kept[provider, currency]
        return None if available is None else available.minor

    async def fees_minor(self, currency: str) -> dict[str, int]:
        """Returns each provider's transfer fee, cached for a few seconds."""
        kept_until, fees = self._fees.get(currency, (0.0, {}))
        if time.monotonic() >= kept_until:
            fees = await transfer_fees_minor(self._db, currency)
            self._fees[currency] = (time.monotonic() + BALANCE_KEPT_SECONDS, fees)
        return fees

    async def check(self, provider: str, amount: Money) -> None:
        """Rejects an amount above the provider's known balance.

        If the balance is unknown, the payout is sent, and the provider can reject it.
        """
        if not self.is_known(provider, amount.currency):
            await self._look(provider, amount.currency)
        _, available = self._kept[provider, amount.currency]
        if available is not None and available < amount:
            raise ProviderInsufficientBalance

    async def _look(self, provider: str, currency: str) -> None:
        """Caches the provider's balance minus its transfer fee, or None if it is unknown."""
        adapter = self._rails.adapter(provider)
        answer = await adapter.balance(currency) if adapter else None
        available = None
        if isinstance(answer, Done):
            fee_minor = await transfer_fee_minor(self._db, provider, currency)
            available = Money(currency, answer.value.minor - fee_minor)
        self._kept[provider, currency] = (time.monotonic() + BALANCE_KEPT_SECONDS, available)


async def transfer_fee_minor(db: Database, provider: str, currency: str) -> int:
    """Returns the provider's fee for its latest transfer, or 0 if no fee was reported yet."""
    minor: int | None = await db.value(
        "SELECT minor FROM transfer_fee WHERE provider = $1 AND currency = $2",
        *(provider, currency),
    )
    return minor or 0


async def transfer_fees_minor(db: Database, currency: str) -> dict[str, int]:
    """Returns the latest transfer fee of each provider that has reported a fee."""
    records = await db.records(
        "SELECT provider, minor FROM transfer_fee WHERE currency = $1", currency
    )
    return {record["provider"]: record["minor"] for record in records}


async def set_transfer_fee(db: Database, provider: str, currency: str, minor: int) -> None:
    """Saves a provider's transfer fee outside of the payout's transaction.

    Otherwise all payouts of a rail would wait for the lock on the same row.
    """
    await db.execute(
        """
        INSERT INTO transfer_fee (provider, currency, minor) VALUES ($1, $2, $3)
            ON CONFLICT (provider, currency) DO UPDATE SET minor = excluded.minor
         WHERE transfer_fee.minor <> excluded.minor""",
        *(provider, currency, minor),
    )
