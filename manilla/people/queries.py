"""SQL queries for users, and for deleting their sessions and password reset links."""

from datetime import datetime, timedelta

import msgspec

from manilla.kit.database.connections import Connection, Database
from manilla.people.roles import Realm


class Person(msgspec.Struct, frozen=True):
    """A user, without sign-in secrets."""

    id: int
    realm: str
    email: str
    name: str
    phone: str | None
    console_role: str | None
    status: str
    has_password: bool
    has_totp: bool
    recovery_codes_left: int
    created_at: datetime
    last_login_at: datetime | None


class PersonCredentials(msgspec.Struct, frozen=True):
    """A user with sign-in secrets, which must not be shown or logged."""

    id: int
    email: str
    name: str
    status: str
    password_hash: str | None
    totp_sealed: bytes | None
    has_totp: bool
    totp_last_step: int | None


PERSON = """
    SELECT id, realm, email, name, phone, console_role, status,
           password_hash IS NOT NULL AS has_password, totp_confirmed_at IS NOT NULL AS has_totp,
           cardinality(recovery_hashes) AS recovery_codes_left, created_at, last_login_at
      FROM person"""

_CREDENTIALS = """
    SELECT id, email, name, status, password_hash, totp_sealed,
           totp_confirmed_at IS NOT NULL AS has_totp, totp_last_step
      FROM person"""


async def person(db: Database | Connection, person_id: int) -> Person | None:
    return await db.row(Person, PERSON + " WHERE id = $1", person_id)


async def person_by_email(db: Database | Connection, realm: Realm, email: str) -> Person | None:
    return await db.row(Person, PERSON + " WHERE realm = $1 AND email = $2", realm, email)


async def people(db: Database, realm: Realm | None, after: int, limit: int) -> list[Person]:
    return await db.rows(
        Person,
        PERSON + " WHERE id > $2 AND ($1::text IS NULL OR realm = $1) ORDER BY id LIMIT $3",
        realm,
        after,
        limit,
    )


async def search(db: Database, realm: Realm, text: str, limit: int) -> list[Person]:
    """Returns the users whose name or email address contains the text."""
    return await db.rows(
        Person,
        PERSON
        + " WHERE realm = $1 AND position(lower($2) IN lower(concat_ws(E'\\n', name, email))) > 0"
        " ORDER BY id LIMIT $3",
        *(realm, text, limit),
    )


async def credentials(db: Database | Connection, person_id: int) -> PersonCredentials | None:
    return await db.row(PersonCredentials, _CREDENTIALS + " WHERE id = $1", person_id)


async def credentials_by_email(db: Database, realm: Realm, email: str) -> PersonCredentials | None:
    return await db.row(
        PersonCredentials, _CREDENTIALS + " WHERE realm = $1 AND email = $2", realm, email
    )


async def insert_person(
    connection: Connection,
    realm: Realm,
    email: str,
    name: str,
    *,
    password_hash: str | None,
    console_role: str | None = None,
) -> int | None:
    """Creates a user. Returns None if the realm already has a user with this email address."""
    found: int | None = await connection.value(
        """
        INSERT INTO person (realm, email, name, password_hash, console_role)
        VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (realm, email) DO NOTHING
        RETURNING id""",
        realm,
        email,
        name,
        password_hash,
        console_role,
    )
    return found


async def set_password(connection: Connection, person_id: int, password_hash: str) -> None:
    """Sets the user's password.

    Locks the user's row, so that a concurrent sign-in with the old password fails.
    """
    await connection.execute(
        "UPDATE person SET password_hash = $2, updated_at = now() WHERE id = $1",
        person_id,
        password_hash,
    )


async def enter(
    connection: Connection,
    person_id: int,
    verified_hash: str,
    new_hash: str | None,
    *,
    has_totp: bool,
) -> bool:
    """Locks the user's row for a sign-in, and stores `new_hash` unless it is None.

    Returns False if the user's password, second factor or status has changed in the meantime.
    """
    return await connection.has_row(
        """
        UPDATE person SET password_hash = coalesce($3, password_hash)
         WHERE id = $1 AND password_hash = $2 AND status = 'active'
           AND (totp_confirmed_at IS NOT NULL) = $4
        RETURNING id""",
        person_id,
        verified_hash,
        new_hash,
        has_totp,
    )


async def lock_person(connection: Connection, person_id: int) -> None:
    await connection.execute("SELECT FROM person WHERE id = $1 FOR UPDATE", person_id)


async def set_profile(connection: Connection, person_id: int, name: str, phone: str | None) -> None:
    await connection.execute(
        "UPDATE person SET name = $2, phone = $3, updated_at = now() WHERE id = $1",
        person_id,
        name,
        phone,
    )


async def set_status(connection: Connection, person_id: int, status: str) -> None:
    await connection.execute(
        "UPDATE person SET status = $2, updated_at = now() WHERE id = $1", person_id, status
    )


async def set_console_role(connection: Connection, person_id: int, role: str) -> None:
    await connection.execute(
        "UPDATE person SET console_role = $2, updated_at = now() WHERE id = $1", person_id, role
    )


async def lock_administrators(connection: Connection) -> list[int]:
    """Returns the administrators who can sign in.

    Locks their rows, so that two concurrent changes cannot remove the last administrator.
    """
    rows = await connection.records(
        """
        SELECT id FROM person
         WHERE realm = 'console' AND console_role = 'administrator' AND status = 'active'
           AND password_hash IS NOT NULL
         ORDER BY id FOR UPDATE"""
    )
    return [row["id"] for row in rows]


async def delete_ended(db: Database, kept: timedelta) -> None:
    """Deletes expired sessions, and reset and invitation links that expired at least `kept` ago."""
    async with db.transaction() as connection:
        await connection.execute("DELETE FROM session WHERE expires_at < now()")
        for table in ("password_reset", "invitation"):
            await connection.execute(
                f"DELETE FROM {table} WHERE expires_at < now() - $1::interval", kept
            )


async def delete_resets(connection: Connection, person_id: int) -> None:
    """Deletes the user's unused password reset links."""
    await connection.execute(
        "DELETE FROM password_reset WHERE person_id = $1 AND used_at IS NULL", person_id
    )


async def end_sessions(
    connection: Connection,
    person_id: int,
    *,
    but: int | None = None,
    merchant_id: int | None = None,
) -> int:
    """Ends a user's sessions, except the session `but`, and returns how many were ended.

    If `merchant_id` is given, ends only the sessions with this merchant.
    """
    rows = await connection.records(
        """
        DELETE FROM session
         WHERE person_id = $1 AND ($2::bigint IS NULL OR id <> $2)
           AND ($3::bigint IS NULL OR merchant_id = $3)
        RETURNING id""",
        person_id,
        but,
        merchant_id,
    )
    return len(rows)


async def delete_person(connection: Connection, person_id: int) -> None:
    """Deletes a user who is not a member of any merchant, with their sessions and reset links.

    Only the tables' owner has this privilege.
    """
    await end_sessions(connection, person_id)
    for sql in (
        "DELETE FROM password_reset WHERE person_id = $1",
        "DELETE FROM company_identity WHERE person_id = $1",
        "UPDATE invitation SET invited_by = NULL WHERE invited_by = $1",
        "DELETE FROM person WHERE id = $1",
    ):
        await connection.execute(sql, person_id)
