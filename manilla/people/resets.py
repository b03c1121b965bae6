"""Password resets: links that work once, for an hour."""

from datetime import timedelta

import msgspec

from manilla.kit.db import Connection, Database
from manilla.kit.errors import Refusal
from manilla.people import (
    passwords,
    persons,
    queries,
    reset_queries,
    session_queries,
    throttle,
    tokens,
)
from manilla.people.queries import Person
from manilla.people.roles import Realm

LASTS = timedelta(hours=1)


class BadReset(Refusal):
    status, code = 404, "BAD_RESET"
    message = "This link was used or has expired. Request a new one."


class NewReset(msgspec.Struct, frozen=True):
    person: Person
    token: str


async def count(db: Database, realm: Realm, email: str, address: str) -> None:
    """Counts a reset request.

    The page shows the same text whether or not the email address is known.
    """
    normal = persons.normal_email(email)
    await throttle.take(db, throttle.resetting(realm, normal or email, address))


async def ask(db: Database, realm: Realm, email: str) -> NewReset | None:
    """Creates a link. The page responds first, so that timing does not reveal known addresses."""
    normal = persons.normal_email(email)
    person = await queries.person_by_email(db, realm, normal) if normal else None
    if person is None or person.status != "active":
        return None
    async with db.transaction() as connection:
        return NewReset(person, await _write(connection, person.id))


async def begin(db: Database, person_id: int) -> str:
    """Returns the token of a new link, for the operator. Only its hash is stored."""
    async with db.transaction() as connection:
        person = await persons.get(connection, person_id)
        token = await _write(connection, person_id)
        await persons.record(connection, "person.reset_link", person)
    return token


async def _write(connection: Connection, person_id: int) -> str:
    """Creates a link; earlier links stop working."""
    token = tokens.new()
    await reset_queries.delete_unused(connection, person_id)
    await reset_queries.insert(connection, tokens.digest(token), person_id, LASTS)
    return token


async def look_at(db: Database, realm: Realm, token: str) -> Person:
    """Returns the user whose password the link can set."""
    person = await reset_queries.person_of(db, tokens.digest(token))
    if person is None or person.realm != realm:
        raise BadReset
    return person


async def use(db: Database, realm: Realm, token: str, password: str) -> Person:
    """Sets the password and ends all sessions. The second factor does not change."""
    person = await look_at(db, realm, token)
    passwords.check(password, email=person.email, name=person.name)
    password_hash = await passwords.hash_of(password)
    async with db.transaction() as connection:
        if not await reset_queries.use(connection, tokens.digest(token)):
            raise BadReset
        await _replace(connection, person.id, password_hash)
        await persons.record(connection, "person.password", person, how="reset link")
    return person


async def _replace(connection: Connection, person_id: int, password_hash: str) -> None:
    # Set the password first, which locks the user's row, and then end the sessions: a concurrent
    # sign-in with the old password either fails, or its session is ended here.
    await queries.set_password(connection, person_id, password_hash)
    await reset_queries.delete_unused(connection, person_id)
    await session_queries.delete_of_person(connection, person_id)
