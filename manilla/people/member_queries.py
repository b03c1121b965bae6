"""SQL queries for the members of merchants."""

from datetime import datetime

import msgspec

from manilla.kit.db import Connection, Database
from manilla.people.roles import Role


class Member(msgspec.Struct, frozen=True):
    person_id: int
    email: str
    name: str
    role: str
    status: str
    has_totp: bool
    created_at: datetime
    last_login_at: datetime | None


class MerchantMembership(msgspec.Struct, frozen=True):
    """A merchant that a user is a member of."""

    merchant_id: int
    merchant_name: str
    merchant_status: str
    role: str


async def members(db: Database, merchant_id: int) -> list[Member]:
    return await db.rows(
        Member,
        """
        SELECT p.id AS person_id, p.email, p.name, m.role, p.status,
               p.totp_confirmed_at IS NOT NULL AS has_totp, m.created_at, p.last_login_at
          FROM membership m JOIN person p ON p.id = m.person_id
         WHERE m.merchant_id = $1
         ORDER BY m.created_at, p.id""",
        merchant_id,
    )


async def belongings(db: Database | Connection, person_id: int) -> list[MerchantMembership]:
    """The user's merchants: active ones first, then by age."""
    return await db.rows(
        MerchantMembership,
        """
        SELECT m.merchant_id, c.name AS merchant_name, c.status AS merchant_status, m.role
          FROM membership m JOIN merchant c ON c.id = m.merchant_id
         WHERE m.person_id = $1
         ORDER BY c.status IN ('rejected', 'disabled'), m.created_at, m.merchant_id""",
        person_id,
    )


async def insert_membership(
    connection: Connection, merchant_id: int, person_id: int, role: Role
) -> bool:
    """Returns False if the user is already a member."""
    return await connection.has_row(
        """
        INSERT INTO membership (merchant_id, person_id, role) VALUES ($1, $2, $3)
            ON CONFLICT DO NOTHING
        RETURNING person_id""",
        merchant_id,
        person_id,
        role,
    )


async def lock_roles(connection: Connection, merchant_id: int) -> dict[int, tuple[str, str]]:
    """Locks the members' rows, and returns each member's role and status."""
    rows = await connection.records(
        """
        SELECT m.person_id, m.role, p.status
          FROM membership m JOIN person p ON p.id = m.person_id
         WHERE m.merchant_id = $1
         ORDER BY m.person_id FOR UPDATE OF m""",
        merchant_id,
    )
    return {row["person_id"]: (row["role"], row["status"]) for row in rows}


async def set_role(connection: Connection, merchant_id: int, person_id: int, role: Role) -> None:
    await connection.execute(
        "UPDATE membership SET role = $3 WHERE merchant_id = $1 AND person_id = $2",
        merchant_id,
        person_id,
        role,
    )


async def delete_membership(connection: Connection, merchant_id: int, person_id: int) -> None:
    await connection.execute(
        "DELETE FROM membership WHERE merchant_id = $1 AND person_id = $2", merchant_id, person_id
    )
