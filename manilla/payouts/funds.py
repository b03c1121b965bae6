"""The providers' balances for payouts, cached for a few seconds."""

import time

from manilla.kit.db import Database
from manilla.kit.money import Money
from manilla.payouts import queries
from manilla.payouts.refusals import ProviderInsufficientBalance
from manilla.providers.port import Done
from manilla.providers.rails import Rails

KEEP_SECONDS = 5


class ProviderFunds:
    def __init__(self, db: Database, rails: Rails) -> None:
        self._db = db
        self._rails = rails
        self._kept: dict[tuple[str, str], tuple[float, Money | None]] = {}

    def is_known(self, provider: str, currency: str) -> bool:
        kept_until, _ = self._kept.get((provider, currency), (0.0, None))
        return time.monotonic() < kept_until

    async def check(self, provider: str, amount: Money) -> None:
        """Refuses an amount above the known balance.

        If the balance is unknown, the provider decides.
        """
        if not self.is_known(provider, amount.currency):
            await self._look(provider, amount.currency)
        _, available = self._kept[provider, amount.currency]
        if available is not None and available < amount:
            raise ProviderInsufficientBalance

    async def _look(self, provider: str, currency: str) -> None:
        """Caches the provider's balance minus its transfer fee, where known."""
        adapter = self._rails.adapter(provider)
        answer = await adapter.balance(currency) if adapter else None
        available = None
        if isinstance(answer, Done):
            fee_minor = await queries.transfer_fee_minor(self._db, provider, currency)
            available = Money(currency, answer.value.minor - fee_minor)
        self._kept[provider, currency] = (time.monotonic() + KEEP_SECONDS, available)
