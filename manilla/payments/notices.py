"""Notifications to merchants about the final status of a payment."""

import time
from typing import Any

from manilla.kit.db import Connection
from manilla.kit.money import Money
from manilla.merchants import queries as merchants
from manilla.notify import outbox
from manilla.payments.payment import Payment, PaymentErrorCode, PaymentStatus
from manilla.payments.verify import describe_commission


async def tell_of_payment(connection: Connection, payment: Payment) -> None:
    """Queues the notification, in the transaction that changes the status."""
    assert payment.status is not PaymentStatus.PENDING
    payload = _legacy(payment) if payment.is_legacy else await _payment(connection, payment)
    await _tell(connection, payment, payload)


async def tell_of_refund(
    connection: Connection, payment: Payment, refund_trx_id: str, amount: Money
) -> None:
    data = await _data(connection, payment)
    data["refund_amount"] = amount.amount
    data["refund_trx_id"] = refund_trx_id
    await _tell(connection, payment, _envelope("refund", data, "Payment Refunded", "completed"))


async def _tell(connection: Connection, payment: Payment, payload: dict[str, Any]) -> None:
    await outbox.enqueue(
        connection,
        merchant_id=payment.merchant_id,
        environment=payment.environment,
        trx_id=payment.trx_id,
        url=payment.ipn_url,
        payload=payload,
        event=payload["event"],
        status=payload["status"],
    )


async def _payment(connection: Connection, payment: Payment) -> dict[str, Any]:
    data = await _data(connection, payment)
    if payment.status is PaymentStatus.SUCCESS:
        return _envelope("payment", data, "Payment Completed", "completed")
    is_canceled = payment.error_code is PaymentErrorCode.PAYMENT_CANCELED
    message, status = (
        ("Payment Canceled", "canceled") if is_canceled else ("Payment Failed", "failed")
    )
    return {**_envelope("payment", data, message, status), "error_code": payment.error_code}


def _envelope(event: str, data: dict[str, Any], message: str, status: str) -> dict[str, Any]:
    return {
        "event": event,
        "data": data,
        "message": message,
        "status": status,
        "timestamp": int(time.time()),
    }


async def _data(connection: Connection, payment: Payment) -> dict[str, Any]:
    merchant = await merchants.merchant(connection, payment.merchant_id)
    assert merchant is not None
    return {
        "ref_trx": payment.ref_trx,
        "trx_id": payment.trx_id,
        "description": payment.description,
        "ipn_url": payment.ipn_url,
        "customer_name": payment.customer_name,
        "customer_email": payment.customer_email,
        "merchant_name": merchant.name,
        "amount": payment.amount.amount,
        "base_amount": payment.amount.amount,
        "currency_code": payment.currency,
        "environment": payment.environment,
        "is_sandbox": payment.is_sandbox,
        "commission": describe_commission(payment),
    }


def _legacy(payment: Payment) -> dict[str, Any]:
    is_paid = payment.status is PaymentStatus.SUCCESS
    return {
        "event": "payment.success" if is_paid else "payment.failed",
        "trx_id": payment.trx_id,
        "amount": payment.amount.amount,
        "currency": payment.currency,
        "status": "completed" if is_paid else "failed",
    }
