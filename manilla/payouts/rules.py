"""Payout rules that are checked before the debit and need no call to a provider."""

from datetime import datetime

from manilla.beneficiaries import methods
from manilla.kit.clock import LAGOS
from manilla.kit.money import Money
from manilla.ledger.transactions import CurrencyNotEnabled
from manilla.merchants import limits
from manilla.merchants.directory import Caller
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Method, MethodKind
from manilla.platform.settings import LimitKind, PlatformSettings
from manilla.transfers.refusals import (
    AmountOutOfRange,
    KycRequired,
    PayoutDisabled,
    PayoutFailed,
    ScheduleBlocked,
)


def open_method(catalogue: Catalogue, caller: Caller, method_id: int) -> Method:
    method = catalogue.by_id(MethodKind.WITHDRAW, method_id)
    if method is None or not method.active:
        raise PayoutFailed("There is no such payout method: see payout-methods.")
    methods.check_usable(catalogue, caller, method)
    return method


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
