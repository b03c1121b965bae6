"""The contents of signed webhooks about a transaction.

Manilla never acts on a webhook's content, but queries the provider instead. If the webhook
contradicts the provider's response, an administrator reviews the transaction.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

import msgspec

from manilla.kit.batch import SharedReads
from manilla.kit.database.connections import BY_KEY, Connection, Database
from manilla.kit.database.rows import columns
from manilla.kit.money import Money, claimed_text
from manilla.providers.port import Claim, WebhookSubject

# If a signed webhook contradicts our amount or a status response, wait this long before acting.
# After this time, a status response is used even if it contradicts the webhook.
CONFIRMATION_SECONDS = 20.0


class Claimed(msgspec.Struct, frozen=True):
    """The content of a signed webhook about a charge, transfer or refund."""

    amount: Decimal | None
    currency: str | None
    status: str | None
    age_seconds: float  # seconds since the webhook's last delivery
    received_at: datetime  # time of the webhook's last delivery

    def agrees_with(self, expected: Money) -> bool:
        return Claim(self.amount, self.currency).agrees_with(expected)

    def is_within(self, first: Money, total: Money) -> bool:
        """Whether the total was the claimed amount while it grew from the first amount."""
        if self.amount is None or self.amount.is_nan() or first.currency != total.currency:
            return False
        is_same_currency = self.currency in (None, total.currency)
        return is_same_currency and first.amount <= self.amount <= total.amount

    @property
    def text(self) -> str:
        if self.amount is None:
            return f"the currency {self.currency}"
        if self.amount.is_nan():
            return f"an unreadable amount {self.currency or ''}".strip()
        return claimed_text(self.amount, self.currency)


_CLAIMED = columns(
    Claimed,
    amount="w.claimed_amount",
    currency="w.claimed_currency",
    status="w.claimed_status",
    age_seconds="extract(epoch FROM now() - w.last_received_at)::float8",
    received_at="w.last_received_at",
)


async def claims_of(
    db: "ClaimReader | Database | Connection",
    kind: WebhookSubject,
    merchant_id: int,
    reference: str,
    provider: str,
) -> list[Claimed]:
    """Returns the contents of this provider's webhooks about the transaction."""
    if isinstance(db, ClaimReader):
        return await db.claims_of(kind, merchant_id, reference, provider)
    return await db.rows(
        Claimed,
        f"""
        SELECT {_CLAIMED} FROM webhook w
         WHERE w.merchant_id = $1 AND w.reference = $2 AND w.provider = $3 AND w.kind = $4
         ORDER BY w.received_at""",
        *(merchant_id, reference, provider, kind),
    )


class ClaimReader:
    """Loads the webhook contents for many transactions in one SQL statement. See `claims_of`."""

    def __init__(self, db: Database) -> None:
        self._reads = SharedReads(db.keep_connection(BY_KEY))

    async def claims_of(
        self, kind: WebhookSubject, merchant_id: int, reference: str, provider: str
    ) -> list[Claimed]:
        records = await self._reads.records(
            f"""
            SELECT g.place, {_CLAIMED}
              FROM unnest($1::integer[], $2::bigint[], $3::text[], $4::text[], $5::text[])
                   AS g (place, merchant_id, reference, provider, kind)
              -- Only the index by reference fits: `+ 0` and `|| ''` exclude the primary key.
              JOIN webhook w ON w.merchant_id + 0 = g.merchant_id
                            AND w.reference = ANY (ARRAY[g.reference])
                            AND w.provider || '' = g.provider AND w.kind = g.kind
             ORDER BY w.received_at + interval '0'  -- excludes the index by time""",
            *(merchant_id, reference, provider, kind),
        )
        return [Claimed(*record[1:]) for record in records]


def disagreeing(claims: Sequence[Claimed], expected: Money) -> list[Claimed]:
    return [claim for claim in claims if not claim.agrees_with(expected)]


def confirmation_wait_seconds(disagreeing: Sequence[Claimed]) -> float:
    """Returns how many seconds to wait before acting on the provider's response.

    The minimum is 0.
    """
    wait = (CONFIRMATION_SECONDS - claim.age_seconds for claim in disagreeing)
    return max((0.0, *wait))
