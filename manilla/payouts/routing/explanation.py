"""Explains the attempts of a payout: why a rail was chosen, which were not, and how it ended."""

import msgspec

from manilla.kit.db import Database, columns
from manilla.payouts.routing.attempts import Attempt
from manilla.payouts.routing.choice import RouteDecision, SkipReason

ONLY = "It was the only rail that could send the payout."
FIRST = "It was the first in the order of the rails that could send the payout."
OTHERS_FAIL = "Transfers to this bank were failing on the rails before it."
REJECTED = "It rejected the transfer."
NOT_RECEIVED = "It did not receive the transfer."


class ExplainedAttempt(Attempt, frozen=True):
    decision: RouteDecision

    @property
    def chosen_because(self) -> str:
        return chosen_because(self.decision)

    @property
    def ended_because(self) -> str | None:
        """Says why the rail did not pay, without the provider's own words; None: not dead."""
        if self.dead_because is None:
            return None
        return REJECTED if self.dead_because.startswith("rejected") else NOT_RECEIVED


def chosen_because(decision: RouteDecision) -> str:
    rails = {rail.provider: rail for rail in decision.snapshot.rails}
    chosen = rails[decision.provider or ""]
    able = [rails[name] for name, reason in decision.skipped.items() if reason is SkipReason.LATER]
    if not able:
        return ONLY
    is_preferred = any(r.is_failing and r.priority < chosen.priority for r in able)
    return OTHERS_FAIL if is_preferred and not chosen.is_failing else FIRST


async def explained(db: Database, merchant_id: int, trx_id: str) -> list[ExplainedAttempt]:
    """Returns the payout's attempts, the first one first; empty if it has a fixed rail."""
    records = await db.records(
        f"""
        SELECT {columns(ExplainedAttempt)} FROM payout_attempt
         WHERE merchant_id = $1 AND trx_id = $2 ORDER BY number""",
        *(merchant_id, trx_id),
    )
    return [
        msgspec.convert(
            {**dict(each), "decision": msgspec.json.decode(each["decision"])}, ExplainedAttempt
        )
        for each in records
    ]
