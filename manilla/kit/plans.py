"""Query plans for batches: statements that process many rows, each found by its key."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from manilla.kit.db import Connection, Database

# When a batch is joined with a small table, the planner prefers a sequential scan. The session may
# keep that plan while the table grows, until the next ANALYZE.
SETTINGS = """
    SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off;
    SET LOCAL enable_mergejoin = off"""


@asynccontextmanager
async def by_key(db: Database) -> AsyncIterator[Connection]:
    """Opens a transaction whose queries find rows through an index, however small the table is."""
    async with db.transaction() as connection:
        await connection.execute(SETTINGS)
        yield connection
