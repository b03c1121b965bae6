"""Sessions: stored by the hash of their token, and read from the database for every request."""

from datetime import timedelta

import msgspec

from manilla.kit.crypto import Keyring
from manilla.kit.db import Connection, Database
from manilla.kit.errors import Refusal
from manilla.people import passwords, queries, second_factor, session_queries, throttle, tokens
from manilla.people.roles import Realm
from manilla.people.session_queries import OpenSession
from manilla.people.visitor import Visitor

IDLE = {Realm.DASHBOARD: timedelta(hours=12), Realm.CONSOLE: timedelta(hours=1)}
LASTS = {Realm.DASHBOARD: timedelta(days=7), Realm.CONSOLE: timedelta(hours=12)}
SEEN_EVERY = timedelta(minutes=1)
PER_PERSON_MAX = 50
ADDRESS_LENGTH_MAX, USER_AGENT_LENGTH_MAX = 64, 300


class NewSession(msgspec.Struct, frozen=True):
    """Contains the token for the cookie; only its hash is stored."""

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
) -> NewSession:
    """Starts a session, with a new token so that none from before the sign-in is reused."""
    token = tokens.new()
    await session_queries.insert(
        connection,
        tokens.digest(token),
        person_id,
        realm,
        merchant_id,
        lasts=LASTS[realm],
        second_factor=second_factor,
        address=_printable(address, ADDRESS_LENGTH_MAX),
        user_agent=_printable(user_agent, USER_AGENT_LENGTH_MAX),
    )
    await session_queries.delete_oldest(connection, person_id, PER_PERSON_MAX)
    return NewSession(token, person_id, LASTS[realm])


async def find(db: Database, realm: Realm, token: str) -> Visitor | None:
    """Returns the visitor, or None if the session has ended or belongs to another realm."""
    visitor = await session_queries.visit(
        db, realm, tokens.digest(token), idle=IDLE[realm], seen_every=SEEN_EVERY
    )
    return None if visitor is None else msgspec.structs.replace(visitor, realm=realm)


async def list_of(db: Database, person_id: int) -> list[OpenSession]:
    return await session_queries.of_person(db, person_id, IDLE)


async def revoke(db: Database, person_id: int, session_id: int) -> None:
    async with db.transaction() as connection:
        if not await session_queries.delete_one(connection, person_id, session_id):
            raise SessionNotFound


async def revoke_all_but(db: Database, person_id: int, session_id: int) -> int:
    async with db.transaction() as connection:
        return await session_queries.delete_of_person(connection, person_id, but=session_id)


async def end(db: Database, realm: Realm, token: str) -> None:
    """Signs out. Does nothing if the session has already ended."""
    async with db.transaction() as connection:
        await session_queries.delete_by_token(connection, realm, tokens.digest(token))


async def step_up(
    db: Database,
    keyring: Keyring,
    visitor: Visitor,
    *,
    password: str | None = None,
    code: str | None = None,
) -> None:
    """Confirms the user's identity again before an important action, in case a screen was left
    open.

    Requires the second factor if the user has one (somebody who saw the password does not know the
    next code), otherwise the password.
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
    async with db.transaction() as connection:
        await session_queries.set_stepped_up(
            connection, visitor.session_id, by_code=person.has_totp
        )


async def choose_merchant(db: Database, visitor: Visitor, merchant_id: int) -> None:
    async with db.transaction() as connection:
        await move_to(connection, visitor, merchant_id)


async def move_to(connection: Connection, visitor: Visitor, merchant_id: int) -> None:
    if not await session_queries.choose_merchant(connection, visitor.session_id, merchant_id):
        raise NotAMember


def _printable(text: str, length_max: int) -> str:
    """Shortens text from a client, and replaces characters that cannot be stored or shown."""
    return "".join(c if c.isprintable() else "?" for c in text[:length_max])
