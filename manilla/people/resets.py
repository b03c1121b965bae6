"""Password resets: links that work once, for an hour."""

from datetime import timedelta

from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Connection, Database
from manilla.kit.errors import Refusal
from manilla.mail import outbox
from manilla.mail.kinds import MailKind
from manilla.people import links, passwords, persons, queries, throttle, tokens
from manilla.people.company import identities
from manilla.people.company.providers import CONSOLE
from manilla.people.queries import PERSON, Person
from manilla.people.roles import Realm

LASTS = timedelta(hours=1)
_OPEN = "token_hash = $1 AND used_at IS NULL AND expires_at > now()"


class BadReset(Refusal):
    status, code = 404, "BAD_RESET"
    message = "This link was used or has expired. Request a new link."


async def count(db: Database, realm: Realm, email: str, address: str) -> None:
    """Counts a reset request toward the rate limits, even if the email address is unknown."""
    normal = persons.normal_email(email)
    await throttle.take(db, throttle.resetting(realm, normal or email, address))


async def ask(db: Database, keyring: Keyring, realm: Realm, email: str) -> None:
    """Emails a password reset link if an active user has this email address.

    A console user whose role depends on a provider's groups gets none, because the password would
    also work without the groups. In the dashboard, a merchant's provider can create users with any
    address, and must not take the link from the address's owner.
    """
    normal = persons.normal_email(email)
    person = await queries.person_by_email(db, realm, normal) if normal else None
    if person is None or person.status != "active":
        return
    if realm is Realm.CONSOLE and await identities.gets_role_from_groups(db, CONSOLE, person.id):
        return
    async with db.transaction() as connection:
        await _write_and_mail(connection, keyring, person)


async def begin(db: Database, keyring: Keyring, person_id: int) -> str:
    """Emails a new password reset link, and returns its token for the operator."""
    async with db.transaction() as connection:
        person = await persons.get(connection, person_id)
        token = await _write_and_mail(connection, keyring, person)
        await persons.record(connection, "person.reset_link", person)
    return token


async def _write_and_mail(connection: Connection, keyring: Keyring, person: Person) -> str:
    token = await _write(connection, person.id)
    path = links.reset(Realm(person.realm), token)
    await outbox.put_secret(connection, keyring, MailKind.RESET, {}, path=path, person_id=person.id)
    return token


async def _write(connection: Connection, person_id: int) -> str:
    """Creates a password reset link. The user's earlier links stop working."""
    token = tokens.new()
    await queries.delete_resets(connection, person_id)
    await connection.execute(
        """
        INSERT INTO password_reset (token_hash, person_id, expires_at)
        VALUES ($1, $2, now() + $3)""",
        *(tokens.digest(token), person_id, LASTS),
    )
    return token


async def look_at(db: Database, realm: Realm, token: str) -> Person:
    """Returns the user whose password can be reset with this link."""
    person = await db.row(
        Person,
        f"{PERSON} WHERE status = 'active'"
        f" AND id = (SELECT person_id FROM password_reset WHERE {_OPEN})",
        tokens.digest(token),
    )
    if person is None or person.realm != realm:
        raise BadReset
    return person


async def use(db: Database, realm: Realm, token: str, password: str) -> Person:
    """Sets the password and ends all of the user's sessions. The second factor does not change."""
    person = await look_at(db, realm, token)
    passwords.check(password, email=person.email, name=person.name)
    password_hash = await passwords.hash_of(password)
    async with db.transaction() as connection:
        if not await connection.has_row(
            f"UPDATE password_reset SET used_at = now() WHERE {_OPEN} RETURNING person_id",
            tokens.digest(token),
        ):
            raise BadReset
        await _replace(connection, person.id, password_hash)
        await persons.record(connection, "person.password", person, how="reset link")
    return person


async def _replace(connection: Connection, person_id: int, password_hash: str) -> None:
    # Setting the password first locks the user's row, so no concurrent sign-in keeps a session.
    await queries.set_password(connection, person_id, password_hash)
    await queries.delete_resets(connection, person_id)
    await queries.end_sessions(connection, person_id)
