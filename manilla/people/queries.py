"""The statements about people: themselves, their links, and what they belong to."""

from datetime import datetime, timedelta

import msgspec

from manilla.kit.db import Connection, Database
from manilla.people.roles import Realm, Role


class Person(msgspec.Struct, frozen=True):
    """Somebody, without what lets them in."""

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


class Door(msgspec.Struct, frozen=True):
    """What is needed to let somebody in. Not to be shown or logged."""

    id: int
    email: str
    name: str
    status: str
    password_hash: str | None
    totp_sealed: bytes | None
    has_totp: bool
    totp_last_step: int | None


class Member(msgspec.Struct, frozen=True):
    person_id: int
    email: str
    name: str
    role: str
    status: str
    has_totp: bool
    created_at: datetime
    last_login_at: datetime | None


class Belonging(msgspec.Struct, frozen=True):
    """A merchant that somebody is a member of."""

    merchant_id: int
    merchant_name: str
    merchant_status: str
    role: str


_PERSON = """
    SELECT id, realm, email, name, phone, console_role, status,
           password_hash IS NOT NULL AS has_password, totp_confirmed_at IS NOT NULL AS has_totp,
           cardinality(recovery_hashes) AS recovery_codes_left, created_at, last_login_at
      FROM person"""

_DOOR = """
    SELECT id, email, name, status, password_hash, totp_sealed,
           totp_confirmed_at IS NOT NULL AS has_totp, totp_last_step
      FROM person"""


async def person(db: Database | Connection, person_id: int) -> Person | None:
    return await db.row(Person, _PERSON + " WHERE id = $1", person_id)


async def person_by_email(db: Database | Connection, realm: Realm, email: str) -> Person | None:
    return await db.row(Person, _PERSON + " WHERE realm = $1 AND email = $2", realm, email)


async def people(db: Database, realm: Realm | None, after: int, limit: int) -> list[Person]:
    return await db.rows(
        Person,
        _PERSON + " WHERE id > $2 AND ($1::text IS NULL OR realm = $1) ORDER BY id LIMIT $3",
        realm,
        after,
        limit,
    )


async def door(db: Database | Connection, person_id: int) -> Door | None:
    return await db.row(Door, _DOOR + " WHERE id = $1", person_id)


async def door_by_email(db: Database, realm: Realm, email: str) -> Door | None:
    return await db.row(Door, _DOOR + " WHERE realm = $1 AND email = $2", realm, email)


async def insert_person(
    connection: Connection,
    realm: Realm,
    email: str,
    name: str,
    *,
    password_hash: str | None,
    console_role: str | None = None,
) -> int | None:
    """None where the realm has somebody with this email address."""
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
    """Holds the person's row from here on: a sign-in with the old password comes too late."""
    await connection.execute(
        "UPDATE person SET password_hash = $2, updated_at = now() WHERE id = $1",
        person_id,
        password_hash,
    )


async def enter(
    connection: Connection, person_id: int, verified_hash: str, new_hash: str | None
) -> bool:
    """False where the password was changed, or the person disabled, since it was verified."""
    found = await connection.value(
        """
        UPDATE person SET password_hash = coalesce($3, password_hash)
         WHERE id = $1 AND password_hash = $2 AND status = 'active'
        RETURNING id""",
        person_id,
        verified_hash,
        new_hash,
    )
    return found is not None


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
    """Those who can sign in today. Who waited for the lock sees what the other has done."""
    rows = await connection.records(
        """
        SELECT id FROM person
         WHERE realm = 'console' AND console_role = 'administrator' AND status = 'active'
           AND password_hash IS NOT NULL
         ORDER BY id FOR UPDATE"""
    )
    return [row["id"] for row in rows]


# The second factor.


async def begin_totp(connection: Connection, person_id: int, sealed: bytes) -> bool:
    """False where it is on already."""
    found = await connection.value(
        """
        UPDATE person SET totp_sealed = $2, totp_last_step = NULL, updated_at = now()
         WHERE id = $1 AND totp_confirmed_at IS NULL
        RETURNING id""",
        person_id,
        sealed,
    )
    return found is not None


async def confirm_totp(
    connection: Connection, person_id: int, sealed: bytes, step: int, recovery: list[bytes]
) -> bool:
    """False where it was confirmed, or begun anew, in the meantime."""
    found = await connection.value(
        """
        UPDATE person SET totp_confirmed_at = now(), totp_last_step = $3, recovery_hashes = $4,
                          updated_at = now()
         WHERE id = $1 AND totp_sealed = $2 AND totp_confirmed_at IS NULL
        RETURNING id""",
        person_id,
        sealed,
        step,
        recovery,
    )
    return found is not None


async def clear_totp(connection: Connection, person_id: int) -> None:
    await connection.execute(
        """
        UPDATE person SET totp_sealed = NULL, totp_confirmed_at = NULL, totp_last_step = NULL,
                          recovery_hashes = '{}', updated_at = now()
         WHERE id = $1""",
        person_id,
    )


async def use_step(db: Database, person_id: int, step: int) -> bool:
    """Of those who bring one code at the same time, one gets in."""
    found = await db.value(
        """
        UPDATE person SET totp_last_step = $2
         WHERE id = $1 AND coalesce(totp_last_step, -1) < $2
        RETURNING id""",
        person_id,
        step,
    )
    return found is not None


async def use_recovery(db: Database, person_id: int, code_hash: bytes) -> bool:
    found = await db.value(
        """
        UPDATE person SET recovery_hashes = array_remove(recovery_hashes, $2)
         WHERE id = $1 AND $2 = ANY (recovery_hashes)
        RETURNING id""",
        person_id,
        code_hash,
    )
    return found is not None


# Members of merchants.


async def members(db: Database, merchant_id: int) -> list[Member]:
    return await db.rows(
        Member,
        """
        SELECT p.id AS person_id, p.email, p.name, m.role, p.status,
               p.totp_confirmed_at IS NOT NULL AS has_totp, m.created_at, p.last_login_at
          FROM membership m JOIN person p ON p.id = m.person_id
         WHERE m.merchant_id = $1
         ORDER BY m.created_at, p.id""",
        merchant_id,
    )


async def belongings(db: Database | Connection, person_id: int) -> list[Belonging]:
    """Those that can be worked with first, then by age."""
    return await db.rows(
        Belonging,
        """
        SELECT m.merchant_id, c.name AS merchant_name, c.status AS merchant_status, m.role
          FROM membership m JOIN merchant c ON c.id = m.merchant_id
         WHERE m.person_id = $1
         ORDER BY c.status IN ('rejected', 'disabled'), m.created_at, m.merchant_id""",
        person_id,
    )


async def insert_membership(
    connection: Connection, merchant_id: int, person_id: int, role: Role
) -> bool:
    """False where they are a member already."""
    found = await connection.value(
        """
        INSERT INTO membership (merchant_id, person_id, role) VALUES ($1, $2, $3)
            ON CONFLICT DO NOTHING
        RETURNING person_id""",
        merchant_id,
        person_id,
        role,
    )
    return found is not None


async def lock_roles(connection: Connection, merchant_id: int) -> dict[int, tuple[str, str]]:
    """Each member's role and status, held until the transaction ends."""
    rows = await connection.records(
        """
        SELECT m.person_id, m.role, p.status
          FROM membership m JOIN person p ON p.id = m.person_id
         WHERE m.merchant_id = $1
         ORDER BY m.person_id FOR UPDATE OF m""",
        merchant_id,
    )
    return {row["person_id"]: (row["role"], row["status"]) for row in rows}


async def set_role(connection: Connection, merchant_id: int, person_id: int, role: Role) -> None:
    await connection.execute(
        "UPDATE membership SET role = $3 WHERE merchant_id = $1 AND person_id = $2",
        merchant_id,
        person_id,
        role,
    )


async def delete_membership(connection: Connection, merchant_id: int, person_id: int) -> None:
    await connection.execute(
        "DELETE FROM membership WHERE merchant_id = $1 AND person_id = $2", merchant_id, person_id
    )


# Password resets.


async def insert_reset(
    connection: Connection, token_hash: bytes, person_id: int, lasts: timedelta
) -> None:
    await connection.execute(
        """
        INSERT INTO password_reset (token_hash, person_id, expires_at)
        VALUES ($1, $2, now() + $3)""",
        token_hash,
        person_id,
        lasts,
    )


_OPEN_RESET = "token_hash = $1 AND used_at IS NULL AND expires_at > now()"


async def person_of_reset(db: Database, token_hash: bytes) -> Person | None:
    """Whose password the link may set; None where it is used, too old or nobody's."""
    return await db.row(
        Person,
        f"{_PERSON} WHERE status = 'active'"
        f" AND id = (SELECT person_id FROM password_reset WHERE {_OPEN_RESET})",
        token_hash,
    )


async def use_reset(connection: Connection, token_hash: bytes) -> bool:
    found = await connection.value(
        f"UPDATE password_reset SET used_at = now() WHERE {_OPEN_RESET} RETURNING person_id",
        token_hash,
    )
    return found is not None


async def delete_resets(connection: Connection, person_id: int) -> None:
    """Links that were not used: what they were for has been done, or must not be any more."""
    await connection.execute(
        "DELETE FROM password_reset WHERE person_id = $1 AND used_at IS NULL", person_id
    )


async def delete_sessions(
    connection: Connection,
    person_id: int,
    *,
    but: int | None = None,
    merchant_id: int | None = None,
) -> int:
    """Ends somebody's sessions: all, all but one, or those with one merchant."""
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


async def forget_ended(db: Database, kept: timedelta) -> None:
    """Sessions that ended, and links that nobody can use any more, a while ago."""
    async with db.transaction() as connection:
        await connection.execute("DELETE FROM session WHERE expires_at < now()")
        for table in ("password_reset", "invitation"):
            await connection.execute(
                f"DELETE FROM {table} WHERE expires_at < now() - $1::interval", kept
            )
