"""Console users, who cannot sign up. They are created in the console or on the command line."""

import msgspec

from manilla.audit import audit
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Connection, Database
from manilla.people import invitations, passwords, persons, queries
from manilla.people.queries import Person
from manilla.people.roles import ConsoleRole, Realm

LIST_MAX = 1000


class NewPerson(msgspec.Struct, frozen=True):
    person: Person
    token: str | None  # the invitation link's token, or None if the user has a password


async def create(
    db: Database,
    keyring: Keyring,
    *,
    email: str,
    name: str,
    role: ConsoleRole,
    password: str | None = None,
    by: int | None = None,
) -> NewPerson:
    """Creates a console user. Emails an invitation link if no password is given."""
    email, name = persons.read_email(email), persons.read_name(name)
    password_hash = None
    if password is not None:
        passwords.check(password, email=email, name=name)
        password_hash = await passwords.hash_of(password)
    async with db.transaction() as connection:
        person_id = await queries.insert_person(
            connection, Realm.CONSOLE, email, name, password_hash=password_hash, console_role=role
        )
        if person_id is None:
            raise persons.EmailTaken
        token = None
        if password_hash is None:
            token = await _invite(connection, keyring, email, role, by)
        person = await persons.get(connection, person_id)
        await persons.record(connection, "person.create", person, role=role)
    return NewPerson(person, token)


async def _invite(
    connection: Connection, keyring: Keyring, email: str, role: ConsoleRole, by: int | None
) -> str:
    return await invitations.write(
        connection, keyring, Realm.CONSOLE, None, email, role, by, "the console"
    )


async def invite_again(
    db: Database, keyring: Keyring, person_id: int, by: int | None = None
) -> str:
    """Emails a new invitation link and returns its token. Earlier links stop working."""
    async with db.transaction() as connection:
        person = await persons.get(connection, person_id)
        if person.has_password or person.console_role is None:
            raise persons.EmailTaken(
                "This user already has a password. Reset the password instead."
            )
        role = ConsoleRole(person.console_role)
        token = await _invite(connection, keyring, person.email, role, by)
        await persons.record(connection, "person.invite", person, role=role)
    return token


async def change_role(db: Database, person_id: int, role: ConsoleRole) -> None:
    """Changes a console user's role, which takes effect with the user's next request."""
    async with db.transaction() as connection:
        person = await persons.get(connection, person_id)
        if person.realm != Realm.CONSOLE:
            raise persons.PersonNotFound
        if role is not ConsoleRole.ADMINISTRATOR:
            await persons.refuse_last_administrator(connection, person)
        await queries.set_console_role(connection, person_id, role)
        changed = audit.difference({"role": person.console_role}, {"role": role})
        if changed:
            await persons.record(connection, "person.role", person, changed=changed)


async def list_all(db: Database) -> list[Person]:
    return await queries.people(db, Realm.CONSOLE, 0, LIST_MAX)
