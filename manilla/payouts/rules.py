"""Payout rules that need no call to a provider: what is checked before the debit, and the price."""

from datetime import datetime
from typing import Any

import msgspec

from manilla.beneficiaries import beneficiary, methods
from manilla.beneficiaries.beneficiary import Beneficiary
from manilla.kit.clock import LAGOS
from manilla.kit.database.connections import Database
from manilla.kit.errors import Refusal
from manilla.kit.money import Money
from manilla.kit.price import Price
from manilla.ledger.transactions import CurrencyNotEnabled
from manilla.merchants import limits
from manilla.merchants.directory import Caller
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Method, MethodKind
from manilla.platform.settings import LimitKind, PlatformSettings
from manilla.prices.book import PriceBook
from manilla.prices.price import Charged, Priced, PriceDirection, Purpose, TaxBearer
from manilla.providers.port import ResolvedAccount
from manilla.transfers.refusals import (
    AmountOutOfRange,
    InvalidBeneficiary,
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


NOT_OWN = "This is not the merchant's settlement account, so the purpose cannot be own_account."


class UnknownPurpose(Refusal):
    status, code = 400, "VALIDATION_FAILED"


def charge(
    book: PriceBook, caller: Caller, method: Method, amount: Money, purpose: Purpose | None = None
) -> Charged:
    """Computes the fee and the taxes. A payout to the own account is priced as a settlement."""
    is_own = purpose is Purpose.OWN_ACCOUNT
    priced = Priced(
        direction=PriceDirection.SETTLEMENT if is_own else PriceDirection.PAYOUT,
        environment=caller.environment,
        amount=amount,
        method=method.code,
        purpose=purpose,
    )
    return book.charge(caller.merchant_id, priced, method.fee)


def price(
    book: PriceBook, caller: Caller, method: Method, amount: Money, purpose: Purpose | None = None
) -> Price:
    charged = charge(book, caller, method, amount, purpose)
    return Price(amount, charged.fee, charged.added_minor(TaxBearer.MERCHANT))


def cost_columns(charged: Charged) -> dict[str, Any]:
    """Returns the payout's columns that contain its price."""
    return {
        "fee_minor": charged.fee.minor,
        "tax_minor": charged.added_minor(TaxBearer.MERCHANT),
        "price": charged.stored,
    }


def read_purpose(book: PriceBook, given: object) -> Purpose | None:
    """Parses a purpose. Another value is rejected only if a purpose can be exempt from a tax.

    Without plans and taxes it has no effect, because clients could send this field before.
    """
    if book.is_empty:
        return None
    if given in tuple(Purpose):
        return Purpose(str(given))
    if given is not None and book.has_exemptions:
        allowed = f"The purpose must be {' or '.join(Purpose)}."
        raise UnknownPurpose(allowed, errors={"purpose": allowed})
    return None


class _SettlementAccount(msgspec.Struct, frozen=True):
    method_code: str
    beneficiary: str
    account_name: str


async def check_own_account(
    db: Database, caller: Caller, method: Method, who: Beneficiary, account: ResolvedAccount | None
) -> None:
    """Rejects a payout to the own account that does not go to the settlement account."""
    own = await db.row(
        _SettlementAccount,
        """
        SELECT method_code, beneficiary, account_name FROM settlement_account
         WHERE merchant_id = $1 AND environment = $2 AND currency = $3
           AND canceled_at IS NULL AND effective_at <= now()
         ORDER BY id DESC LIMIT 1""",
        *(caller.merchant_id, caller.environment, method.currency),
    )
    if own is None or not _is_same(own, method, who, account):
        raise InvalidBeneficiary(NOT_OWN, errors={"purpose": NOT_OWN})


def _is_same(
    own: _SettlementAccount, method: Method, who: Beneficiary, account: ResolvedAccount | None
) -> bool:
    fields: dict[str, str] = msgspec.json.decode(own.beneficiary)
    if Beneficiary(fields).number != who.number:
        return False
    if own.method_code == method.code:
        return Beneficiary(fields).bank == who.bank
    # Another method has other bank codes, so compare the names of the account's holder.
    return account is not None and beneficiary.names_agree(account.account_name, own.account_name)
