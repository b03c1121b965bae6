"""The members of a merchant. Every merchant has at least one owner who can sign in."""

from datetime import datetime
from typing import Any

import msgspec

from manilla.audit import audit
from manilla.kit.db import Connection, Database
from manilla.kit.errors import Refusal
from manilla.merchants import merchants
from manilla.people import passwords, persons, queries
from manilla.people.queries import Person
from manilla.people.roles import Permission, Realm, Role, permissions_of


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


class AlreadyMember(Refusal):
    status, code = 409, "ALREADY_MEMBER"
    message = "This person is already a member."


class LastOwner(Refusal):
    status, code = 409, "LAST_OWNER"
    message = "A merchant must have at least one owner. Make another member an owner first."


class MemberNotFound(Refusal):
    status, code = 404, "MEMBER_NOT_FOUND"
    message = "There is no such member."


async def list_of(db: Database | Connection, merchant_id: int) -> list[Member]:
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


async def owners_of(db: Database, merchant_id: int) -> list[Member]:
    """Returns the owners who can sign in."""
    found = await list_of(db, merchant_id)
    return [each for each in found if each.role == Role.OWNER and each.status == "active"]


async def able(db: Database | Connection, merchant_id: int, permission: Permission) -> list[Member]:
    """Returns the members who can sign in and have the permission."""
    found = await list_of(db, merchant_id)
    return [
        each
        for each in found
        if each.status == "active" and permission in permissions_of(each.role)
    ]


async def merchants_of(db: Database | Connection, person_id: int) -> list[MerchantMembership]:
    """Returns the user's merchants: active ones first, then by age."""
    return await db.rows(
        MerchantMembership,
        """
        SELECT m.merchant_id, c.name AS merchant_name, c.status AS merchant_status, m.role
          FROM membership m JOIN merchant c ON c.id = m.merchant_id
         WHERE m.person_id = $1
         ORDER BY c.status IN ('rejected', 'disabled'), m.created_at, m.merchant_id""",
        person_id,
    )


async def join(connection: Connection, merchant_id: int, person_id: int, role: Role) -> bool:
    """Adds a membership. Returns False if the user is already a member."""
    return await connection.has_row(
        """
        INSERT INTO membership (merchant_id, person_id, role) VALUES ($1, $2, $3)
            ON CONFLICT DO NOTHING
        RETURNING person_id""",
        merchant_id,
        person_id,
        role,
    )


async def add(
    db: Database, merchant_id: int, *, email: str, name: str, role: Role, password: str
) -> Person:
    """Adds a member without an invitation. An existing user keeps their name and password."""
    email, name = persons.read_email(email), persons.read_name(name)
    passwords.check(password, email=email, name=name)
    password_hash = await passwords.hash_of(password)
    async with db.transaction() as connection:
        await merchants.get(connection, merchant_id)
        await queries.insert_person(
            connection, Realm.DASHBOARD, email, name, password_hash=password_hash
        )
        person = await persons.find(connection, Realm.DASHBOARD, email)
        if not await join(connection, merchant_id, person.id, role):
            raise AlreadyMember
        await _record(connection, "member.add", merchant_id, person.id, email=email, role=role)
    return person


async def change_role(db: Database, merchant_id: int, person_id: int, role: Role) -> None:
    """Changes a member's role, which takes effect with the member's next request."""
    async with db.transaction() as connection:
        before = await _lock(connection, merchant_id, person_id, stays_owner=role is Role.OWNER)
        await connection.execute(
            "UPDATE membership SET role = $3 WHERE merchant_id = $1 AND person_id = $2",
            *(merchant_id, person_id, role),
        )
        changed = audit.difference({"role": before}, {"role": role})
        if changed:
            await _record(connection, "member.role", merchant_id, person_id, changed=changed)


async def remove(db: Database, merchant_id: int, person_id: int) -> None:
    """Removes a member and ends their sessions with this merchant, but no other memberships."""
    async with db.transaction() as connection:
        role = await _lock(connection, merchant_id, person_id, stays_owner=False)
        await connection.execute(
            "DELETE FROM membership WHERE merchant_id = $1 AND person_id = $2",
            *(merchant_id, person_id),
        )
        await queries.end_sessions(connection, person_id, merchant_id=merchant_id)
        await _record(connection, "member.remove", merchant_id, person_id, role=role)


async def _lock(
    connection: Connection, merchant_id: int, person_id: int, *, stays_owner: bool
) -> str:
    """Returns the member's role. Locks all members, so that two owners cannot remove each other."""
    roles = await _lock_roles(connection, merchant_id)
    if person_id not in roles:
        raise MemberNotFound
    owners = [who for who, known in roles.items() if known == (Role.OWNER, "active")]
    if owners == [person_id] and not stays_owner:
        raise LastOwner
    return roles[person_id][0]


async def _lock_roles(connection: Connection, merchant_id: int) -> dict[int, tuple[str, str]]:
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


async def _record(
    connection: Connection, action: str, merchant_id: int, person_id: int, **detail: Any
) -> None:
    subject = f"person:{person_id}"
    await audit.record(connection, action, subject, merchant_id=merchant_id, **detail)
