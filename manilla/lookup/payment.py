"""Everything known about one payment. The caller sorts it by time."""

import msgspec

from manilla.kit.db import Database
from manilla.kit.environment import Environment
from manilla.ledger import listing as books
from manilla.ledger import timeline
from manilla.ledger.listing import PostingLine
from manilla.ledger.timeline import TimelineEvent
from manilla.merchants.requests import stored as stored_requests
from manilla.merchants.requests.stored import Request
from manilla.notify import listing as notices
from manilla.notify.listing import NotificationWithAttempts
from manilla.payments import charge_queries, queries
from manilla.payments.held_money import HeldMoney, held_money
from manilla.payments.payment import Charge, Payment
from manilla.providers import listing as providers
from manilla.providers.listing import ReceivedWebhook
from manilla.refunds import queries as refund_queries
from manilla.refunds.refund import Refund


class PaymentStory(msgspec.Struct, frozen=True):
    payment: Payment
    requests: list[Request]  # API requests for it, while they are retained
    charges: list[Charge]
    held: list[HeldMoney]
    refunds: list[Refund]
    webhooks: list[ReceivedWebhook]
    steps: list[TimelineEvent]
    postings: list[PostingLine]
    notifications: list[NotificationWithAttempts]


async def payment_story(
    db: Database, merchant_id: int, trx_id: str, *, environment: Environment | None = None
) -> PaymentStory | None:
    """Returns None if the merchant has no such payment (in the given environment)."""
    payment = await queries.payment(db, merchant_id, trx_id)
    if payment is None or environment not in (None, payment.environment):
        return None
    charges = await charge_queries.charges(db, merchant_id, trx_id)
    refunds = await refund_queries.refunds_of(db, merchant_id, trx_id)
    references = [charge.reference for charge in charges] + [refund.trx_id for refund in refunds]
    owners: dict[str, str | None] = {each.reference: each.provider for each in charges}
    owners |= {each.trx_id: each.provider for each in refunds}
    posted_under = [trx_id, *references]
    if payment.commission_trx_id is not None:
        posted_under.append(payment.commission_trx_id)
    return PaymentStory(
        payment=payment,
        requests=await stored_requests.requests_about(
            db, merchant_id, trx_id, payment.ref_trx, payment.created_at
        ),
        charges=charges,
        held=await held_money(db, charges),
        refunds=refunds,
        webhooks=await providers.webhooks_from_owners(db, merchant_id, owners),
        steps=await timeline.steps(db, merchant_id, trx_id),
        postings=await books.postings_of(db, merchant_id, posted_under),
        notifications=await notices.of_transaction(db, merchant_id, trx_id),
    )
