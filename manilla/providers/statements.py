"""Reads a provider's complete statement. Returns each line once, even if new lines are added."""

from collections.abc import AsyncIterator
from datetime import datetime

from manilla.kit.errors import Refusal
from manilla.providers.connection_test import problem
from manilla.providers.port import Adapter, Done, StatementLine

PAGES_MAX = 10_000
# Reading stops after this many consecutive pages that contain no unseen statement line.
# A provider that ignores the page number would repeat one page forever.
# If lines are added while we read the statement, a page or two can be repeated.
REPEATED_PAGES_MAX = 3


class StatementNotRead(Refusal):
    status = 502
    code = "statement_not_read"
    message = "The provider's statement could not be read completely."


async def read(
    adapter: Adapter, since: datetime, until: datetime, currency: str
) -> AsyncIterator[list[StatementLine]]:
    """Yields the lines from `since` until before `until` in pages, in any order.

    Raises StatementNotRead if a page cannot be read, after earlier pages were yielded.
    """
    seen: set[str] = set()
    start, repeated = None, 0
    for _ in range(PAGES_MAX):
        answer = await adapter.statement(since, until, currency, start)
        if not isinstance(answer, Done):
            raise StatementNotRead(f"The statement was not read: {problem(answer)}.")
        new = {line.line_id: line for line in answer.value.lines if line.line_id not in seen}
        seen |= new.keys()
        yield [line for line in new.values() if since <= line.booked_at < until]
        start, repeated = answer.value.next, 0 if new else repeated + 1
        if start is None:
            return
        if repeated >= REPEATED_PAGES_MAX:
            raise StatementNotRead("The provider repeatedly sends the same page.")
    raise StatementNotRead("The statement has too many pages.")
