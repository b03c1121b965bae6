"""Rules that are checked before any call to a provider, in a fixed order."""

from datetime import datetime

from manilla.kit.clock import LAGOS
from manilla.kit.money import Money
from manilla.ledger.transactions import CurrencyNotEnabled
from manilla.merchants.directory import Caller
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Method, MethodKind
from manilla.payouts.refusals import (
    AmountOutOfRange,
    GatewayNotConfigured,
    GatewaySwitchedOff,
    KycRequired,
    PayoutDisabled,
    PayoutFailed,
    ScheduleBlocked,
)
from manilla.platform.settings import WEEKDAYS, PlatformSettings


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


def _check_verified(settings: PlatformSettings, caller: Caller) -> None:
    if settings.kyc_required and not caller.kyc_verified:
        raise KycRequired("Complete the KYC verification of your account to make payouts.")
    if settings.phone_required and not caller.phone_verified:
        raise KycRequired("Verify the phone number of your account to make payouts.")


def _check_day(settings: PlatformSettings, now: datetime) -> None:
    today = WEEKDAYS[now.astimezone(LAGOS).weekday()]
    if today not in settings.payout_days.split(","):
        days = settings.payout_days or "none"
        raise ScheduleBlocked(f"Payouts are not accepted today. Payout days: {days}.")
