"""Lists signed webhooks about a transaction, without their bodies."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal

import msgspec

from manilla.kit.database.connections import Database
from manilla.kit.database.rows import columns


class ReceivedWebhook(msgspec.Struct, frozen=True):
    provider: str
    kind: str
    reference: str
    claimed_amount: Decimal | None
    claimed_currency: str | None
    claimed_status: str | None  # the status in the webhook, only for transfers
    received_at: datetime


async def webhooks_from_owners(
    db: Database, merchant_id: int, owners: Mapping[str, str | None]
) -> list[ReceivedWebhook]:
    """Returns the webhooks about these references, only from each reference's own provider."""
    heard = await webhooks_about(db, merchant_id, list(owners))
    return [each for each in heard if owners[each.reference] == each.provider]


async def webhooks_about(
    db: Database, merchant_id: int, references: Sequence[str]
) -> list[ReceivedWebhook]:
    return await db.rows(
        ReceivedWebhook,
        f"""
        SELECT {columns(ReceivedWebhook)} FROM webhook
         WHERE merchant_id = $1 AND reference = ANY($2::text[])
         ORDER BY received_at LIMIT 500""",
        *(merchant_id, list(references)),
    )
