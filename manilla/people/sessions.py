"""Stores sessions. Each request loads its session by the hash of the session token."""

from datetime import datetime, timedelta

import msgspec

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import columns
from manilla.kit.errors import Refusal
from manilla.people import passwords, queries, second_factor, security_log, throttle, tokens
from manilla.people.company import providers
from manilla.people.roles import Realm
from manilla.people.security_log import SecurityEvent, SecurityOutcome, SecuritySubject
from manilla.people.visitor import Visitor

IDLE = {Realm.DASHBOARD: timedelta(hours=12), Realm.CONSOLE: timedelta(hours=1)}
LASTS = {Realm.DASHBOARD: timedelta(days=7), Realm.CONSOLE: timedelta(hours=12)}
SEEN_EVERY = timedelta(minutes=1)
PER_PERSON_MAX = 50
ADDRESS_LENGTH_MAX, USER_AGENT_LENGTH_MAX = 64, 300


class OpenSession(msgspec.Struct, frozen=True):
    """A session, as shown to its user on the account page."""

    id: int
    merchant_id: int | None
    created_at: datetime
    seen_at: datetime
    expires_at: datetime
    second_factor: bool
    address: str
    user_agent: str


class NewSession(msgspec.Struct, frozen=True):
    """A new session with the token for the cookie. Only the token's hash is stored."""

    token: str
    person_id: int
    lasts: timedelta


class SessionNotFound(Refusal):
    status, code = 404, "SESSION_NOT_FOUND"
    message = "There is no such session. It may have ended."


class NotAMember(Refusal):
    status, code = 404, "NOT_A_MEMBER"
    message = "You are not a member of this merchant."


async def begin(
    connection: Connection,
    person_id: int,
    realm: Realm,
    *,
    merchant_id: int | None,
    second_factor: bool,
    address: str,
    user_agent: str,
    provider_merchant_id: int | None = None,
    provider_session: str | None = None,
) -> NewSession:
    """Starts a session with a new token. Tokens from before the sign-in are never reused."""
    token = tokens.new()
    address = _printable(address, ADDRESS_LENGTH_MAX)
    user_agent = _printable(user_agent, USER_AGENT_LENGTH_MAX)
    await connection.execute(
        """
        WITH entered AS (UPDATE person SET last_login_at = now() WHERE id = $2)
        INSERT INTO session (token_hash, person_id, realm, merchant_id, expires_at, second_factor,
                             address, user_agent, provider_merchant_id, provider_session)
        VALUES ($1, $2, $3, $4, now() + $5, $6, $7, $8, $9, $10)""",
        *(tokens.digest(token), person_id, realm, merchant_id, LASTS[realm]),
        *(second_factor, address, user_agent, provider_merchant_id, provider_session),
    )
    await connection.execute(
        """
        DELETE FROM session WHERE id IN (
            SELECT id FROM session WHERE person_id = $1 ORDER BY id DESC OFFSET $2)""",
        *(person_id, PER_PERSON_MAX),
    )
    return NewSession(token, person_id, LASTS[realm])


async def find(db: Database, realm: Realm, token: str) -> Visitor | None:
    """Returns the session's user, or None if the session has ended or belongs to another realm.

    Also updates `seen_at`. If the user is no longer a member of the merchant, the role is None.
    A role that a provider's groups granted works only in sessions of this provider: a password
    would outlast the groups.
    """
    visitor = await db.row(
        Visitor,
        """
        WITH good AS (
            SELECT * FROM session
             WHERE token_hash = $1 AND realm = $2 AND expires_at > now()
               AND seen_at > now() - $3::interval
        ), seen AS (
            UPDATE session s SET seen_at = now() FROM good
             WHERE s.token_hash = good.token_hash AND s.seen_at < now() - $4::interval
        )
        SELECT s.id AS session_id, s.person_id, s.realm, p.name, p.email,
               coalesce(p.console_role, m.role) AS role, m.merchant_id, c.name AS merchant_name,
               c.status AS merchant_status, s.stepped_up_at,
               p.totp_confirmed_at IS NOT NULL AS has_totp,
               s.second_factor AND p.totp_confirmed_at IS NOT NULL AS second_factor,
               p.password_hash IS NOT NULL AS has_password, s.provider_merchant_id,
               coalesce(s.provider_merchant_id IS DISTINCT FROM o.merchant_id
                        AND (o.is_required AND o.break_glass <> p.email OR EXISTS (
                            SELECT FROM company_identity i
                             WHERE i.person_id = p.id AND i.merchant_id = o.merchant_id
                               AND i.granted_role = coalesce(p.console_role, m.role))),
                        false) AS must_use_company
          FROM good s
          JOIN person p ON p.id = s.person_id AND p.realm = s.realm AND p.status = 'active'
          LEFT JOIN membership m ON m.merchant_id = s.merchant_id AND m.person_id = s.person_id
          LEFT JOIN merchant c ON c.id = m.merchant_id
          LEFT JOIN sign_in_provider o
            ON o.merchant_id = CASE WHEN s.realm = 'console' THEN 0 ELSE m.merchant_id END""",
        *(tokens.digest(token), realm, IDLE[realm], SEEN_EVERY),
    )
    return None if visitor is None else msgspec.structs.replace(visitor, realm=realm)


async def person_of(db: Database, realm: Realm, token: str) -> int | None:
    """Returns the id of a session's user, even if the session has expired, or None."""
    person_id: int | None = await db.value(
        "SELECT person_id FROM session WHERE token_hash = $1 AND realm = $2",
        *(tokens.digest(token), realm),
    )
    return person_id


async def list_of(db: Database, person_id: int) -> list[OpenSession]:
    return await db.rows(
        OpenSession,
        f"""
        SELECT {columns(OpenSession)} FROM session
         WHERE person_id = $1 AND expires_at > now()
           AND seen_at > now() - CASE realm WHEN 'console' THEN $2::interval ELSE $3 END
         ORDER BY seen_at DESC, id DESC""",
        *(person_id, IDLE[Realm.CONSOLE], IDLE[Realm.DASHBOARD]),
    )


async def revoke(db: Database, person_id: int, session_id: int) -> None:
    if not await db.has_row(
        "DELETE FROM session WHERE person_id = $1 AND id = $2 RETURNING id", person_id, session_id
    ):
        raise SessionNotFound


async def revoke_all_but(db: Database, person_id: int, session_id: int) -> int:
    async with db.transaction() as connection:
        return await queries.end_sessions(connection, person_id, but=session_id)


async def end(db: Database, realm: Realm, token: str) -> None:
    """Ends the session with this token. Does nothing if the session has already ended."""
    await db.execute(
        "DELETE FROM session WHERE token_hash = $1 AND realm = $2", tokens.digest(token), realm
    )


async def step_up(
    db: Database,
    keyring: Keyring,
    visitor: Visitor,
    *,
    password: str | None = None,
    code: str | None = None,
) -> None:
    """Confirms the user's identity again before an important action.

    This protects an unlocked screen from other people. A user with a second factor must enter a
    code, because somebody may have seen the password. Other users must enter the password.
    """
    buckets = throttle.proving(visitor.person_id)
    await throttle.take(db, buckets)
    person = await queries.credentials(db, visitor.person_id)
    if person is None:
        raise SessionNotFound
    if person.has_totp:
        await second_factor.accept(db, keyring, person, code or "")
    elif not (await passwords.verify(person.password_hash, password or "")).is_right:
        raise passwords.WrongPassword
    await throttle.give_back(db, buckets)
    # A valid code also marks the second factor of this session as verified.
    await db.execute(
        """
        UPDATE session SET stepped_up_at = now(), second_factor = second_factor OR $2
         WHERE id = $1""",
        *(visitor.session_id, person.has_totp),
    )


async def choose_merchant(db: Database, visitor: Visitor, merchant_id: int) -> None:
    async with db.transaction() as connection:
        await move_to(connection, visitor, merchant_id)


async def move_to(connection: Connection, visitor: Visitor, merchant_id: int) -> None:
    """Switches the session to another merchant of the user.

    A merchant controls its own provider, so a session that the provider began stays with it.
    """
    if not await connection.has_row(
        """
        UPDATE session s SET merchant_id = m.merchant_id
          FROM membership m
         WHERE s.id = $1 AND m.merchant_id = $2 AND m.person_id = s.person_id
           AND s.realm = 'dashboard' AND s.provider_merchant_id IS NULL
        RETURNING s.id""",
        *(visitor.session_id, merchant_id),
    ):
        raise NotAMember
    if await providers.report_password(connection, merchant_id, visitor.person_id, visitor.email):
        who = SecuritySubject(visitor.person_id, visitor.email)
        security_log.report(SecurityEvent.SIGN_IN, SecurityOutcome.BREAK_GLASS, visitor.realm, who)


def _printable(text: str, length_max: int) -> str:
    """Shortens text from a client, and replaces characters that cannot be stored or shown."""
    return "".join(c if c.isprintable() else "?" for c in text[:length_max])
