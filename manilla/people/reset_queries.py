"""SQL queries for password reset links."""

from datetime import timedelta

from manilla.kit.db import Connection, Database
from manilla.people.queries import PERSON, Person

_OPEN_RESET = "token_hash = $1 AND used_at IS NULL AND expires_at > now()"


async def insert(
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


async def person_of(db: Database, token_hash: bytes) -> Person | None:
    """The user whose password the link can set, or None if it is used, expired or unknown."""
    return await db.row(
        Person,
        f"{PERSON} WHERE status = 'active'"
        f" AND id = (SELECT person_id FROM password_reset WHERE {_OPEN_RESET})",
        token_hash,
    )


async def use(connection: Connection, token_hash: bytes) -> bool:
    return await connection.has_row(
        f"UPDATE password_reset SET used_at = now() WHERE {_OPEN_RESET} RETURNING person_id",
        token_hash,
    )


async def delete_unused(connection: Connection, person_id: int) -> None:
    """Deletes unused links, because the password was set or the links must no longer work."""
    await connection.execute(
        "DELETE FROM password_reset WHERE person_id = $1 AND used_at IS NULL", person_id
    )
