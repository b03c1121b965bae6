"""What signed webhooks claim about a transaction of their provider.

We never act on a claim: we query the provider. A claim that contradicts its answer is reviewed by
an administrator.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

import msgspec

from manilla.kit.db import Connection, Database
from manilla.kit.money import Money
from manilla.providers.port import Claim, EventKind

# For this long after a webhook that names a different amount or currency, we do not act on the
# provider's answer. The first status query after that decides alone: earlier answers are not kept,
# so the two are not compared.
CONFIRMATION_SECONDS = 20.0


class Claimed(msgspec.Struct, frozen=True):
    """A signed webhook about a charge, transfer or refund."""

    amount: Decimal | None
    currency: str | None
    status: str | None
    age_seconds: float  # since its last delivery
    received_at: datetime  # its last delivery

    def agrees_with(self, expected: Money) -> bool:
        return Claim(self.amount, self.currency).agrees_with(expected)

    @property
    def text(self) -> str:
        if self.amount is None:
            return f"the currency {self.currency}"
        amount = "an unreadable amount" if self.amount.is_nan() else f"{self.amount:f}"
        return f"{amount} {self.currency or ''}".strip()


async def claims_of(
    db: Database | Connection, kind: EventKind, merchant_id: int, reference: str, provider: str
) -> list[Claimed]:
    """Returns what this provider's webhooks claimed about the transaction."""
    return await db.rows(
        Claimed,
        """
        SELECT claimed_amount AS amount, claimed_currency AS currency, claimed_status AS status,
               extract(epoch FROM now() - last_received_at)::float8 AS age_seconds,
               last_received_at AS received_at
          FROM webhook
         WHERE merchant_id = $1 AND reference = $2 AND provider = $3 AND kind = $4
         ORDER BY received_at""",
        *(merchant_id, reference, provider, kind),
    )


def disagreeing(claims: Sequence[Claimed], expected: Money) -> list[Claimed]:
    return [claim for claim in claims if not claim.agrees_with(expected)]


def confirmation_wait_seconds(disagreeing: Sequence[Claimed]) -> float:
    """Returns how long to wait before acting on the provider's answer; 0 if no wait is needed."""
    wait = (CONFIRMATION_SECONDS - claim.age_seconds for claim in disagreeing)
    return max((0.0, *wait))
