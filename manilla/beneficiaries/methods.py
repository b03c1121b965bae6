"""The API's description of withdrawal methods, with each method's beneficiary fields."""

from decimal import Decimal

import msgspec

from manilla.ledger.transactions import CurrencyNotEnabled
from manilla.merchants.directory import Caller
from manilla.methods.catalogue import Catalogue
from manilla.methods.method import Method, MethodKind
from manilla.transfers.refusals import GatewayNotConfigured, GatewaySwitchedOff

BANK_CODE, ACCOUNT_NUMBER, ACCOUNT_NAME = "bank_code", "account_number", "account_name"
MANUAL_BANK_NAME, MANUAL_ACCOUNT_NUMBER = "Bank Name", "Account Number"


class BeneficiaryField(msgspec.Struct, frozen=True, omit_defaults=True):
    """A field of the beneficiary."""

    name: str
    type: str
    validation: str
    label: str | None = None
    api_auto_resolved: bool = False


AUTOMATIC = [
    BeneficiaryField(BANK_CODE, "select", "required", "Bank"),
    BeneficiaryField(ACCOUNT_NUMBER, "text", "required", "Account Number"),
    BeneficiaryField(ACCOUNT_NAME, "text", "nullable", "Account Name", api_auto_resolved=True),
]
MANUAL = [
    BeneficiaryField(MANUAL_BANK_NAME, "text", "required"),
    BeneficiaryField(MANUAL_ACCOUNT_NUMBER, "text", "required"),
]


class WithdrawalMethod(msgspec.Struct, frozen=True):
    id: int
    name: str
    method_code: str
    type: str
    currency: str
    min_withdraw: Decimal
    max_withdraw: Decimal | None
    fields: list[BeneficiaryField]


class PayoutMethods(msgspec.Struct, frozen=True):
    currency_code: str
    methods: list[WithdrawalMethod]


def payout_methods(catalogue: Catalogue, caller: Caller, currency: str) -> PayoutMethods:
    if currency not in caller.currencies:
        raise CurrencyNotEnabled
    methods = catalogue.offered(MethodKind.WITHDRAW, currency, caller.environment)
    return PayoutMethods(currency, [describe(method) for method in methods])


def describe(method: Method) -> WithdrawalMethod:
    return WithdrawalMethod(
        id=method.id,
        name=method.name,
        method_code=method.code,
        type=processing_type(method),
        currency=method.currency,
        min_withdraw=method.minimum.amount,
        max_withdraw=method.maximum.amount if method.maximum else None,
        fields=MANUAL if method.is_manual else AUTOMATIC,
    )


def processing_type(method: Method) -> str:
    return "manual" if method.is_manual else "auto"


def check_usable(catalogue: Catalogue, caller: Caller, method: Method) -> None:
    if catalogue.is_usable(method, caller.environment):
        return
    raise GatewaySwitchedOff if catalogue.is_switched_off(method) else GatewayNotConfigured
