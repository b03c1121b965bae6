"""Changes the database in a transaction that is rolled back."""

import contextlib
from collections.abc import AsyncIterator

from manilla.kit.database.connections import Connection, Database


class _RolledBackError(Exception):
    pass


@contextlib.asynccontextmanager
async def rolled_back(db: Database, sql: str) -> AsyncIterator[Connection]:
    """Runs the statements, and rolls them back at the end of the `with` block."""
    with contextlib.suppress(_RolledBackError):
        async with db.transaction() as connection:
            await connection.execute(sql)
            yield connection
            raise _RolledBackError
