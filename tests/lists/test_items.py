"""A list item equals the verify response byte for byte, for every transaction type and status."""

import re
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Any

import msgspec
import pytest

from manilla.merchants.merchants import CommissionBearer
from manilla.payments import states
from manilla.payments.payment import PaymentErrorCode, PaymentStatus
from manilla.payments.states import PaymentEvent
from manilla.payouts import decisions
from manilla.payouts.payout import PayoutStatus
from manilla.refunds.refund import RefundStatus
from tests.lists.pages import get
from tests.payments import steps
from tests.payments.orders import new_reference
from tests.payouts.payout_merchant import MANUAL, PayoutMerchant

# JSON can escape these characters in different ways.
ODD_TEXT = 'Ọja "fresh" \\ fish / <b> & 😀'
CREATED_AT = re.compile(rb',"created_at":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"\}$')
FAILURES = {
    PaymentErrorCode.PAYMENT_DECLINED: PaymentEvent.DECLINED,
    PaymentErrorCode.INSUFFICIENT_FUNDS: PaymentEvent.DECLINED,
    PaymentErrorCode.PAYMENT_CANCELED: PaymentEvent.CANCELED,
    PaymentErrorCode.EXPIRED_SESSION: PaymentEvent.EXPIRED,
}


class RawPage(msgspec.Struct):
    data: list[msgspec.Raw]


class ItemKind(msgspec.Struct, frozen=True):
    table: str
    list_path: str
    verify_path: str
    statuses: type[StrEnum]
    # Create at least one transaction with each status.
    make: Callable[[PayoutMerchant], Awaitable[None]]


async def _make_payments(payer: PayoutMerchant) -> None:
    services, merchant = payer.services, payer.merchant
    customer = {
        "description": ODD_TEXT,
        "customer_name": ODD_TEXT,
        "customer_email": "ada@b.example",
    }
    for bearer in CommissionBearer:
        await steps.set_commission(services, merchant, "1.5", bearer)
        paid = await steps.new_payment(merchant, "success", payment_amount=43.21, **customer)
        await steps.complete(services, merchant, paid)
    for code, event in FAILURES.items():
        trx_id = await steps.new_payment(merchant, "pending")
        await states.end_in_sandbox(services.db, merchant.new.id, trx_id, event, code)
    await steps.new_payment(merchant, "pending")


async def _make_payouts(payer: PayoutMerchant) -> None:
    services = payer.services
    for scenario in ("success", "failed", "pending"):
        order = await payer.order(description=ODD_TEXT, payout_amount=1043.21)
        trx_id = (await payer.send(order, X_Sandbox_Scenario=scenario)).json["trx_id"]
        await payer.simulator.run_job_now("payout.sandbox", trx_id)
    for reason in ("The bank is closed.", ODD_TEXT):
        await decisions.reject(services.db, services.rails, await payer.pay_out(MANUAL), reason)
    await decisions.complete(services.db, await payer.pay_out(MANUAL), "FT-1")


async def _make_refunds(payer: PayoutMerchant) -> None:
    merchant = payer.merchant
    paid = await steps.new_payment(merchant, "success")
    await steps.complete(payer.services, merchant, paid)
    for scenario in ("success", "failed", "pending"):
        for reason in (None, ODD_TEXT):
            order = {"trx_id": paid, "ref_trx": new_reference(), "amount": 1.5, "reason": reason}
            body = msgspec.json.encode(order)
            path = "/api/v1/initiate-refund"
            made = await merchant.call("POST", path, body, X_Sandbox_Scenario=scenario)
            assert made.status == 200, made.body
    await payer.simulator.run_jobs()


KINDS = {
    "payment": ItemKind(
        "payment",
        "/api/v1/payments",
        "/api/v1/verify-payment/",
        PaymentStatus,
        _make_payments,
    ),
    "payout": ItemKind(
        "payout", "/api/v1/payouts", "/api/v1/verify-payout/", PayoutStatus, _make_payouts
    ),
    "refund": ItemKind(
        "refund", "/api/v1/refunds", "/api/v1/verify-refund/", RefundStatus, _make_refunds
    ),
}


async def _stored_statuses(payer: PayoutMerchant, table: str) -> set[str]:
    records: list[Any] = await payer.services.db.records(
        f"SELECT DISTINCT status FROM {table} WHERE merchant_id = $1", payer.merchant.new.id
    )
    return {record["status"] for record in records}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
async def test_an_item_is_the_text_of_the_verify_response(
    sandbox_payer: PayoutMerchant, kind: ItemKind
) -> None:
    await kind.make(sandbox_payer)
    assert await _stored_statuses(sandbox_payer, kind.table) == set(kind.statuses)
    reply = await get(sandbox_payer.merchant, kind.list_path, limit=100)
    for item in msgspec.json.decode(reply.body, type=RawPage).data:
        trx_id = msgspec.json.decode(item)["trx_id"]
        verified = (await sandbox_payer.from_new_ip().merchant.get(kind.verify_path + trx_id)).body
        if b'"created_at":' in verified:
            assert bytes(item) == verified
        else:  # Only list items contain the creation time.
            assert CREATED_AT.sub(b"}", bytes(item)) == verified
            assert CREATED_AT.search(item)
