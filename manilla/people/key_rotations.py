"""Rotations of a merchant's API keys, for the notice on the owners' dashboard."""

from datetime import datetime

import msgspec

from manilla.audit import audit
from manilla.audit.audit import AuditFilter
from manilla.kit.db import Database
from manilla.kit.environment import Environment

SHOWN_MAX = 5


class KeyRotation(msgspec.Struct, frozen=True):
    environment: Environment
    by: str
    at: datetime


async def since(db: Database, merchant_id: int, start: datetime) -> list[KeyRotation]:
    """Returns key rotations, newest first."""
    wanted = AuditFilter(action="merchant.rotate", merchant_id=merchant_id, since=start)
    lines = await audit.listed(db, wanted, limit=SHOWN_MAX)
    return [
        KeyRotation(Environment(line.detail["environment"]), line.actor.public_name, line.at)
        for line in lines
    ]
