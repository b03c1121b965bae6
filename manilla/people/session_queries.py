"""SQL queries for sessions."""

from datetime import datetime, timedelta

import msgspec

from manilla.kit.db import Connection, Database
from manilla.people.roles import Realm
from manilla.people.visitor import Visitor


class OpenSession(msgspec.Struct, frozen=True):
    """A session as shown to its user."""

    id: int
    merchant_id: int | None
    created_at: datetime
    seen_at: datetime
    expires_at: datetime
    second_factor: bool
    address: str
    user_agent: str


async def insert(
    connection: Connection,
    token_hash: bytes,
    person_id: int,
    realm: Realm,
    merchant_id: int | None,
    *,
    lasts: timedelta,
    second_factor: bool,
    address: str,
    user_agent: str,
) -> None:
    await connection.execute(
        """
        WITH entered AS (UPDATE person SET last_login_at = now() WHERE id = $2)
        INSERT INTO session (token_hash, person_id, realm, merchant_id, expires_at, second_factor,
                             address, user_agent)
        VALUES ($1, $2, $3, $4, now() + $5, $6, $7, $8)""",
        token_hash,
        person_id,
        realm,
        merchant_id,
        lasts,
        second_factor,
        address,
        user_agent,
    )


async def delete_oldest(connection: Connection, person_id: int, kept: int) -> None:
    await connection.execute(
        """
        DELETE FROM session WHERE id IN (
            SELECT id FROM session WHERE person_id = $1 ORDER BY id DESC OFFSET $2)""",
        person_id,
        kept,
    )


async def visit(
    db: Database, realm: Realm, token_hash: bytes, *, idle: timedelta, seen_every: timedelta
) -> Visitor | None:
    """Returns the user of a valid session and updates seen_at, in one statement.

    After a membership has ended, the role is None.
    """
    return await db.row(
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
               s.second_factor AND p.totp_confirmed_at IS NOT NULL AS second_factor
          FROM good s
          JOIN person p ON p.id = s.person_id AND p.realm = s.realm AND p.status = 'active'
          LEFT JOIN membership m ON m.merchant_id = s.merchant_id AND m.person_id = s.person_id
          LEFT JOIN merchant c ON c.id = m.merchant_id""",
        token_hash,
        realm,
        idle,
        seen_every,
    )


async def of_person(
    db: Database, person_id: int, idle: dict[Realm, timedelta]
) -> list[OpenSession]:
    return await db.rows(
        OpenSession,
        """
        SELECT id, merchant_id, created_at, seen_at, expires_at, second_factor, address, user_agent
          FROM session
         WHERE person_id = $1 AND expires_at > now()
           AND seen_at > now() - CASE realm WHEN 'console' THEN $2::interval ELSE $3 END
         ORDER BY seen_at DESC, id DESC""",
        person_id,
        idle[Realm.CONSOLE],
        idle[Realm.DASHBOARD],
    )


async def delete_one(connection: Connection, person_id: int, session_id: int) -> bool:
    return await connection.has_row(
        "DELETE FROM session WHERE person_id = $1 AND id = $2 RETURNING id", person_id, session_id
    )


async def delete_by_token(connection: Connection, realm: Realm, token_hash: bytes) -> None:
    await connection.execute(
        "DELETE FROM session WHERE token_hash = $1 AND realm = $2", token_hash, realm
    )


async def delete_of_person(
    connection: Connection,
    person_id: int,
    *,
    but: int | None = None,
    merchant_id: int | None = None,
) -> int:
    """Ends a user's sessions: all, all but one, or those with one merchant. Returns the number."""
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


async def set_stepped_up(connection: Connection, session_id: int, *, by_code: bool) -> None:
    """Marks the session as stepped up. `by_code` also marks its second factor as verified."""
    await connection.execute(
        """
        UPDATE session SET stepped_up_at = now(), second_factor = second_factor OR $2
         WHERE id = $1""",
        session_id,
        by_code,
    )


async def set_second_factor(connection: Connection, session_id: int) -> None:
    await connection.execute("UPDATE session SET second_factor = true WHERE id = $1", session_id)


async def choose_merchant(connection: Connection, session_id: int, merchant_id: int) -> bool:
    """Returns False if the session's user is not a member of the merchant."""
    return await connection.has_row(
        """
        UPDATE session s SET merchant_id = m.merchant_id
          FROM membership m
         WHERE s.id = $1 AND m.merchant_id = $2 AND m.person_id = s.person_id
           AND s.realm = 'dashboard'
        RETURNING s.id""",
        session_id,
        merchant_id,
    )
