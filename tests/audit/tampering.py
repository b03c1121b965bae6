"""Changes to the audit log that an attacker with full database privileges could make."""

import contextlib
from collections.abc import AsyncIterator

from manilla.kit.database.connections import Connection, Database


@contextlib.asynccontextmanager
async def tampered(owner: Database, statement: str) -> AsyncIterator[None]:
    """Tampers with the audit log, and restores it at the end of the `with` block."""
    async with owner.connection() as connection:
        await connection.execute("CREATE TABLE audit_kept AS SELECT * FROM audit")
        await connection.execute("CREATE TABLE audit_head_kept AS SELECT * FROM audit_head")
        await _rewrite(connection, statement)
        try:
            yield
        finally:
            await _rewrite(connection, "DELETE FROM audit")
            await _rewrite(connection, "INSERT INTO audit SELECT * FROM audit_kept")
            await connection.execute(
                """
                UPDATE audit_head SET id = kept.id, hash = kept.hash
                  FROM audit_head_kept kept"""
            )
            await connection.execute("DROP TABLE audit_kept, audit_head_kept")


async def _rewrite(connection: Connection, statement: str) -> None:
    await connection.execute("ALTER TABLE audit DISABLE TRIGGER append_only")
    await connection.execute(statement)
    await connection.execute("ALTER TABLE audit ENABLE TRIGGER append_only")
