"""Lets an administrator stop new payouts through a provider account.

The system still tracks payouts that were already sent through the account until they are final.
"""

from manilla.audit import audit
from manilla.kit import changes
from manilla.kit.database.connections import Database
from manilla.providers import accounts, queries


async def drain(db: Database, provider: str) -> bool:
    """Stops new payouts through this account. Returns False if they are already stopped."""
    return await _set(db, provider, is_drained=True)


async def undrain(db: Database, provider: str) -> bool:
    """Permits new payouts through this account. Returns False if they are already permitted."""
    return await _set(db, provider, is_drained=False)


async def _set(db: Database, provider: str, *, is_drained: bool) -> bool:
    async with db.transaction() as connection:
        await accounts.kind_of(connection, provider)  # raises an error if the account is unknown
        await changes.announce(connection, changes.RAILS)
        if not await queries.set_drained(connection, provider, is_drained=is_drained):
            return False
        action = "rail.drain" if is_drained else "rail.undrain"
        await audit.record(connection, action, f"provider:{provider}")
    return True
