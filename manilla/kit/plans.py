"""Settings for the query plans of batches: statements that find many rows, each by its key."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from manilla.kit.db import Connection, Database

# With these settings, queries find rows through an index even in a small table. By default, the
# planner prefers a sequential scan when it joins a batch with a small table. The session may keep
# that plan while the table grows, until the next ANALYZE.
BY_KEY = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"}
_SET_LOCAL = "; ".join(f"SET LOCAL {name} = {value}" for name, value in BY_KEY.items())


@asynccontextmanager
async def by_key(db: Database) -> AsyncIterator[Connection]:
    """Opens a transaction whose queries find rows through an index, even in a small table."""
    async with db.transaction() as connection:
        await connection.execute(_SET_LOCAL)
        yield connection
