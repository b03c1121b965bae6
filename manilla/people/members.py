"""The members of a merchant. Every merchant has at least one owner who can sign in."""

from typing import Any

from manilla.audit import audit
from manilla.kit.db import Connection, Database
from manilla.kit.errors import Refusal
from manilla.merchants import merchants
from manilla.people import member_queries, passwords, persons, queries, session_queries
from manilla.people.invitations import AlreadyMember
from manilla.people.member_queries import Member, MerchantMembership
from manilla.people.queries import Person
from manilla.people.roles import Realm, Role


class LastOwner(Refusal):
    status, code = 409, "LAST_OWNER"
    message = "A merchant must have at least one owner. Make another member an owner first."


class MemberNotFound(Refusal):
    status, code = 404, "MEMBER_NOT_FOUND"
    message = "There is no such member."


async def list_of(db: Database, merchant_id: int) -> list[Member]:
    return await member_queries.members(db, merchant_id)


async def owners_of(db: Database, merchant_id: int) -> list[Member]:
    """The owners who can sign in."""
    found = await member_queries.members(db, merchant_id)
    return [each for each in found if each.role == Role.OWNER and each.status == "active"]


async def merchants_of(db: Database, person_id: int) -> list[MerchantMembership]:
    return await member_queries.belongings(db, person_id)


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
        if not await member_queries.insert_membership(connection, merchant_id, person.id, role):
            raise AlreadyMember
        await _record(connection, "member.add", merchant_id, person.id, email=email, role=role)
    return person


async def change_role(db: Database, merchant_id: int, person_id: int, role: Role) -> None:
    """Takes effect with the member's next request."""
    async with db.transaction() as connection:
        before = await _lock(connection, merchant_id, person_id, stays_owner=role is Role.OWNER)
        await member_queries.set_role(connection, merchant_id, person_id, role)
        changed = audit.difference({"role": before}, {"role": role})
        if changed:
            await _record(connection, "member.role", merchant_id, person_id, changed=changed)


async def remove(db: Database, merchant_id: int, person_id: int) -> None:
    """Removes a member and ends their sessions with this merchant. Other memberships are kept."""
    async with db.transaction() as connection:
        role = await _lock(connection, merchant_id, person_id, stays_owner=False)
        await member_queries.delete_membership(connection, merchant_id, person_id)
        await session_queries.delete_of_person(connection, person_id, merchant_id=merchant_id)
        await _record(connection, "member.remove", merchant_id, person_id, role=role)


async def _lock(
    connection: Connection, merchant_id: int, person_id: int, *, stays_owner: bool
) -> str:
    """Returns the member's role. Locks all members, so that two owners cannot remove each other."""
    roles = await member_queries.lock_roles(connection, merchant_id)
    if person_id not in roles:
        raise MemberNotFound
    owners = [who for who, known in roles.items() if known == (Role.OWNER, "active")]
    if owners == [person_id] and not stays_owner:
        raise LastOwner
    return roles[person_id][0]


async def _record(
    connection: Connection, action: str, merchant_id: int, person_id: int, **detail: Any
) -> None:
    subject = f"person:{person_id}"
    await audit.record(connection, action, subject, merchant_id=merchant_id, **detail)
