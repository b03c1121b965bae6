"""The targets of the audit stream, each with a cursor: the last entry that it has received."""

import re
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec

from manilla.audit import audit
from manilla.job_kinds import JobKind
from manilla.kit import jobs
from manilla.kit.crypto import Keyring, SealedColumn
from manilla.kit.database.connections import Connection, Database
from manilla.kit.database.rows import columns
from manilla.kit.errors import Refusal
from manilla.kit.http import is_web_address

_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")


class BadTarget(Refusal):
    code = "BAD_AUDIT_TARGET"
    message = (
        "A target is log:, https://host/path, syslog+tls://host:port or, inside a trusted network,"
        " http://host/path or syslog://host:port. Its name has lower-case letters and digits."
    )


class TargetNotFound(Refusal):
    status, code = 404, "AUDIT_TARGET_NOT_FOUND"
    message = "There is no such target."


class AuditTarget(msgspec.Struct, frozen=True):
    name: str
    url: str
    cursor: int
    failures: int  # since the last successful delivery
    last_error: str
    delivered_at: datetime | None
    waiting: int  # number of entries that the target has not received
    lag_seconds: float  # the age of the oldest of them


def context(row: Any) -> str:
    return f"audit_target:{row['name']}"


SEALED = SealedColumn("audit_target", "authorization_sealed", ("name",), context)
_TARGETS = f"""
    SELECT {
    columns(
        AuditTarget,
        waiting="(SELECT id FROM audit_head) - cursor",
        lag_seconds="coalesce((SELECT extract(epoch FROM now() - a.at)::float8 FROM audit a"
        " WHERE a.id = cursor + 1), 0)",
    )
}
      FROM audit_target"""


async def add(
    db: Database,
    keyring: Keyring,
    name: str,
    url: str,
    *,
    authorization: str | None = None,
    from_start: bool = False,
) -> None:
    """Adds a target, which receives all entries from now on, or from the start of the log."""
    check(name, url)
    sealed = authorization and keyring.seal(authorization.encode(), context({"name": name}))
    async with db.transaction() as connection:
        if not await connection.has_row(
            """
            INSERT INTO audit_target (name, url, authorization_sealed, cursor)
            SELECT $1, $2, $3, CASE WHEN $4 THEN 0 ELSE id END FROM audit_head
                ON CONFLICT DO NOTHING
            RETURNING name""",
            *(name, url, sealed or None, from_start),
        ):
            raise BadTarget(f"There is already a target {name}.")
        await jobs.put(connection, 0, JobKind.AUDIT_STREAM, name)
        # The query can contain a key.
        shown = url.partition("?")[0]
        await audit.record(connection, "audit_target.add", f"audit_target:{name}", url=shown)


def check(name: str, url: str) -> None:
    scheme, _, place = url.partition(":")
    is_valid = url == "log:" or is_web_address(url)
    if scheme in ("syslog", "syslog+tls") and is_web_address(f"http:{place}"):
        is_valid = urlsplit(f"http:{place}").port is not None
    # Credentials belong in the authorization, which is encrypted and not shown.
    if not is_valid or "@" in url or not _NAME.fullmatch(name):
        raise BadTarget


async def remove(db: Database, name: str) -> None:
    async with db.transaction() as connection:
        if not await connection.has_row(
            "DELETE FROM audit_target WHERE name = $1 RETURNING name", name
        ):
            raise TargetNotFound
        await audit.record(connection, "audit_target.remove", f"audit_target:{name}")


async def list_all(db: Database | Connection) -> list[AuditTarget]:
    return await db.rows(AuditTarget, _TARGETS + " ORDER BY name")


async def find(db: Database, name: str) -> AuditTarget | None:
    return await db.row(AuditTarget, _TARGETS + " WHERE name = $1", name)


async def authorization(db: Database, keyring: Keyring, target: AuditTarget) -> str | None:
    """Returns the header for the target's URL, but not for a newer URL with the same name."""
    sealed = await db.value(
        "SELECT authorization_sealed FROM audit_target WHERE name = $1 AND url = $2",
        *(target.name, target.url),
    )
    return None if sealed is None else keyring.open(sealed, context({"name": target.name})).decode()


async def advance(db: Database, target: AuditTarget, cursor: int) -> None:
    """Stores that the target has received all entries up to `cursor`."""
    await db.execute(
        """
        UPDATE audit_target
           SET cursor = $4, failures = 0, last_error = '', delivered_at = now()
         WHERE name = $1 AND url = $2 AND cursor = $3""",
        *(target.name, target.url, target.cursor, cursor),
    )


async def record_failure(db: Database, target: AuditTarget, error: str) -> None:
    await db.execute(
        """
        UPDATE audit_target SET failures = failures + 1, last_error = $3
         WHERE name = $1 AND cursor = $2""",
        *(target.name, target.cursor, error),
    )
