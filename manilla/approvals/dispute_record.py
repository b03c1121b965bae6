"""Records of disputes, which need a second administrator if they move much money in production.

An administrator records what a provider without an API for disputes shows. Nobody but the
administrator has seen it, and it can release money to a merchant's wallet, or take it.
"""

from typing import Any

import msgspec

from manilla.disputes import manual
from manilla.disputes.dispute import Dispute
from manilla.disputes.manual import RecordEffect
from manilla.kit.database.connections import Connection
from manilla.kit.environment import Environment
from manilla.kit.money import Money
from manilla.platform import settings
from manilla.providers.port import DisputeState


class DisputeRecord(msgspec.Struct, frozen=True, tag="dispute_record"):
    """Records a dispute. The approver sees the effect `seen`, and no other effect is applied."""

    provider: str
    state: DisputeState
    note: str
    seen: RecordEffect
    needs_second: bool = False

    @property
    def merchant_id(self) -> int:
        return self.seen.merchant_id

    @property
    def environment(self) -> Environment:
        return self.seen.environment

    @property
    def amount(self) -> Money:
        return self.seen.amount

    @property
    def subject(self) -> str:
        """The dispute, or its payment if the record opens the dispute."""
        if self.seen.trx_id is None:
            return f"payment:{self.seen.payment_trx_id}"
        return f"dispute:{self.seen.trx_id}"

    def describe(self) -> dict[str, Any]:
        seen, state = self.seen, self.state
        moved = {
            name: amount
            for name in ("released", "taken", "fee", "commission")
            if (amount := getattr(seen, name)).minor
        }
        return {
            "amount": self.amount,
            "environment": self.environment,
            "payment": seen.payment_trx_id,
            "provider": self.provider,
            "provider_reference": state.provider_reference,
            "status": _changed(seen.status_before, seen.status),
            "disputed": _changed(seen.disputed_before, seen.disputed),
            **moved,
            "stage": state.stage,
            "category": state.category,
            "reason": state.reason,
            "opened_at": state.opened_at,
            "respond_by": state.respond_by,
            "note": self.note,
        }


async def check(connection: Connection, change: DisputeRecord) -> None:
    """Raises the error that `apply` would raise now."""
    current = await settings.load(connection)
    what = change.provider, change.state, change.note
    effect = await manual.preview(connection, current, *what)
    effect.check(change.seen)


async def apply(connection: Connection, change: DisputeRecord) -> Dispute:
    current = await settings.load(connection)
    what = change.provider, change.state, change.note
    return await manual.record(connection, current, *what, seen=change.seen)


def _changed(before: object, after: object) -> object:
    return after if before in (None, after) else {"before": before, "after": after}
