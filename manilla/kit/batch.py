"""Combines concurrent submissions into one SQL statement.

Items that arrive while a statement runs wait for the next statement, which processes all of them.
An idle batcher therefore adds no delay, and a busy batcher needs one commit for up to a hundred
items.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from manilla.kit import deadline, time_limits
from manilla.kit.database.connections import BY_KEY, CONFLICTS, Database
from manilla.kit.errors import Unavailable

Item = TypeVar("Item")
Result = TypeVar("Result")

CONFLICT_TRIES = 5
# The delay of statements that store results of a worker's jobs. Providers and merchants' servers
# respond to the calls of one batch within a few milliseconds.
RESULT_DELAY_SECONDS = 0.01


class _Load:
    """Counts items that were submitted to this process's batchers and have no result yet."""

    unanswered = 0


def count_unanswered() -> int:
    return _Load.unanswered


class Batcher(Generic[Item, Result]):
    """Processes items in batches.

    `run` takes a list of items and returns one result per item, in the same order.

    A busy batcher waits `gather_seconds` between statements, so that each statement processes more
    items. A single submitter never waits. If nobody waits for the results, `delay_seconds` delays
    every statement, so that items that arrive one after another also share a statement.

    An expected error is a result, not an exception. If `run` raises an exception, the batch is
    split in half and each half runs again, until the failing item is alone and only its submitter
    gets the error. This is safe because a statement that raised an exception has changed nothing.
    If it is uncertain whether the statement changed anything (Unavailable), the batcher does not
    retry, and every submitter gets the error.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        batch_max: int = 128,
        waiting_max: int = 4096,
        gather_seconds: float = 0,
        delay_seconds: float = 0,
    ) -> None:
        self._run = run
        self._batch_max = batch_max
        self._waiting_max = waiting_max
        self._gather_seconds = gather_seconds
        self._delay_seconds = delay_seconds
        self._queue: deque[tuple[Item, asyncio.Future[Result], float]] = deque()
        self._drain: asyncio.Task[None] | None = None
        self._waits = deadline.Waits()

    async def submit(self, item: Item) -> Result:
        loop, queue = asyncio.get_running_loop(), self._queue
        now = loop.time()
        if queue and (
            len(queue) >= self._waiting_max
            or now - queue[0][2] > time_limits.current.batch_wait_seconds
        ):
            raise Unavailable
        # Raises Unavailable if the request has timed out, because such a request must not write.
        seconds = deadline.remaining_seconds()
        future: asyncio.Future[Result] = loop.create_future()
        if seconds is not None:
            self._waits.limit(future, seconds)
        queue.append((item, future, now))
        if self._drain is None:
            self._drain = deadline.start_detached(self._settle_all())
        _Load.unanswered += 1
        try:
            with deadline.counted():
                return await future
        finally:
            _Load.unanswered -= 1

    async def close(self) -> None:
        """Waits until all submitted items are processed. The submitters still get their results."""
        if self._drain is not None:
            await self._drain

    async def _settle_all(self) -> None:
        queue = self._queue
        try:
            while queue:
                if self._delay_seconds and len(queue) < self._batch_max:
                    await asyncio.sleep(self._delay_seconds)
                taken = [queue.popleft() for _ in range(min(len(queue), self._batch_max))]
                # Skip items whose request has timed out or whose client has disconnected.
                await self._settle(
                    [(item, answer) for item, answer, _ in taken if not answer.done()]
                )
                if self._gather_seconds and len(taken) > 1:
                    # A pause while busy lets the next SQL statement process more items.
                    await asyncio.sleep(self._gather_seconds)
        finally:
            self._drain = None

    async def _settle(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        if not batch:
            return
        try:
            results = await self._run_through_conflicts([item for item, _ in batch])
            assert len(results) == len(batch)
        except Exception as error:
            if len(batch) == 1 or isinstance(error, Unavailable):
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                return
            middle = len(batch) // 2
            await self._settle(batch[:middle])
            await self._settle(batch[middle:])
            return
        for (_, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)

    async def _run_through_conflicts(self, items: list[Item]) -> Sequence[Result]:
        for _ in range(CONFLICT_TRIES - 1):
            try:
                return await self._run(items)
            except CONFLICTS:
                continue
        return await self._run(items)


class SharedRead(msgspec.Struct, frozen=True):
    sql: str
    values: tuple[Any, ...]


class RecordSource(Protocol):
    async def records(self, sql: str, *values: Any) -> list[Any]:
        """Runs an SQL statement, one call at a time."""


class SharedReads:
    """Runs the same query for many requests as one SQL statement, over a dedicated connection.

    The SQL selects from `unnest` of its parameters, which are arrays with one element per request.
    The first array contains each request's index in the batch. Each other array contains one
    parameter's values. The first column of each returned record is the index of the request that it
    belongs to.
    """

    def __init__(self, source: RecordSource, *, batch_max: int = 128) -> None:
        """`source` runs the SQL statements with the planner settings `BY_KEY`."""
        self._source = source
        self._batcher = Batcher(self._read, batch_max=batch_max)

    async def records(self, sql: str, *values: Any) -> list[Any]:
        """Returns the records for these values, in the order that the SQL statement returns.

        Use few different SQL texts, because only requests with the same SQL text share a statement.
        """
        return await self._batcher.submit(SharedRead(sql, values))

    async def _read(self, wanted: Sequence[SharedRead]) -> list[list[Any]]:
        found: list[list[Any]] = [[] for _ in wanted]
        for sql in {each.sql for each in wanted}:
            places = [place for place, each in enumerate(wanted) if each.sql == sql]
            values = zip(*(wanted[place].values for place in places), strict=True)
            _add_by_place(found, await self._source.records(sql, places, *values))
        return found


class SharedWrite:
    """Runs one SQL statement that writes for many requests at once, over a dedicated connection.

    `SharedReads` describes the statement's parameters and columns.
    """

    def __init__(self, db: Database, sql: str) -> None:
        self._connection = db.keep_connection(BY_KEY, writes=True)
        self._sql = sql
        self._batcher = Batcher(self._write)

    async def records(self, *values: Any) -> list[Any]:
        """Returns the records for these values, in the order that the SQL statement returns."""
        return await self._batcher.submit(values)

    async def _write(self, wanted: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
        found: list[list[Any]] = [[] for _ in wanted]
        values = zip(*wanted, strict=True)
        records = await self._connection.records(self._sql, range(len(wanted)), *values)
        _add_by_place(found, records)
        return found


def _add_by_place(found: list[list[Any]], records: Iterable[Any]) -> None:
    """Adds each record to its request's list. The record's first column is the request's index."""
    for record in records:
        found[record[0]].append(record)
