"""Finds users, changes their profiles, and disables or enables them."""

import re
from typing import Any

from manilla.audit import audit
from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Refusal
from manilla.kit.texts import is_email, is_line
from manilla.people import queries
from manilla.people.queries import Person
from manilla.people.roles import Realm

NAME_LENGTH_MAX, EMAIL_LENGTH_MAX, PHONE_LENGTH_MAX = 100, 254, 20
_EMAIL = re.compile(r"[^\s@]+@[^\s@]+")
_PHONE = re.compile(r"\+?[0-9][0-9 ()-]{5,}")


class PersonNotFound(Refusal):
    status, code = 404, "PERSON_NOT_FOUND"
    message = "There is no user with this email address."


class BadPerson(Refusal):
    status, code = 400, "VALIDATION_FAILED"
    message = "The user's details are not valid."


class EmailTaken(Refusal):
    status, code = 409, "EMAIL_TAKEN"
    message = "A user with this email address already exists."


class LastAdministrator(Refusal):
    status, code = 409, "LAST_ADMINISTRATOR"
    message = (
        "This is the last administrator who can sign in. Make another user an administrator first."
    )


def normal_email(text: str) -> str | None:
    """Returns the email address in lower case, or None if the text is not an email address.

    This check is less strict than `read_email`, so that users with older addresses can sign in.
    """
    email = text.strip().lower()
    if len(email) > EMAIL_LENGTH_MAX or not email.isprintable() or not _EMAIL.fullmatch(email):
        return None
    return email


def read_email(text: str) -> str:
    email = normal_email(text)
    if email is None or not is_email(email):
        raise BadPerson.at("email", "Enter an email address, such as ada@example.com.")
    return email


def read_name(text: str) -> str:
    name = text.strip()
    if not is_line(name, NAME_LENGTH_MAX):
        raise BadPerson.at("name", f"Use 1 to {NAME_LENGTH_MAX} printable characters.")
    return name


async def find(db: Database | Connection, realm: Realm, email: str) -> Person:
    normal = normal_email(email)
    person = normal and await queries.person_by_email(db, realm, normal)
    if not person:
        raise PersonNotFound(f"The {realm} has no user with this email address.")
    return person


async def get(db: Database | Connection, person_id: int) -> Person:
    person = await queries.person(db, person_id)
    if person is None:
        raise PersonNotFound("There is no such user.")
    return person


async def change_profile(db: Database, person_id: int, name: str, phone: str | None) -> None:
    """Changes the user's name and phone number. An empty phone number removes it."""
    name, phone = read_name(name), (phone or "").strip() or None
    if phone is not None and (len(phone) > PHONE_LENGTH_MAX or not _PHONE.fullmatch(phone)):
        raise BadPerson.at("phone", "Enter a phone number, such as +234 801 234 5678.")
    async with db.transaction() as connection:
        before = await get(connection, person_id)
        await queries.set_profile(connection, person_id, name, phone)
        changed = audit.difference(
            {"name": before.name, "phone": before.phone}, {"name": name, "phone": phone}
        )
        if changed:
            await record(connection, "person.profile", before, changed=changed)


async def disable(db: Database, person_id: int) -> None:
    """Disables a user and ends all their sessions. Refuses to disable the last administrator."""
    async with db.transaction() as connection:
        person = await get(connection, person_id)
        await refuse_last_administrator(connection, person)
        await queries.set_status(connection, person_id, "disabled")
        await queries.delete_resets(connection, person_id)
        ended = await queries.end_sessions(connection, person_id)
        if person.status != "disabled":
            await record(connection, "person.disable", person, sessions_ended=ended)


async def enable(db: Database, person_id: int) -> None:
    async with db.transaction() as connection:
        person = await get(connection, person_id)
        await queries.set_status(connection, person_id, "active")
        if person.status != "active":
            await record(connection, "person.enable", person)


async def sign_out(db: Database, person_id: int) -> int:
    """Ends all of the user's sessions, and returns the number of ended sessions."""
    async with db.transaction() as connection:
        person = await get(connection, person_id)
        ended = await queries.end_sessions(connection, person_id)
        await record(connection, "person.sign_out", person, sessions_ended=ended)
    return ended


async def record(connection: Connection, action: str, person: Person, **detail: Any) -> None:
    """Records a change to a user in the audit log, with the user's id and email address."""
    subject = f"person:{person.id}"
    await audit.record(
        connection, action, subject, realm=person.realm, email=person.email, **detail
    )


async def refuse_last_administrator(connection: Connection, person: Person) -> None:
    if person.realm == Realm.CONSOLE:
        administrators = await queries.lock_administrators(connection)
        if administrators == [person.id]:
            raise LastAdministrator
