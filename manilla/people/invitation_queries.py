"""SQL queries for invitations."""

from datetime import datetime, timedelta

import msgspec

from manilla.kit.db import Connection, Database
from manilla.people.roles import Realm


class Invitation(msgspec.Struct, frozen=True):
    id: int
    realm: str
    merchant_id: int | None
    merchant_name: str | None
    email: str
    role: str
    created_at: datetime
    expires_at: datetime


_INVITATION = """
    SELECT i.id, i.realm, i.merchant_id, c.name AS merchant_name, i.email, i.role, i.created_at,
           i.expires_at
      FROM invitation i LEFT JOIN merchant c ON c.id = i.merchant_id"""


async def insert(
    connection: Connection,
    token_hash: bytes,
    realm: Realm,
    merchant_id: int | None,
    email: str,
    role: str,
    invited_by: int | None,
    lasts: timedelta,
) -> None:
    """Inserts an invitation and deletes earlier open ones to the same email address."""
    await connection.execute(
        """
        DELETE FROM invitation
         WHERE realm = $1 AND merchant_id IS NOT DISTINCT FROM $2 AND email = $3
           AND accepted_at IS NULL""",
        realm,
        merchant_id,
        email,
    )
    await connection.execute(
        """
        INSERT INTO invitation (token_hash, realm, merchant_id, email, role, invited_by, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6, now() + $7)""",
        token_hash,
        realm,
        merchant_id,
        email,
        role,
        invited_by,
        lasts,
    )


async def open_by_token(
    db: Database | Connection, realm: Realm, token_hash: bytes
) -> Invitation | None:
    return await db.row(
        Invitation,
        _INVITATION
        + """
         WHERE i.token_hash = $1 AND i.realm = $2 AND i.accepted_at IS NULL
           AND i.expires_at > now()""",
        token_hash,
        realm,
    )


async def use(connection: Connection, invitation_id: int) -> bool:
    """Marks the invitation as accepted. Returns True for only one of several concurrent callers."""
    return await connection.has_row(
        """
        UPDATE invitation SET accepted_at = now()
         WHERE id = $1 AND accepted_at IS NULL AND expires_at > now()
        RETURNING id""",
        invitation_id,
    )


async def open_of_merchant(db: Database, merchant_id: int) -> list[Invitation]:
    return await db.rows(
        Invitation,
        _INVITATION
        + """
         WHERE i.merchant_id = $1 AND i.accepted_at IS NULL AND i.expires_at > now()
         ORDER BY i.created_at DESC, i.id DESC""",
        merchant_id,
    )


async def count_open(connection: Connection, merchant_id: int) -> int:
    return await connection.number(
        """
        SELECT count(*) FROM invitation
         WHERE merchant_id = $1 AND accepted_at IS NULL AND expires_at > now()""",
        merchant_id,
    )


async def delete(connection: Connection, merchant_id: int, invitation_id: int) -> str | None:
    """Returns the invited email address, or None if there is no such open invitation."""
    email: str | None = await connection.value(
        """
        DELETE FROM invitation
         WHERE merchant_id = $1 AND id = $2 AND accepted_at IS NULL
        RETURNING email""",
        merchant_id,
        invitation_id,
    )
    return email


async def is_member(connection: Connection, merchant_id: int, email: str) -> bool:
    found: bool = await connection.value(
        """
        SELECT EXISTS (SELECT FROM membership m JOIN person p ON p.id = m.person_id
                        WHERE m.merchant_id = $1 AND p.email = $2)""",
        merchant_id,
        email,
    )
    return found
