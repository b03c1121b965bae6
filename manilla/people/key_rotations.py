"""Finds a merchant's recently created API keys. The dashboard alerts owners about them."""

from datetime import datetime

import msgspec

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.kit.database.connections import Database
from manilla.kit.environment import Environment

SHOWN_MAX = 5


class NewKey(msgspec.Struct, frozen=True):
    environment: Environment
    by: str
    at: datetime
    name: str | None  # the additional key's name, or None for the main key


async def since(db: Database, merchant_id: int, start: datetime) -> list[NewKey]:
    """Returns the main and additional API keys created since `start`, newest first."""
    lines = [
        line
        for action in ("merchant.rotate", "merchant.key_create")
        for line in await audit.list_entries(
            db,
            AuditFilter(action=action, merchant_id=merchant_id, since=start),
            limit=SHOWN_MAX,
        )
    ]
    found = [
        NewKey(
            Environment(line.detail["environment"]),
            line.actor.public_name,
            line.at,
            line.detail.get("name"),
        )
        for line in lines
    ]
    return sorted(found, key=lambda new: new.at, reverse=True)[:SHOWN_MAX]
