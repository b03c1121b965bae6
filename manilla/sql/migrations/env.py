"""Alembic's entry point: one connection, one advisory lock, and a short lock timeout."""

import asyncio
import time

from alembic import context
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from manilla.kit.db import connect
from manilla.sql.migrate import MigrationFailed

ADVISORY_LOCK = 0x4D414E494C4C41  # "MANILLA" in ASCII
LOCK_POLL_SECONDS = 0.2
LOCK_SECONDS_MAX = 600
BUSY = (
    "Another process has been migrating this database for 10 minutes. Nothing was changed here: "
    "run `manilla migrate` again when it has ended."
)


def _lock(connection: Connection) -> None:
    """Takes the lock. If two processes start together, the second waits, then finds nothing to do.

    It polls, because a statement that waits for the lock keeps a snapshot open. An index that the
    first process builds concurrently would wait for that snapshot: a deadlock.
    """
    deadline = time.monotonic() + LOCK_SECONDS_MAX
    while not connection.execute(text(f"SELECT pg_try_advisory_lock({ADVISORY_LOCK})")).scalar():
        connection.commit()
        if time.monotonic() > deadline:
            raise MigrationFailed(BUSY)
        time.sleep(LOCK_POLL_SECONDS)


def migrate(connection: Connection) -> None:
    _lock(connection)
    # A migration that cannot get its table lock within 3 s fails and can be run again later. With a
    # longer wait, every request would queue behind it.
    connection.execute(text("SET lock_timeout = '3s'"))
    connection.commit()
    context.configure(connection=connection, transaction_per_migration=True)
    context.run_migrations()
    connection.commit()


async def main() -> None:
    url = context.config.attributes["database_url"]
    engine = create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda: connect(url),
        poolclass=NullPool,
    )
    async with engine.connect() as connection:
        await connection.run_sync(migrate)
    await engine.dispose()


asyncio.run(main())
