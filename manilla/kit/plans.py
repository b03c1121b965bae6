"""Query plans for batches: statements that process many rows, each found by its key."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from manilla.kit.db import Connection, Database

# With these settings queries find rows through an index, however small the table is. When a batch
# is joined with a small table, the planner prefers a sequential scan. The session may keep that
# plan while the table grows, until the next ANALYZE.
BY_KEY = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"}
_SET_LOCAL = "; ".join(f"SET LOCAL {name} = {value}" for name, value in BY_KEY.items())


@asynccontextmanager
async def by_key(db: Database) -> AsyncIterator[Connection]:
    """Opens a transaction whose queries find rows through an index, however small the table is."""
    async with db.transaction() as connection:
        await connection.execute(_SET_LOCAL)
        yield connection
