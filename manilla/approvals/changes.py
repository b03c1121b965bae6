"""Applies a change immediately, or requests a second person's approval if the change needs it."""

import msgspec

from manilla.approvals import approvals, kinds
from manilla.approvals.approvals import Approvals
from manilla.approvals.kinds import Change, Result


class ApprovalRequested(msgspec.Struct, frozen=True):
    """The result of a change that is not applied yet, because it needs an approval."""

    approval_id: int


async def check(services: Approvals, change: Change) -> None:
    """Rejects an invalid change before the user is asked to confirm their identity."""
    async with services.db.transaction() as connection:
        await approvals.check(connection, services, change)


async def apply_or_ask(
    services: Approvals, change: Change, reason: str = ""
) -> Result | ApprovalRequested:
    """Applies the change, or requests an approval if the change needs one.

    In development mode, only changes by merchants' teams need approval.
    """
    is_needed = services.is_production_mode or kinds.is_of_team(change)
    async with services.db.transaction() as connection:
        await approvals.check(connection, services, change)
        if is_needed and await kinds.needs_second(connection, services.keyring, change):
            asked = await approvals.request_in(connection, services.keyring, change, reason)
            return ApprovalRequested(asked)
        return await kinds.apply(connection, services.keyring, change)
