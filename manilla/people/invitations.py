"""Invitations: links that work once, for seven days.

A new user chooses a name and a password with the link. A user who already has an account in the
realm must sign in to join. The link alone must not add an account to a merchant, because somebody
else may have signed up with the invited person's email address.
"""

from datetime import datetime, timedelta

import msgspec

from manilla.audit import audit
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Refusal
from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from manilla.merchants import merchants
from manilla.merchants.queries import MerchantRow
from manilla.people import links, members, passwords, persons, queries, sessions, tokens
from manilla.people.roles import ConsoleRole, Realm, Role
from manilla.people.sessions import NewSession
from manilla.people.visitor import Visitor

LASTS = timedelta(days=7)
OPEN_MAX = 100


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


class BadInvitation(Refusal):
    status, code = 404, "BAD_INVITATION"
    message = "This invitation was used or withdrawn, or has expired. Ask for a new invitation."


class SignInToJoin(Refusal):
    status, code = 409, "SIGN_IN_TO_JOIN"
    message = "You already have an account. Sign in, then open the link again."


class NotYourInvitation(Refusal):
    status, code = 403, "NOT_YOUR_INVITATION"
    message = "This invitation is for another email address. Sign in with that email address."


class TooManyInvitations(Refusal):
    status, code = 409, "TOO_MANY_INVITATIONS"
    message = f"{OPEN_MAX} invitations are pending. Cancel some first."


async def invite(
    db: Database, keyring: Keyring, by: int | None, merchant_id: int, email: str, role: Role
) -> str:
    """Emails an invitation and returns the token of its link. Only the token's hash is stored.

    `by` is the id of the inviting user, or None if the operator invites.
    """
    email = persons.read_email(email)
    async with db.transaction() as connection:
        merchant = await merchants.get(connection, merchant_id)
        if await _is_member(connection, merchant_id, email):
            raise members.AlreadyMember
        if await _count_open(connection, merchant_id) >= OPEN_MAX:
            raise TooManyInvitations
        return await invite_member(connection, keyring, by, merchant, email, role)


async def invite_member(
    connection: Connection,
    keyring: Keyring,
    by: int | None,
    merchant: MerchantRow,
    email: str,
    role: Role,
) -> str:
    """Invites a person as `invite` does, without checking whether that is allowed."""
    token = await write(
        connection, keyring, Realm.DASHBOARD, merchant.id, email, role, by, merchant.name
    )
    await members.report(connection, merchant.id, f"invited {email} as {role}")
    subject = f"merchant:{merchant.id}"
    await audit.record(
        connection, "member.invite", subject, merchant_id=merchant.id, email=email, role=role
    )
    return token


async def _count_open(connection: Connection, merchant_id: int) -> int:
    return await connection.number(
        """
        SELECT count(*) FROM invitation
         WHERE merchant_id = $1 AND accepted_at IS NULL AND expires_at > now()""",
        merchant_id,
    )


async def _is_member(connection: Connection, merchant_id: int, email: str) -> bool:
    return await connection.has_row(
        """
        SELECT true FROM membership m JOIN person p ON p.id = m.person_id
         WHERE m.merchant_id = $1 AND p.email = $2""",
        *(merchant_id, email),
    )


async def write(
    connection: Connection,
    keyring: Keyring,
    realm: Realm,
    merchant_id: int | None,
    email: str,
    role: Role | ConsoleRole,
    by: int | None,
    place: str,
) -> str:
    """Creates and emails an invitation, and returns the token of its link.

    Deletes earlier invitations to the same email address.
    """
    token = tokens.new()
    await connection.execute(
        """
        DELETE FROM invitation
         WHERE realm = $1 AND merchant_id IS NOT DISTINCT FROM $2 AND email = $3
           AND accepted_at IS NULL""",
        *(realm, merchant_id, email),
    )
    await connection.execute(
        """
        INSERT INTO invitation (token_hash, realm, merchant_id, email, role, invited_by, expires_at)
        VALUES ($1, $2, $3, $4, $5, $6, now() + $7)""",
        *(tokens.digest(token), realm, merchant_id, email, role, by, LASTS),
    )
    await outbox.put_secret(
        connection,
        keyring,
        MailKind.INVITATION,
        {"place": place, "role": role},
        path=links.invitation(realm, token),
        merchant_id=merchant_id or 0,
        address=email,
    )
    return token


async def list_open(db: Database, merchant_id: int) -> list[Invitation]:
    return await db.rows(
        Invitation,
        _INVITATION
        + """
         WHERE i.merchant_id = $1 AND i.accepted_at IS NULL AND i.expires_at > now()
         ORDER BY i.created_at DESC, i.id DESC""",
        merchant_id,
    )


async def emails_invited_at(db: Database, merchant_id: int, at: datetime) -> list[str]:
    """Returns whom the transaction that began at this time has invited."""
    rows = await db.records(
        "SELECT email FROM invitation WHERE merchant_id = $1 AND created_at = $2 ORDER BY id",
        *(merchant_id, at),
    )
    return [row["email"] for row in rows]


async def withdraw(db: Database, merchant_id: int, invitation_id: int) -> None:
    async with db.transaction() as connection:
        email = await connection.value(
            """
            DELETE FROM invitation
             WHERE merchant_id = $1 AND id = $2 AND accepted_at IS NULL
            RETURNING email""",
            *(merchant_id, invitation_id),
        )
        if email is None:
            raise BadInvitation
        subject = f"merchant:{merchant_id}"
        await audit.record(
            connection, "member.withdraw", subject, merchant_id=merchant_id, email=email
        )


async def look_at(db: Database | Connection, realm: Realm, token: str) -> Invitation:
    """Returns the valid invitation with this token, without accepting it."""
    found = await db.row(
        Invitation,
        _INVITATION
        + """
         WHERE i.token_hash = $1 AND i.realm = $2 AND i.accepted_at IS NULL
           AND i.expires_at > now()""",
        *(tokens.digest(token), realm),
    )
    if found is None:
        raise BadInvitation
    return found


async def has_account(db: Database, invitation: Invitation) -> bool:
    """Returns whether the invited person has an account and must sign in to join."""
    person = await queries.person_by_email(db, Realm(invitation.realm), invitation.email)
    return person is not None and person.has_password


async def _use(connection: Connection, invitation_id: int) -> bool:
    """Marks the invitation as accepted. Returns False if it was already used or has expired."""
    return await connection.has_row(
        """
        UPDATE invitation SET accepted_at = now()
         WHERE id = $1 AND accepted_at IS NULL AND expires_at > now()
        RETURNING id""",
        invitation_id,
    )


async def accept(
    db: Database,
    realm: Realm,
    token: str,
    *,
    name: str,
    password: str,
    address: str,
    user_agent: str,
) -> NewSession:
    """Accepts the invitation: creates the user with a name and password, and signs them in."""
    invitation = await look_at(db, realm, token)
    name = persons.read_name(name)
    passwords.check(password, email=invitation.email, name=name)
    password_hash = await passwords.hash_of(password)
    async with db.transaction() as connection:
        if not await _use(connection, invitation.id):
            raise BadInvitation
        person_id = await _new_person(connection, realm, invitation, name, password_hash)
        if invitation.merchant_id is not None:
            await members.join(connection, invitation.merchant_id, person_id, Role(invitation.role))
        session = await sessions.begin(
            connection,
            person_id,
            realm,
            merchant_id=invitation.merchant_id,
            second_factor=False,
            address=address,
            user_agent=user_agent,
        )
        await _record_joining(connection, person_id, invitation)
    return session


async def join(db: Database, visitor: Visitor, token: str) -> int:
    """Adds a signed-in user to the inviting merchant, and switches the session to it."""
    invitation = await look_at(db, visitor.realm, token)
    if invitation.email != visitor.email:
        raise NotYourInvitation
    if invitation.merchant_id is None:
        raise BadInvitation
    async with db.transaction() as connection:
        if not await _use(connection, invitation.id):
            raise BadInvitation
        if not await members.join(
            connection, invitation.merchant_id, visitor.person_id, Role(invitation.role)
        ):
            raise members.AlreadyMember
        await sessions.move_to(connection, visitor, invitation.merchant_id)
        await _record_joining(connection, visitor.person_id, invitation)
    return invitation.merchant_id


async def _record_joining(connection: Connection, person_id: int, joined: Invitation) -> None:
    details = {}
    if joined.merchant_id is not None:
        await members.report(
            *(connection, joined.merchant_id, f"joined as {joined.role}"),
            by=joined.email,
            except_person=person_id,
        )
        details["approves_from"] = await members.approves_from(
            connection, joined.merchant_id, person_id
        )
    await audit.record(
        connection,
        "person.accept" if joined.merchant_id is None else "member.join",
        f"person:{person_id}",
        merchant_id=joined.merchant_id,
        realm=joined.realm,
        email=joined.email,
        role=joined.role,
        **details,
    )


async def _new_person(
    connection: Connection, realm: Realm, invitation: Invitation, name: str, password_hash: str
) -> int:
    """Creates a dashboard user, or sets the password of an invited console user.

    An invited console user already exists, but without a password.
    """
    if realm is Realm.DASHBOARD:
        person_id = await queries.insert_person(
            connection, realm, invitation.email, name, password_hash=password_hash
        )
        if person_id is None:
            raise SignInToJoin
        return person_id
    person = await queries.person_by_email(connection, realm, invitation.email)
    if person is None or person.status != "active":
        raise BadInvitation
    if person.has_password:
        raise SignInToJoin
    await queries.set_profile(connection, person.id, name, person.phone)
    await queries.set_password(connection, person.id, password_hash)
    return person.id
