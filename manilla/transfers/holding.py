"""The hold on all transfers. While it lasts, no worker sends anything."""

from datetime import datetime

from manilla.kit.db import Connection, Database
from manilla.kit.errors import Refusal
from manilla.platform import settings


class NotHeld(Refusal):
    message = "Payouts are not on hold."


async def hold(db: Database) -> None:
    await settings.change(db, "payouts_held", "true")


async def hold_start(db: Database | Connection) -> datetime | None:
    """Returns when payouts were put on hold, or None. Always reads from the database."""
    since: datetime | None = await db.value(
        "SELECT updated_at FROM setting WHERE key = 'payouts_held' AND value = 'true'"
    )
    return since


async def held_since(db: Database) -> datetime:
    since = await hold_start(db)
    if since is None:
        raise NotHeld
    return since
