"""The previous release, which knows no disputes, runs beside this one during an upgrade."""

from typing import Any

import msgspec
import pytest
from asyncpg import CheckViolationError

from tests.disputes.steps import WON, Disputes, Paid, money, naira


async def _change_payment(disputes: Disputes, paid: Paid, **changed: Any) -> None:
    """Writes the outcome of a payment with the columns of release 0.14.0."""
    payment = await disputes.shop.payment(paid.started)
    columns = (
        *("status", "error_code", "commission_trx_id", "credited_charge", "refunded_minor"),
        "received_minor",
    )
    item = {
        "item": 0,
        "merchant_id": payment.merchant_id,
        "trx_id": payment.trx_id,
        "environment": payment.environment,
        "currency": payment.currency,
        "credit_minor": 0,
        "jobs": [],
        "step": "note",
        "from_status": payment.status,
        "to_status": payment.status,
        "facts": {},
        "payment_key": payment.trx_id,
        **{f"payment_{name}": getattr(payment, name) for name in columns},
        **{f"payment_{name}": value for name, value in changed.items()},
    }
    arrays = ", ".join(["'{}'"] * 11)
    await disputes.db.value(
        f"SELECT outcomes_apply($1::jsonb, {arrays}, ARRAY[0], NULL)",
        msgspec.json.encode([item]).decode(),
    )


async def test_the_previous_release_changes_payments_and_keeps_what_is_disputed(
    disputes: Disputes,
) -> None:
    paid = await disputes.pay()
    await disputes.open(paid, "400")
    await _change_payment(disputes, paid)
    assert (await disputes.shop.payment(paid.started)).disputed == naira("400")
    await disputes.report(paid.reported(WON, "400"))
    assert await disputes.money() == money(wallet=1000)


async def test_the_previous_release_cannot_refund_what_is_disputed(disputes: Disputes) -> None:
    paid = await disputes.pay()
    await disputes.open(paid, "400")
    with pytest.raises(CheckViolationError):
        await _change_payment(disputes, paid, refunded_minor=1000_00)
