"""Helpers for Alembic migrations: whole SQL scripts, and indexes built without blocking writes."""

from alembic import op


def run(script: str) -> None:
    """Runs a script with several statements, which asyncpg cannot prepare."""
    connection = op.get_bind().connection.dbapi_connection
    assert connection is not None
    connection.run_async(lambda driver: driver.execute(script))


def create_index(name: str, definition: str, *, unique: bool = False) -> None:
    """Builds an index without blocking writes, for a table that grows.

    The build cannot be rolled back. If it is interrupted it leaves an invalid index, which the next
    run replaces. It waits for all transactions that were open before it, however long they take.
    """
    kind = "UNIQUE INDEX" if unique else "INDEX"
    with op.get_context().autocommit_block():
        op.execute("SET lock_timeout = 0")
        op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
        op.execute(f"CREATE {kind} CONCURRENTLY {name} ON {definition}")
        op.execute("SET lock_timeout = '3s'")
