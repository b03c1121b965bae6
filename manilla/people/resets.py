"""A forgotten password: a link, good for an hour and once."""

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
    message = "This link was used or has expired. Ask for a new one."


class NewReset(msgspec.Struct, frozen=True):
    person: Person
    token: str


async def count(db: Database, realm: Realm, email: str, address: str) -> None:
    """Whoever asks for a link to this email address, known or not. The page says the same."""
    normal = persons.normal_email(email)
    await throttle.take(db, throttle.resetting(realm, normal or email, address))


async def ask(db: Database, realm: Realm, email: str) -> NewReset | None:
    """What "forgot password" does, after the page has answered: how long it takes tells much."""
    normal = persons.normal_email(email)
    person = await queries.person_by_email(db, realm, normal) if normal else None
    if person is None or person.status != "active":
        return None
    async with db.transaction() as connection:
        return NewReset(person, await _write(connection, person.id))


async def begin(db: Database, person_id: int) -> str:
    """The operator's way: gives the token of the link, this once."""
    async with db.transaction() as connection:
        person = await persons.get(connection, person_id)
        token = await _write(connection, person_id)
        await persons.record(connection, "person.reset_link", person)
    return token


async def _write(connection: Connection, person_id: int) -> str:
    """Links of before are no longer good."""
    token = tokens.new()
    await reset_queries.delete_unused(connection, person_id)
    await reset_queries.insert(connection, tokens.digest(token), person_id, LASTS)
    return token


async def look_at(db: Database, realm: Realm, token: str) -> Person:
    """Whose password the link may set."""
    person = await reset_queries.person_of(db, tokens.digest(token))
    if person is None or person.realm != realm:
        raise BadReset
    return person


async def use(db: Database, realm: Realm, token: str, password: str) -> Person:
    """Sets the password and ends all sessions. The second factor stays as it is."""
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
    # The person's row is held before sessions are ended: whoever signs in with the old password at
    # the same time is either refused, or has a session that is ended here.
    await queries.set_password(connection, person_id, password_hash)
    await reset_queries.delete_unused(connection, person_id)
    await session_queries.delete_of_person(connection, person_id)
