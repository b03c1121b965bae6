"""Everything known about one payout. The caller sorts it by time."""

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
from manilla.payouts import queries
from manilla.payouts.payout import Payout
from manilla.providers import listing as providers
from manilla.providers.listing import ReceivedWebhook


class PayoutStory(msgspec.Struct, frozen=True):
    payout: Payout
    requests: list[Request]  # API requests for it, while they are retained
    webhooks: list[ReceivedWebhook]
    steps: list[TimelineEvent]
    postings: list[PostingLine]
    notifications: list[NotificationWithAttempts]


async def payout_story(
    db: Database, merchant_id: int, trx_id: str, *, environment: Environment | None = None
) -> PayoutStory | None:
    """Returns None if the merchant has no such payout (in the given environment)."""
    payout = await queries.payout(db, merchant_id, trx_id)
    if payout is None or environment not in (None, payout.environment):
        return None
    return PayoutStory(
        payout=payout,
        requests=await stored_requests.requests_about(
            db, merchant_id, trx_id, payout.ref_trx, payout.created_at
        ),
        webhooks=await providers.webhooks_from_owners(db, merchant_id, {trx_id: payout.provider}),
        steps=await timeline.steps(db, merchant_id, trx_id),
        postings=await books.postings_of(db, merchant_id, [trx_id]),
        notifications=await notices.of_transaction(db, merchant_id, trx_id),
    )
