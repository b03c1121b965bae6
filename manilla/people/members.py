"""The members of a merchant's team, which always has an owner who can sign in."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from manilla.audit import audit
from manilla.audit.actor import current
from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Refusal
from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from manilla.merchants import merchants
from manilla.people import passwords, persons, queries
from manilla.people.queries import Person
from manilla.people.roles import Permission, Realm, Role, permissions_of

# A new member can approve requests only after this time, so that the other owners can object.
# Without the delay, the inviting member could approve their own requests as the invited member.
APPROVES_AFTER = timedelta(hours=24)
ENDS_APPROVING = "ends_approving"  # a field in the details of audit entries


class Member(msgspec.Struct, frozen=True):
    person_id: int
    email: str
    name: str
    role: str
    status: str
    has_totp: bool
    created_at: datetime
    last_login_at: datetime | None
    approves_from: datetime  # the time after which the member can approve requests


class MerchantMembership(msgspec.Struct, frozen=True):
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


class BreakGlassMember(Refusal):
    status, code = 409, "BREAK_GLASS_ACCOUNT"
    message = "This is the break-glass account of company sign-in. Choose another one there first."


class MemberNotFound(Refusal):
    status, code = 404, "MEMBER_NOT_FOUND"
    message = "There is no such member."


async def list_of(db: Database | Connection, merchant_id: int) -> list[Member]:
    return await db.rows(
        Member,
        """
        SELECT p.id AS person_id, p.email, p.name, m.role, p.status,
               p.totp_confirmed_at IS NOT NULL AS has_totp, m.created_at, p.last_login_at,
               m.approves_from
          FROM membership m JOIN person p ON p.id = m.person_id
         WHERE m.merchant_id = $1
         ORDER BY m.created_at, p.id""",
        merchant_id,
    )


async def owners_of(db: Database, merchant_id: int) -> list[Member]:
    """Returns the merchant's owners who can sign in."""
    found = await list_of(db, merchant_id)
    return [each for each in found if each.role == Role.OWNER and each.status == "active"]


async def able(db: Database | Connection, merchant_id: int, permission: Permission) -> list[Member]:
    """Returns the merchant's members who can sign in and have this permission."""
    found = await list_of(db, merchant_id)
    return [
        each
        for each in found
        if each.status == "active" and permission in permissions_of(each.role)
    ]


async def merchants_of(db: Database | Connection, person_id: int) -> list[MerchantMembership]:
    """Returns the user's merchants in the order of joining, active merchants first."""
    return await db.rows(
        MerchantMembership,
        """
        SELECT m.merchant_id, c.name AS merchant_name, c.status AS merchant_status, m.role
          FROM membership m JOIN merchant c ON c.id = m.merchant_id
         WHERE m.person_id = $1
         ORDER BY c.status IN ('rejected', 'disabled'), m.created_at, m.merchant_id""",
        person_id,
    )


async def join(
    connection: Connection,
    merchant_id: int,
    person_id: int,
    role: Role,
    approves_after: timedelta = APPROVES_AFTER,
) -> bool:
    """Makes the user a member of the merchant. Returns False if they already are a member."""
    return await connection.has_row(
        """
        INSERT INTO membership (merchant_id, person_id, role, approves_from)
        VALUES ($1, $2, $3, now() + $4::interval)
            ON CONFLICT DO NOTHING
        RETURNING person_id""",
        *(merchant_id, person_id, role, approves_after),
    )


async def add(
    db: Database, merchant_id: int, *, email: str, name: str, role: Role, password: str
) -> Person:
    """Adds a member without an invitation. Only the operator can do this.

    The member can approve requests immediately. An existing user keeps their name and password.
    """
    email, name = persons.read_email(email), persons.read_name(name)
    passwords.check(password, email=email, name=name)
    password_hash = await passwords.hash_of(password)
    async with db.transaction() as connection:
        await merchants.get(connection, merchant_id)
        await queries.insert_person(
            connection, Realm.DASHBOARD, email, name, password_hash=password_hash
        )
        person = await persons.find(connection, Realm.DASHBOARD, email)
        if not await join(connection, merchant_id, person.id, role, timedelta()):
            raise AlreadyMember
        await report(connection, merchant_id, f"added {email} as {role}", except_person=person.id)
        await record(connection, "member.add", merchant_id, person.id, email=email, role=role)
    return person


async def change_role(db: Database, merchant_id: int, person_id: int, role: Role) -> None:
    """Changes a member's role, which takes effect with the member's next request."""
    async with db.transaction() as connection:
        before = await _lock(connection, merchant_id, person_id, stays_owner=role is Role.OWNER)
        changed = audit.difference({"role": before}, {"role": role})
        if not changed:
            return
        starts = _moves_money(role) and not _moves_money(before)
        await connection.execute(
            """
            UPDATE membership
               SET role = $3, approves_from = CASE WHEN $4 THEN now() + $5 ELSE approves_from END
             WHERE merchant_id = $1 AND person_id = $2""",
            *(merchant_id, person_id, role, starts, APPROVES_AFTER),
        )
        email = await _email(connection, person_id)
        await report(
            connection, merchant_id, f"changed the role of {email} from {before} to {role}"
        )
        ends = _moves_money(before) and not _moves_money(role)
        detail = {"changed": changed, **_ends(ends)}
        await record(connection, "member.role", merchant_id, person_id, **detail)


async def remove(db: Database, merchant_id: int, person_id: int) -> None:
    """Removes a member from the merchant, and ends the member's sessions there."""
    async with db.transaction() as connection:
        role = await _lock(connection, merchant_id, person_id, stays_owner=False)
        email = await _email(connection, person_id)
        await connection.execute(
            "DELETE FROM membership WHERE merchant_id = $1 AND person_id = $2",
            *(merchant_id, person_id),
        )
        await queries.end_sessions(connection, person_id, merchant_id=merchant_id)
        await report(connection, merchant_id, f"removed {email}, who was {role}")
        ends = _ends(_moves_money(role))
        await record(connection, "member.remove", merchant_id, person_id, role=role, **ends)


async def _email(connection: Connection, person_id: int) -> str:
    person = await queries.person(connection, person_id)
    assert person is not None
    return person.email


def _moves_money(role: str) -> bool:
    return Permission.MOVE_MONEY in permissions_of(role)


def _ends(is_so: bool) -> dict[str, bool]:
    """Returns the audit detail for a member who can no longer approve requests."""
    return {ENDS_APPROVING: True} if is_so else {}


async def has_lost_approver(connection: Connection, merchant_id: int) -> bool:
    """Returns whether a member who could approve was removed or demoted in the last 24 hours."""
    return await connection.has_row(
        """
        SELECT true FROM audit
         WHERE merchant_id = $1 AND action IN ('member.remove', 'member.role')
           AND detail ? $2 AND at > now() - $3::interval
         LIMIT 1""",
        *(merchant_id, ENDS_APPROVING, APPROVES_AFTER),
    )


async def approves_from(
    connection: Database | Connection, merchant_id: int, person_id: int
) -> datetime | None:
    """Returns when the user may first approve requests, or None if they are not a member."""
    found: datetime | None = await connection.value(
        "SELECT approves_from FROM membership WHERE merchant_id = $1 AND person_id = $2",
        *(merchant_id, person_id),
    )
    return found


async def delay_approvals(connection: Connection, person_id: int) -> None:
    """Makes the user wait before they can approve, as a new member does.

    Whoever manages a provider can sign in as its users. They could set up a second factor there.
    """
    await connection.execute(
        """
        UPDATE membership SET approves_from = greatest(approves_from, now() + $2::interval)
         WHERE person_id = $1""",
        *(person_id, APPROVES_AFTER),
    )


async def report(
    connection: Connection,
    merchant_id: int,
    what: str,
    *,
    by: str | None = None,
    except_person: int | None = None,
) -> None:
    """Emails every owner about a change to the team.

    The owner who made the change also gets the email, because somebody may use a stolen session.
    """
    await outbox.put(
        connection,
        MailKind.TEAM_CHANGED,
        {"by": by or current.get().public_name, "what": what},
        path="/dashboard/team",
        merchant_id=merchant_id,
        except_person=except_person,
    )


async def _lock(
    connection: Connection, merchant_id: int, person_id: int, *, stays_owner: bool
) -> str:
    """Locks all members, so that two owners cannot remove each other. Returns the member's role."""
    roles = await _lock_roles(connection, merchant_id)
    if person_id not in roles:
        raise MemberNotFound
    owners = [who for who, known in roles.items() if known == (Role.OWNER, "active")]
    if owners == [person_id] and not stays_owner:
        raise LastOwner
    if not stays_owner and await _is_break_glass(connection, merchant_id, person_id):
        raise BreakGlassMember
    return roles[person_id][0]


async def _is_break_glass(connection: Connection, merchant_id: int, person_id: int) -> bool:
    """Whether only this member can sign in while the merchant's provider does not respond."""
    return await connection.has_row(
        """
        SELECT true FROM sign_in_provider s JOIN person p ON p.email = s.break_glass
         WHERE s.merchant_id = $1 AND s.is_required AND p.id = $2""",
        *(merchant_id, person_id),
    )


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


async def record(
    connection: Connection, action: str, merchant_id: int, person_id: int, **detail: Any
) -> None:
    subject = f"person:{person_id}"
    await audit.record(connection, action, subject, merchant_id=merchant_id, **detail)
