"""API endpoints that create, verify and list refunds."""

from collections.abc import Collection
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from manilla.api.endpoint import Call, Endpoint
from manilla.api.fields import Amount, Reference
from manilla.api.lists import TransactionPages, TransactionQuery
from manilla.api.refusals import InvalidAmount
from manilla.api.request import read_repeat_key, read_scenario
from manilla.kit.texts import Line
from manilla.ledger.transactions import DuplicateReference, TransactionNotFound
from manilla.merchants.rights import Right
from manilla.refunds import fields, order
from manilla.refunds.fields import ReportedRefund, VerifiedRefund
from manilla.refunds.order import InitiatedRefund, OrderedRefund
from manilla.refunds.postings import RefundNotCovered, RefundRefused
from manilla.refunds.refund import REASON_LENGTH_MAX
from manilla.services import Services

INITIATE, LIST = "/api/v1/initiate-refund", "/api/v1/refunds"
NOT_ABOVE_ZERO = "The amount must be above zero."


class RefundRequest(Struct, frozen=True, kw_only=True):
    trx_id: str
    ref_trx: Reference
    amount: Amount | None = None
    reason: Annotated[Line, Meta(max_length=REASON_LENGTH_MAX)] | None = None

    @classmethod
    def field_errors(cls, values: dict[str, Any], _bad: Collection[str] = ()) -> dict[str, str]:
        amount = values.get("amount")
        return {} if amount is None or amount > 0 else {"amount": NOT_ABOVE_ZERO}


class RefundsQuery(TransactionQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    status: Literal["pending", "success", "failed"] | None = None


class RefundList(Struct, frozen=True):
    data: list[VerifiedRefund]
    next_cursor: str | None


def endpoints(services: Services) -> list[Endpoint]:
    db = services.db
    refunds = TransactionPages(
        services,
        LIST,
        table="refund",
        columns=fields.COLUMNS,
        statuses={word: (status,) for word, status in fields.STATUSES.items()},
    )

    async def initiate_refund(call: Call) -> InitiatedRefund:
        return await order.place(db, call.caller, _order(call))

    async def verify_refund(call: Call) -> VerifiedRefund:
        return await fields.verify(services.reader, call.tenant, call.parameter)

    async def list_refunds(call: Call) -> RefundList:
        rows, cursor = await refunds.page(call)
        return RefundList([fields.describe(ReportedRefund(*row)) for row in rows], cursor)

    return [
        Endpoint(
            method="POST",
            path=INITIATE,
            summary="Initiate a refund",
            description="Refunds a payment to its customer, in full or in part. The wallet is "
            "debited immediately.",
            right=Right.REFUNDS,
            answers=(InitiatedRefund,),
            use_case=initiate_refund,
            body=RefundRequest,
            refusals=(
                InvalidAmount,
                TransactionNotFound,
                DuplicateReference,
                RefundRefused,
                RefundNotCovered,
            ),
            is_repeatable=True,
            creates_transaction=True,
        ),
        Endpoint(
            method="GET",
            path="/api/v1/verify-refund/{trxId}",
            summary="Verify a refund",
            description="Returns a refund's status. Use the environment in which it was created.",
            right=Right.READ,
            answers=(VerifiedRefund,),
            use_case=verify_refund,
            refusals=(TransactionNotFound,),
        ),
        Endpoint(
            method="GET",
            path=LIST,
            operation_id="listRefunds",
            summary="List refunds",
            description="Lists your refunds, newest first, with the fields of verify-refund.",
            right=Right.READ,
            answers=(RefundList,),
            use_case=list_refunds,
            query=RefundsQuery,
        ),
    ]


def _order(call: Call) -> OrderedRefund:
    return OrderedRefund(
        **msgspec.structs.asdict(call.body),
        scenario=read_scenario(call),
        repeat_key=read_repeat_key(call.headers, INITIATE, call.raw_body),
        api_key=call.api_key,
    )
