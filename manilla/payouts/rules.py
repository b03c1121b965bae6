"""Rules that are checked before the debit, first those that need no call to a provider."""

import time
from datetime import datetime

from manilla.kit.clock import LAGOS
from manilla.kit.db import Database
from manilla.kit.money import Money
from manilla.ledger.transactions import CurrencyNotEnabled
from manilla.merchants import limits
from manilla.merchants.directory import Caller
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Method, MethodKind
from manilla.payouts import store
from manilla.payouts.refusals import (
    AmountOutOfRange,
    GatewayNotConfigured,
    GatewaySwitchedOff,
    KycRequired,
    PayoutDisabled,
    PayoutFailed,
    ProviderInsufficientBalance,
    ScheduleBlocked,
)
from manilla.platform.settings import LimitKind, PlatformSettings
from manilla.providers.port import Done
from manilla.providers.rails import Rails

BALANCE_KEPT_SECONDS = 5


def open_method(catalogue: Catalogue, caller: Caller, method_id: int) -> Method:
    method = catalogue.by_id(MethodKind.WITHDRAW, method_id)
    if method is None or not method.active:
        raise PayoutFailed("There is no such payout method: see payout-methods.")
    check_usable(catalogue, caller, method)
    return method


def check_usable(catalogue: Catalogue, caller: Caller, method: Method) -> None:
    if catalogue.is_usable(method, caller.environment):
        return
    raise GatewaySwitchedOff if catalogue.is_switched_off(method) else GatewayNotConfigured


def check(
    settings: PlatformSettings, caller: Caller, method: Method, currency: str, now: datetime
) -> None:
    if not settings.withdrawals_enabled or not caller.payouts_enabled:
        raise PayoutDisabled
    if not caller.is_sandbox:
        _check_verified(settings, caller)
        _check_day(settings, now)
    if currency not in caller.currencies:
        raise CurrencyNotEnabled
    if currency not in caller.active_wallets:
        raise PayoutFailed(f"There is no active wallet in {currency}.")
    if method.currency != currency:
        raise PayoutFailed(f"This method pays out in {method.currency}, not in {currency}.")


def check_amount(method: Method, amount: Money) -> None:
    if method.takes(amount):
        return
    upper = f" and at most {method.maximum}" if method.maximum else ""
    raise AmountOutOfRange(f"The amount must be at least {method.minimum}{upper} for this method.")


def check_limit(settings: PlatformSettings, caller: Caller, amount: Money) -> None:
    limit = limits.of(settings, caller, LimitKind.PAYOUT, amount.currency)
    if limit is not None and limit < amount:
        raise PayoutFailed(f"The amount exceeds your limit of {limit} for a payout.")


def _check_verified(settings: PlatformSettings, caller: Caller) -> None:
    if settings.kyc_required and not caller.kyc_verified:
        raise KycRequired("Complete the KYC verification of your account to make payouts.")
    if settings.phone_required and not caller.phone_verified:
        raise KycRequired("Verify the phone number of your account to make payouts.")


def _check_day(settings: PlatformSettings, now: datetime) -> None:
    if not settings.is_payout_day(now.astimezone(LAGOS).date()):
        days = settings.payout_days or "none"
        raise ScheduleBlocked(f"Payouts are not accepted today. Payout days: {days}.")


class ProviderFunds:
    """The providers' balances for payouts, cached for a few seconds."""

    def __init__(self, db: Database, rails: Rails) -> None:
        self._db = db
        self._rails = rails
        self._kept: dict[tuple[str, str], tuple[float, Money | None]] = {}
        self._fees: dict[str, tuple[float, dict[str, int]]] = {}  # by currency

    def is_known(self, provider: str, currency: str) -> bool:
        kept_until, _ = self._kept.get((provider, currency), (0.0, None))
        return time.monotonic() < kept_until

    def cached_minor(self, provider: str, currency: str) -> int | None:
        """Returns the cached balance minus the transfer fee; None if it is not known."""
        if not self.is_known(provider, currency):
            return None
        _, available = self._kept[provider, currency]
        return None if available is None else available.minor

    async def fees_minor(self, currency: str) -> dict[str, int]:
        """Returns what each provider charges for a transfer, cached for a few seconds."""
        kept_until, fees = self._fees.get(currency, (0.0, {}))
        if time.monotonic() >= kept_until:
            fees = await store.transfer_fees_minor(self._db, currency)
            self._fees[currency] = (time.monotonic() + BALANCE_KEPT_SECONDS, fees)
        return fees

    async def check(self, provider: str, amount: Money) -> None:
        """Rejects an amount above the provider's known balance.

        If the balance is unknown, the provider decides.
        """
        if not self.is_known(provider, amount.currency):
            await self._look(provider, amount.currency)
        _, available = self._kept[provider, amount.currency]
        if available is not None and available < amount:
            raise ProviderInsufficientBalance

    async def _look(self, provider: str, currency: str) -> None:
        """Caches the provider's balance minus its transfer fee, if they are known."""
        adapter = self._rails.adapter(provider)
        answer = await adapter.balance(currency) if adapter else None
        available = None
        if isinstance(answer, Done):
            fee_minor = await store.transfer_fee_minor(self._db, provider, currency)
            available = Money(currency, answer.value.minor - fee_minor)
        self._kept[provider, currency] = (time.monotonic() + BALANCE_KEPT_SECONDS, available)
