"""API endpoints that create, verify and list payouts."""

from collections.abc import Collection
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct

from manilla.api.endpoint import Call, Endpoint
from manilla.api.fields import Amount, CallbackAddress, CurrencyCode, Reference, money_of
from manilla.api.lists import TransactionPages, TransactionQuery, items
from manilla.api.refusals import InvalidAmount
from manilla.api.request import read_repeat_key, read_scenario
from manilla.beneficiaries import methods
from manilla.beneficiaries.banks import BankList
from manilla.beneficiaries.methods import PayoutMethods
from manilla.kit.fields import api_field
from manilla.kit.money import MoneyError
from manilla.ledger.transactions import (
    CurrencyNotEnabled,
    DuplicateReference,
    TransactionNotFound,
)
from manilla.merchants.rights import Right
from manilla.payouts import fields
from manilla.payouts.fields import ReportedPayout
from manilla.payouts.initiate import InitiatedPayout, PayoutOrder
from manilla.payouts.payout import PayoutDetails, PayoutStatus
from manilla.prices.price import Purpose
from manilla.services import Services
from manilla.transfers import refusals

INITIATE, LIST = "/api/v1/initiate-payout", "/api/v1/payouts"
NEITHER = "Send either `beneficiary` or `withdraw_account_id`."
BOTH = "Send `withdraw_account_id` or `beneficiary`, not both."


class MethodsQuery(Struct, frozen=True):
    currency: CurrencyCode


class BanksQuery(Struct, frozen=True):
    method_code: str | None = None


class PayoutRequest(PayoutDetails, frozen=True):
    payout_amount: Amount
    currency_code: CurrencyCode
    ref_trx: Reference
    ipn_url: CallbackAddress
    withdraw_method_id: int
    withdraw_account_id: int | None = None
    beneficiary: dict[str, Any] | None = None
    # Only if a tax has an exemption, another value than the two is rejected: clients may have sent
    # the field for reasons of their own.
    purpose: Annotated[
        Any,
        api_field(
            "Why the payout may be exempt from a tax: `salary`, or `own_account` for a payout to"
            " your settlement account.",
            enum=[*Purpose],
        ),
    ] = None

    @classmethod
    def field_errors(cls, values: dict[str, Any], bad: Collection[str] = ()) -> dict[str, str]:
        return {**_amount_errors(values), **_beneficiary_errors(values, bad)}


def _amount_errors(values: dict[str, Any]) -> dict[str, str]:
    amount = values.get("payout_amount")
    try:
        if amount is not None:
            money_of(amount, values.get("currency_code"))
    except MoneyError as error:
        return {"payout_amount": str(error)}
    return {}


def _beneficiary_errors(values: dict[str, Any], bad: Collection[str]) -> dict[str, str]:
    if "beneficiary" in bad or "withdraw_account_id" in bad:
        return {}  # one of the fields is invalid and has its own error
    has_beneficiary = values.get("beneficiary") is not None
    has_account = values.get("withdraw_account_id") is not None
    if has_beneficiary and has_account:
        return {"withdraw_account_id": BOTH}
    if not has_beneficiary and not has_account:
        return {"beneficiary": NEITHER, "withdraw_account_id": NEITHER}
    return {}


# Maps each `status` that verify-payout returns to the statuses in the database.
STATUSES = {
    "pending": (PayoutStatus.PENDING,),
    "success": (PayoutStatus.COMPLETED,),
    "failed": (PayoutStatus.FAILED, PayoutStatus.CANCELED),
}


class PayoutsQuery(TransactionQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: Literal["pending", "success", "failed"] | None = None


class PayoutList(Struct, frozen=True):
    data: Annotated[list[Any], items(fields.DeliveredPayout, fields.ListedUndeliveredPayout)]
    next_cursor: str | None


def endpoints(services: Services) -> list[Endpoint]:
    payout_methods, bank_list = _choices(services)
    return [payout_methods, *_of_payouts(services), bank_list]


def _choices(services: Services) -> list[Endpoint]:
    """Returns the endpoints of what a payout can be sent with and to."""

    async def payout_methods(call: Call) -> PayoutMethods:
        return methods.payout_methods(services.methods, call.caller, call.query.currency)

    async def bank_list(call: Call) -> BankList:
        return await services.banks.listed(call.caller, call.query.method_code)

    return [
        Endpoint(
            method="GET",
            path="/api/v1/payout-methods",
            summary="List payout methods",
            description="Lists the available payout methods, each with its beneficiary fields.",
            right=None,
            answers=(PayoutMethods,),
            use_case=payout_methods,
            query=MethodsQuery,
            refusals=(CurrencyNotEnabled,),
        ),
        Endpoint(
            method="GET",
            path="/api/v1/payout/bank-list",
            summary="List bank codes",
            description="Lists the bank codes of provider B, or of the method `method_code`.",
            right=None,
            answers=(BankList,),
            use_case=bank_list,
            query=BanksQuery,
            refusals=(
                refusals.GatewayNotConfigured,
                refusals.PayoutFailed,
                refusals.ProviderUnavailable,
            ),
        ),
    ]


def _of_payouts(services: Services) -> list[Endpoint]:
    payouts = TransactionPages(
        services,
        LIST,
        table="payout",
        columns=fields.COLUMNS,
        statuses=STATUSES,
    )

    async def list_payouts(call: Call) -> PayoutList:
        rows, cursor = await payouts.page(call)
        found = [fields.describe_listed(ReportedPayout(*row)) for row in rows]
        return PayoutList(found, cursor)

    async def initiate_payout(call: Call) -> Any:
        return await services.payouts.initiate(call.caller, _order(call), call.ticket)

    async def verify_payout(call: Call) -> Any:
        return await fields.verify(services.reader, call.tenant, call.parameter)

    return [
        Endpoint(
            method="POST",
            path=INITIATE,
            summary="Initiate a payout",
            description="Debits the wallet immediately and sends the money to the beneficiary.",
            right=Right.PAYOUTS,
            answers=(InitiatedPayout,),
            use_case=initiate_payout,
            body=PayoutRequest,
            refusals=REFUSALS,
            counts=True,
            is_repeatable=True,
            creates_transaction=True,
        ),
        Endpoint(
            method="GET",
            path="/api/v1/verify-payout/{trxId}",
            summary="Verify a payout",
            description="Returns a payout's status. Use the environment in which it was created.",
            right=Right.READ,
            answers=(fields.DeliveredPayout, fields.UndeliveredPayout),
            use_case=verify_payout,
            refusals=(TransactionNotFound,),
        ),
        Endpoint(
            method="GET",
            path=LIST,
            operation_id="listPayouts",
            summary="List payouts",
            description="Lists your payouts, newest first, with the fields of verify-payout.",
            right=Right.READ,
            answers=(PayoutList,),
            use_case=list_payouts,
            query=PayoutsQuery,
        ),
    ]


REFUSALS = (
    InvalidAmount,
    CurrencyNotEnabled,
    DuplicateReference,
    refusals.InsufficientBalance,
    refusals.ProviderInsufficientBalance,
    refusals.KycRequired,
    refusals.PayoutDisabled,
    refusals.ScheduleBlocked,
    refusals.GatewayNotConfigured,
    refusals.InvalidBeneficiary,
    refusals.GatewayPayoutFailed,
    refusals.PayoutFailed,
    refusals.ProviderUnavailable,
)


def _order(call: Call) -> PayoutOrder:
    given = msgspec.structs.asdict(call.body)
    return PayoutOrder(
        asked_purpose=given.pop("purpose"),
        **given,
        scenario=read_scenario(call),
        repeat_key=read_repeat_key(call.headers, INITIATE, call.raw_body),
        api_key=call.api_key,
    )
