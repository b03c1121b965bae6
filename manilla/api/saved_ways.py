"""API endpoints for saved ways to pay: list, revoke, charge again, and create mandates."""

from collections.abc import Collection
from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from manilla.api.endpoint import Call, Endpoint
from manilla.api.fields import (
    Amount,
    CallbackAddress,
    CurrencyCode,
    Lines,
    Reference,
    WebAddress,
    money_of,
)
from manilla.api.payments import REFUSALS, SPLIT, amount_problem
from manilla.api.refusals import InvalidAmount, ValidationFailed
from manilla.api.request import read_repeat_key, read_scenario, remember
from manilla.customers import store as customers
from manilla.customers.customer import CustomerDisabled, CustomerNotFound, CustomerRow
from manilla.kit.clock import LAGOS
from manilla.kit.fields import api_field
from manilla.kit.texts import Line
from manilla.ledger.transactions import KeyUsedBefore
from manilla.merchants.rights import Right
from manilla.payments.initiate import PaymentOrder
from manilla.saved_ways import fields, revoking, store
from manilla.saved_ways.charging import WayChargeInfo
from manilla.saved_ways.fields import WayInfo
from manilla.saved_ways.mandates import MandateTerms
from manilla.saved_ways.way import MandateRefused, RetryLimit, WayNotFound, WayUnusable
from manilla.services import Services
from manilla.splits.planning import GivenSplit

CUSTOMER = "/api/v1/customers/{reference}"
YEARS_MAX = 10


class WayChargeRequest(Struct, frozen=True, kw_only=True):
    way_id: str
    payment_amount: Amount
    currency_code: CurrencyCode
    ref_trx: Reference
    ipn_url: CallbackAddress
    description: Lines | None = None
    split: Annotated[GivenSplit | None, api_field(SPLIT)] = None

    @classmethod
    def field_errors(cls, values: dict[str, Any], _bad: Collection[str] = ()) -> dict[str, str]:
        problem = amount_problem(values.get("payment_amount"), values.get("currency_code"))
        return {"payment_amount": problem} if problem else {}


class MandateRequest(Struct, frozen=True, kw_only=True):
    amount_max: Amount
    currency_code: CurrencyCode
    bank_code: Annotated[Line, Meta(max_length=60)]
    account_number: Annotated[str, Meta(pattern=r"^[0-9]{10}$")]
    customer_address: Annotated[Line, Meta(max_length=200)]
    description: Annotated[Line, Meta(min_length=3, max_length=100)]
    end_date: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")]
    redirect_url: WebAddress

    @classmethod
    def field_errors(cls, values: dict[str, Any], _bad: Collection[str] = ()) -> dict[str, str]:
        problem = amount_problem(values.get("amount_max"), values.get("currency_code"))
        return {"amount_max": problem} if problem else {}


class WayList(Struct, frozen=True):
    data: list[WayInfo]


def endpoints(services: Services) -> list[Endpoint]:
    db = services.db

    async def list_ways(call: Call) -> WayList:
        await customers.of_tenant(db, call.tenant, call.parameter)
        found = await store.ways_of(db, call.tenant, call.parameter)
        return WayList([fields.describe(each) for each in found])

    async def create_mandate(call: Call) -> WayInfo:
        customer = await _active(services, call)
        own = remember(call, fields.describe)
        made = await services.mandates.create(call.caller, customer, _mandate(call.body), own)
        return fields.describe(made)

    async def revoke_way(call: Call) -> WayInfo:
        reference, way_id = call.parameters
        return fields.describe(await revoking.revoke(db, call.tenant, reference, way_id))

    async def charge_way(call: Call) -> WayChargeInfo:
        customer = await _active(services, call)
        order = _order(call, customer)
        return await services.way_charges.charge(call.caller, call.body.way_id, order, call.ticket)

    return [
        Endpoint(
            method="GET",
            path=CUSTOMER + "/ways",
            operation_id="listWays",
            summary="List a customer's saved ways to pay",
            description="Lists the cards and mandates that you can charge, or could charge before.",
            right=Right.READ,
            answers=(WayList,),
            use_case=list_ways,
            refusals=(CustomerNotFound,),
        ),
        Endpoint(
            method="POST",
            path=CUSTOMER + "/ways",
            operation_id="createMandate",
            summary="Ask a customer for a mandate",
            description="Creates a mandate (direct debit) for the customer's bank account. The "
            "customer must confirm it at `customer_action_url`, or as the bank asks by email.",
            right=Right.CHARGE,
            answers=(WayInfo,),
            use_case=create_mandate,
            body=MandateRequest,
            refusals=(
                *(InvalidAmount, CustomerNotFound, CustomerDisabled, MandateRefused),
                KeyUsedBefore,
            ),
            is_repeatable=True,
        ),
        Endpoint(
            method="DELETE",
            path=CUSTOMER + "/ways/{wayId}",
            operation_id="revokeWay",
            summary="Revoke a saved way to pay",
            description="Ends a card or mandate. It can never be charged again.",
            right=Right.CHARGE,
            answers=(WayInfo,),
            use_case=revoke_way,
            refusals=(WayNotFound,),
        ),
        Endpoint(
            method="POST",
            path=CUSTOMER + "/charges",
            operation_id="chargeWay",
            summary="Charge a saved way to pay",
            description="Charges a saved card or debits a mandate, without the customer. The "
            "charge is a payment, with the same notification. A declined charge has status 200 "
            "and `decline`.",
            right=Right.CHARGE,
            answers=(WayChargeInfo,),
            use_case=charge_way,
            body=WayChargeRequest,
            refusals=(
                *(*REFUSALS, CustomerNotFound, CustomerDisabled, WayNotFound, WayUnusable),
                RetryLimit,
            ),
            counts=True,
            is_repeatable=True,
            replay=lambda tenant, _reference, first, _api_key: services.way_charges.replay(
                tenant, first
            ),
            creates_transaction=True,
        ),
    ]


async def _active(services: Services, call: Call) -> CustomerRow:
    found = await customers.of_tenant(services.db, call.tenant, call.parameter)
    if found.disabled_at is not None:
        raise CustomerDisabled
    return found


def _order(call: Call, customer: CustomerRow) -> PaymentOrder:
    body = msgspec.structs.asdict(call.body)
    del body["way_id"]
    return PaymentOrder(
        **body,
        customer_reference=customer.reference,
        customer_name=customer.name,
        customer_email=customer.email,
        scenario=read_scenario(call),
        repeat_key=read_repeat_key(call.headers, call.path, call.raw_body),
    )


def _mandate(body: MandateRequest) -> MandateTerms:
    now = datetime.now(UTC)
    try:
        ends_at = datetime.combine(datetime.fromisoformat(body.end_date), time(), LAGOS)
    except ValueError:
        ends_at = now
    if not now < ends_at <= now + timedelta(days=365 * YEARS_MAX):
        text = f"Expected a date in the next {YEARS_MAX} years, such as 2028-01-31."
        raise ValidationFailed(errors={"end_date": text})
    return MandateTerms(
        amount=money_of(body.amount_max, body.currency_code),
        bank_code=body.bank_code,
        account_number=body.account_number,
        customer_address=body.customer_address,
        description=body.description,
        ends_at=ends_at,
        redirect_url=body.redirect_url,
    )
