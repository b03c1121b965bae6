"""Explains a payout's attempts: why each rail was chosen or skipped, and how the attempt ended."""

from enum import StrEnum

import msgspec

from manilla.kit.database.connections import Database
from manilla.kit.database.rows import columns
from manilla.payouts.attempts import Attempt, AttemptEnd
from manilla.routing.choice import RouteDecision, SkipReason

ONLY = "This was the only rail that could send the payout."
FIRST = "This was the first rail, in the configured order, that could send the payout."
OTHERS_FAIL = "Transfers to this bank were failing on the rails that come before this rail."
FOUND = "A status query found the transfer at this rail."


class AttemptState(StrEnum):
    """The result of an attempt, as shown on pages."""

    CURRENT = "current"
    REJECTED = "rejected the transfer"
    NOT_RECEIVED = "did not receive the transfer"
    ELSEWHERE = "another rail has the transfer"


_STATES = {
    AttemptEnd.REJECTED: AttemptState.REJECTED,
    AttemptEnd.NOT_RECEIVED: AttemptState.NOT_RECEIVED,
    AttemptEnd.ELSEWHERE: AttemptState.ELSEWHERE,
}


class ExplainedAttempt(Attempt, frozen=True):
    decision: RouteDecision | None  # None if a status query found the transfer at this rail

    @property
    def chosen_because(self) -> str:
        return FOUND if self.decision is None else chosen_because(self.decision)

    @property
    def skipped(self) -> dict[str, SkipReason]:
        return {} if self.decision is None else self.decision.skipped

    @property
    def state(self) -> AttemptState:
        """The attempt's result, without the provider's message."""
        if self.dead_at is None:
            return AttemptState.CURRENT
        # During an upgrade, processes that still run the previous version leave `ended_as` empty.
        return _STATES[self.ended_as or AttemptEnd.ELSEWHERE]


def chosen_because(decision: RouteDecision) -> str:
    rails = {rail.provider: rail for rail in decision.snapshot.rails}
    chosen = rails[decision.provider or ""]
    able = [rails[name] for name, reason in decision.skipped.items() if reason is SkipReason.LATER]
    if not able:
        return ONLY
    is_preferred = any(r.is_failing and r.priority < chosen.priority for r in able)
    return OTHERS_FAIL if is_preferred and not chosen.is_failing else FIRST


async def explain_attempts(db: Database, merchant_id: int, trx_id: str) -> list[ExplainedAttempt]:
    """Lists the payout's attempts, oldest first. If the merchant chose the rail, there are none."""
    records = await db.records(
        f"""
        SELECT {columns(ExplainedAttempt)} FROM payout_attempt
         WHERE merchant_id = $1 AND trx_id = $2 ORDER BY number""",
        *(merchant_id, trx_id),
    )
    return [
        msgspec.convert(
            {**dict(each), "decision": msgspec.json.decode(each["decision"]) or None},
            ExplainedAttempt,
        )
        for each in records
    ]
