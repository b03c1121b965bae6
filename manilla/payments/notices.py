"""Notifications and events about the status of a payment or refund, and receipts.

Only a payment's final status and a completed refund are sent to `ipn_url`. The merchant's webhook
endpoints also receive events about the other status changes.
"""

from datetime import UTC, datetime

import msgspec

from manilla.kit.database.connections import Connection
from manilla.kit.money import Money
from manilla.kit.texts import is_email
from manilla.languages import language as languages
from manilla.languages.language import CustomerLanguage
from manilla.mail import outbox as mail
from manilla.mail.kinds import MailKind
from manilla.merchants import branding
from manilla.merchants import queries as merchants
from manilla.merchants.directory import Caller
from manilla.notify import outbox
from manilla.notify.events.kinds import EventType, event_type_of
from manilla.payments.fields import (
    EVENT,
    LegacyNotice,
    PaymentNotice,
    RefundNotice,
    describe_notice,
    describe_refund,
    way_of,
)
from manilla.payments.payment import NewPayment, Payment, PaymentStatus


def payment_notice(payment: Payment, merchant_name: str) -> dict[str, str]:
    """Returns the notification about the payment's status, as fields of its outcome."""
    assert payment.status is not PaymentStatus.PENDING
    notice = describe_notice(payment, merchant_name)
    return _notice(payment, notice, event_type_of(EVENT, payment.status), payment.ipn_url)


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
    notice = describe_notice(payment, caller.name)
    return outbox.pending(caller.merchant_id, notice.event, notice)


async def mail_receipt(connection: Connection, payment: Payment) -> None:
    """Emails the customer a receipt, if the merchant has enabled receipts.

    The sandbox sends no receipts, because anyone with sandbox keys could send emails to anybody.
    """
    if payment.is_sandbox or not payment.customer_email or not is_email(payment.customer_email):
        return
    if await merchants.sends_receipts(connection, payment.merchant_id):
        language = languages.find(payment.language)
        await mail_receipt_to(connection, payment, payment.customer_email, language)


async def mail_receipt_to(
    connection: Connection, payment: Payment, address: str, language: CustomerLanguage
) -> None:
    brand, now = await branding.find(connection, payment.merchant_id), datetime.now(UTC)
    way = way_of(payment)
    facts = {
        "amount": language.money(payment.quote.customer_pays),
        "description": payment.description or "",
        "reference": payment.ref_trx,
        "trx_id": payment.trx_id,
        "at": f"{language.day(now)}, {now:%H:%M} UTC",
        "support": brand.support,
        "logo": brand.logo_url or "",
        "language": language.code,
        # When the link to the payment expires, if its receipt links to a saved way to pay.
        "way": payment.expires_at.isoformat() if way else "",
        "way_label": way.label if way else "",
    }
    await mail.put(
        connection,
        MailKind.RECEIPT,
        facts,
        path="/",
        merchant_id=payment.merchant_id,
        address=address,
    )


async def refund_notice(
    connection: Connection,
    payment: Payment,
    refund_trx_id: str,
    refund_ref_trx: str | None,
    amount: Money,
    status: str,
    source: str | None = None,
) -> dict[str, str]:
    """Returns the notification about a completed refund, or the event about another status.

    A new refund has no event if no endpoint is subscribed to it.
    """
    event_type = event_type_of("refund", status)
    if status == "pending" and not await outbox.has_readers(
        connection, payment.merchant_id, payment.environment, event_type
    ):
        return {}
    merchant_name = await find_merchant_name(connection, payment)
    ids = refund_trx_id, refund_ref_trx
    notice = describe_refund(payment, merchant_name, *ids, amount, status, source)
    return _notice(payment, notice, event_type, payment.ipn_url if status == "completed" else "")


def _notice(
    payment: Payment,
    notice: PaymentNotice | RefundNotice | LegacyNotice,
    event_type: EventType,
    url: str,
) -> dict[str, str]:
    return outbox.notice(payment.merchant_id, url, notice, notice.event, event_type, notice.status)


async def find_merchant_name(connection: Connection, payment: Payment) -> str:
    merchant = await merchants.merchant(connection, payment.merchant_id)
    assert merchant is not None
    return merchant.name
