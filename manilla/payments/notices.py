"""Notifications and events about the status of a payment or refund, and receipts.

Only the final status of a payment, and a completed refund, are sent to `ipn_url`. The other changes
are events, which the merchant's endpoints receive.
"""

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
from manilla.merchants import branding
from manilla.merchants import queries as merchants
from manilla.merchants.directory import Caller
from manilla.notify import outbox
from manilla.notify.events.kinds import EventType
from manilla.payments.payment import NewPayment, Payment, PaymentErrorCode, PaymentStatus
from manilla.payments.verify import Commission, describe_commission

EVENT = "payment"
REFUND_MESSAGES = {
    "pending": "Refund Pending",
    "completed": "Payment Refunded",
    "failed": "Refund Failed",
}


class PaymentNoticeData(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The payment. It has `amount_received` if the customer paid a wrong amount."""

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
    amount_received: Decimal | None = None


class RefundNoticeData(PaymentNoticeData, frozen=True, kw_only=True, omit_defaults=True):
    refund_amount: Decimal
    refund_trx_id: str
    refund_source: str | None = None  # None: the wallet


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
    """Queues the notification in the transaction that changes the status.

    Without `ipn_url`, the notification is only an event.
    """
    assert payment.status is not PaymentStatus.PENDING
    merchant_name = await _merchant_name(connection, payment)
    notice = _notice(payment, merchant_name)
    event_type = EventType(f"{EVENT}.{payment.status}")
    await _enqueue(connection, payment, notice, event_type, payment.ipn_url)


def pending(caller: Caller, new: NewPayment) -> dict[str, str]:
    """Returns the event for a new payment, or an empty dict if no endpoint is subscribed to it."""
    if EVENT not in caller.pending_events:
        return {}
    payment = Payment(
        **msgspec.structs.asdict(new),
        status=PaymentStatus.PENDING,
        error_code=None,
        commission_trx_id=None,
        updated_at=new.created_at,
        opened_at=None,
        credited_charge=None,
        refunded_minor=0,
    )
    notice = _notice(payment, caller.name)
    return outbox.pending(caller.merchant_id, notice.event, notice)


async def mail_receipt(connection: Connection, payment: Payment) -> None:
    """Emails the customer a receipt, if the merchant has enabled receipts.

    Never in the sandbox, because anyone with sandbox keys could send emails to anybody.
    """
    if payment.is_sandbox or not payment.customer_email or not is_email(payment.customer_email):
        return
    if await merchants.sends_receipts(connection, payment.merchant_id):
        await mail_receipt_to(connection, payment, payment.customer_email)


async def mail_receipt_to(connection: Connection, payment: Payment, address: str) -> None:
    brand = await branding.find(connection, payment.merchant_id)
    facts = {
        "amount": money(payment.quote.customer_pays),
        "description": payment.description or "",
        "reference": payment.ref_trx,
        "trx_id": payment.trx_id,
        "at": f"{datetime.now(UTC):%d %B %Y, %H:%M} UTC",
        "support": brand.support,
        "logo": brand.logo_url or "",
    }
    await mail.put(
        connection,
        MailKind.RECEIPT,
        facts,
        path="/",
        merchant_id=payment.merchant_id,
        address=address,
    )


async def enqueue_refund(
    connection: Connection,
    payment: Payment,
    refund_trx_id: str,
    amount: Money,
    status: str,
    source: str | None = None,
) -> None:
    """Queues the notification about a completed refund, or the event about another status."""
    event_type = EventType(f"refund.{status}")
    if status == "pending" and not await outbox.has_readers(
        connection, payment.merchant_id, payment.environment, event_type
    ):
        return
    about = msgspec.structs.asdict(_data(payment, await _merchant_name(connection, payment)))
    data = RefundNoticeData(
        **about,
        refund_amount=amount.amount,
        refund_trx_id=refund_trx_id,
        refund_source=source,
    )
    notice = RefundNotice("refund", data, REFUND_MESSAGES[status], status, int(time.time()))
    url = payment.ipn_url if status == "completed" else ""
    await _enqueue(connection, payment, notice, event_type, url)


async def _enqueue(
    connection: Connection,
    payment: Payment,
    notice: PaymentNotice | RefundNotice | LegacyNotice,
    event_type: EventType,
    url: str,
) -> None:
    await outbox.enqueue(
        connection,
        merchant_id=payment.merchant_id,
        environment=payment.environment,
        trx_id=payment.trx_id,
        url=url,
        payload=notice,
        event=notice.event,
        type=event_type,
        status=notice.status,
    )


async def _merchant_name(connection: Connection, payment: Payment) -> str:
    merchant = await merchants.merchant(connection, payment.merchant_id)
    assert merchant is not None
    return merchant.name


def _notice(payment: Payment, merchant_name: str) -> PaymentNotice | LegacyNotice:
    status = _status(payment)
    if payment.is_legacy:
        return _legacy(payment, "failed" if status == "canceled" else status)
    return PaymentNotice(
        EVENT,
        _data(payment, merchant_name),
        f"Payment {status.title()}",
        status,
        int(time.time()),
        error_code=payment.error_code,
    )


def _status(payment: Payment) -> str:
    if payment.error_code is PaymentErrorCode.PAYMENT_CANCELED:
        return "canceled"
    return "completed" if payment.status is PaymentStatus.SUCCESS else payment.status


def _data(payment: Payment, merchant_name: str) -> PaymentNoticeData:
    return PaymentNoticeData(
        ref_trx=payment.ref_trx,
        trx_id=payment.trx_id,
        description=payment.description,
        ipn_url=payment.ipn_url,
        customer_name=payment.customer_name,
        customer_email=payment.customer_email,
        merchant_name=merchant_name,
        amount=payment.amount.amount,
        base_amount=payment.amount.amount,
        currency_code=payment.currency,
        environment=payment.environment,
        is_sandbox=payment.is_sandbox,
        commission=describe_commission(payment),
        amount_received=None if payment.received_minor is None else payment.received.amount,
    )


def _legacy(payment: Payment, status: str) -> LegacyNotice:
    return LegacyNotice(
        event="payment.success" if status == "completed" else f"payment.{status}",
        trx_id=payment.trx_id,
        amount=payment.amount.amount,
        currency=payment.currency,
        status=status,
    )
