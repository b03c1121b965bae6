"""Notifications to merchants about the final status of a payment or refund, and receipts."""

import time
from datetime import UTC, datetime
from decimal import Decimal

import msgspec

from manilla.kit.db import Connection
from manilla.kit.display import money
from manilla.kit.money import Money
from manilla.kit.texts import is_email
from manilla.mail import outbox as mail
from manilla.mail.kinds import MailKind
from manilla.merchants import queries as merchants
from manilla.notify import outbox
from manilla.payments.payment import Payment, PaymentErrorCode, PaymentStatus
from manilla.payments.verify import Commission, describe_commission


class PaymentNoticeData(msgspec.Struct, frozen=True):
    ref_trx: str
    trx_id: str
    description: str | None
    ipn_url: str
    customer_name: str | None
    customer_email: str | None
    merchant_name: str
    amount: Decimal
    base_amount: Decimal
    currency_code: str
    environment: str
    is_sandbox: bool
    commission: Commission


class RefundNoticeData(PaymentNoticeData, frozen=True):
    refund_amount: Decimal
    refund_trx_id: str


class PaymentNotice(msgspec.Struct, frozen=True, omit_defaults=True):
    event: str
    data: PaymentNoticeData
    message: str
    status: str
    timestamp: int
    error_code: str | None = None


class RefundNotice(msgspec.Struct, frozen=True):
    event: str
    data: RefundNoticeData
    message: str
    status: str
    timestamp: int


class LegacyNotice(msgspec.Struct, frozen=True):
    event: str
    trx_id: str
    amount: Decimal
    currency: str
    status: str


async def enqueue_payment(connection: Connection, payment: Payment) -> None:
    """Queues the notification in the transaction that changes the status, if ipn_url is set."""
    assert payment.status is not PaymentStatus.PENDING
    notice = _legacy(payment) if payment.is_legacy else await _payment(connection, payment)
    await _enqueue(connection, payment, notice)


async def mail_receipt(connection: Connection, payment: Payment) -> None:
    """Emails the customer a receipt, if the merchant has chosen so.

    Never in the sandbox: whoever has sandbox keys could send emails to anybody.
    """
    if payment.is_sandbox or not payment.customer_email or not is_email(payment.customer_email):
        return
    if not await merchants.sends_receipts(connection, payment.merchant_id):
        return
    facts = {
        "amount": money(payment.quote.customer_pays),
        "description": payment.description or "",
        "reference": payment.ref_trx,
        "trx_id": payment.trx_id,
        "at": f"{datetime.now(UTC):%d %B %Y, %H:%M} UTC",
    }
    await mail.put(
        connection,
        MailKind.RECEIPT,
        facts,
        path="/",
        merchant_id=payment.merchant_id,
        address=payment.customer_email,
    )


async def enqueue_refund(
    connection: Connection, payment: Payment, refund_trx_id: str, amount: Money
) -> None:
    about = msgspec.structs.asdict(await _data(connection, payment))
    data = RefundNoticeData(**about, refund_amount=amount.amount, refund_trx_id=refund_trx_id)
    notice = RefundNotice("refund", data, "Payment Refunded", "completed", int(time.time()))
    await _enqueue(connection, payment, notice)


async def _enqueue(
    connection: Connection, payment: Payment, notice: PaymentNotice | RefundNotice | LegacyNotice
) -> None:
    if not payment.ipn_url:
        return
    await outbox.enqueue(
        connection,
        merchant_id=payment.merchant_id,
        environment=payment.environment,
        trx_id=payment.trx_id,
        url=payment.ipn_url,
        payload=notice,
        event=notice.event,
        status=notice.status,
    )


async def _payment(connection: Connection, payment: Payment) -> PaymentNotice:
    if payment.status is PaymentStatus.SUCCESS:
        message, status = "Payment Completed", "completed"
    elif payment.error_code is PaymentErrorCode.PAYMENT_CANCELED:
        message, status = "Payment Canceled", "canceled"
    else:
        message, status = "Payment Failed", "failed"
    data = await _data(connection, payment)
    return PaymentNotice(
        "payment", data, message, status, int(time.time()), error_code=payment.error_code
    )


async def _data(connection: Connection, payment: Payment) -> PaymentNoticeData:
    merchant = await merchants.merchant(connection, payment.merchant_id)
    assert merchant is not None
    return PaymentNoticeData(
        ref_trx=payment.ref_trx,
        trx_id=payment.trx_id,
        description=payment.description,
        ipn_url=payment.ipn_url,
        customer_name=payment.customer_name,
        customer_email=payment.customer_email,
        merchant_name=merchant.name,
        amount=payment.amount.amount,
        base_amount=payment.amount.amount,
        currency_code=payment.currency,
        environment=payment.environment,
        is_sandbox=payment.is_sandbox,
        commission=describe_commission(payment),
    )


def _legacy(payment: Payment) -> LegacyNotice:
    is_paid = payment.status is PaymentStatus.SUCCESS
    return LegacyNotice(
        event="payment.success" if is_paid else "payment.failed",
        trx_id=payment.trx_id,
        amount=payment.amount.amount,
        currency=payment.currency,
        status="completed" if is_paid else "failed",
    )
