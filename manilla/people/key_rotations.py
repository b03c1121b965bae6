"""Notifies a merchant's owners that API keys were rotated, because new keys can create payouts."""

from datetime import datetime

import msgspec

from manilla.audit import audit
from manilla.audit.actor import Actor, ActorKind, current
from manilla.audit.audit import AuditFilter
from manilla.kit.db import Database
from manilla.kit.environment import Environment
from manilla.merchants import merchants
from manilla.people import links, members
from manilla.people.mail import Email, MailKind

SHOWN_MAX = 5


class KeyRotation(msgspec.Struct, frozen=True):
    environment: Environment
    by: str
    at: datetime


async def letters(
    db: Database, merchant_id: int, environment: Environment, base_url: str
) -> list[Email]:
    """Returns an email for every owner.

    It includes the owner who rotated the keys, because that session may have been stolen.
    """
    merchant = await merchants.get(db, merchant_id)
    text = f"{_name(current.get())} rotated the {environment} API keys of {merchant.name}."
    link = links.credentials(base_url, environment)
    owners = await members.owners_of(db, merchant_id)
    return [Email(MailKind.KEYS_ROTATED, owner.email, link, text) for owner in owners]


async def since(db: Database, merchant_id: int, start: datetime) -> list[KeyRotation]:
    """Returns key rotations, newest first, for the notice on the owners' dashboard."""
    wanted = AuditFilter(action="merchant.rotate", merchant_id=merchant_id, since=start)
    lines = await audit.listed(db, wanted, limit=SHOWN_MAX)
    return [
        KeyRotation(Environment(line.detail["environment"]), _name(line.actor), line.at)
        for line in lines
    ]


def _name(actor: Actor) -> str:
    if actor.kind is ActorKind.PERSON:
        return actor.name
    return f"The platform's operator ({actor.name})"
