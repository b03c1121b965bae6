"""Applies a change immediately, or requests a second person's approval if the change needs it."""

import msgspec

from manilla.approvals import approvals, kinds
from manilla.approvals.approvals import Approvals
from manilla.approvals.kinds import Change, Result
from manilla.payouts.protection.protection import ProtectionChange


class ApprovalRequested(msgspec.Struct, frozen=True):
    """The change was not applied yet. A second person must decide on the approval with this id."""

    approval_id: int


async def check(services: Approvals, change: Change) -> None:
    """Rejects a change that can never be applied, before the user has to confirm it."""
    async with services.db.transaction() as connection:
        await approvals.check(connection, services, change)


async def apply_or_ask(
    services: Approvals, change: Change, reason: str = ""
) -> Result | ApprovalRequested:
    """Applies the change or requests its approval.

    In development mode, only merchants' teams need approvals.
    """
    is_needed = services.is_production_mode or isinstance(change, ProtectionChange)
    async with services.db.transaction() as connection:
        await approvals.check(connection, services, change)
        if is_needed and await kinds.needs_second(connection, services.keyring, change):
            asked = await approvals.request_in(connection, services.keyring, change, reason)
            return ApprovalRequested(asked)
        return await kinds.apply(connection, services.keyring, change)
