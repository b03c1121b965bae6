"""Folds concurrent submissions into one statement.

While a statement runs, what arrives waits; when it returns, all that waits goes out together. An
idle batcher therefore adds no delay, and a busy one turns a hundred commits into one.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

from manilla.kit import deadline
from manilla.kit.db import CONFLICTS
from manilla.kit.errors import Unavailable

Item = TypeVar("Item")
Result = TypeVar("Result")

CONFLICT_TRIES = 5


def everything(_item: object) -> Hashable:
    """One group: any items may share a statement. Right for a database on one node."""
    return None


class Batcher(Generic[Item, Result]):
    """`run` takes items of one group and returns a result for each, in their order.

    `gather_seconds` trades a little of busy callers' time for fewer statements; a lone caller never
    waits for it.

    A refusal is a result, not an exception. When `run` raises, the batch is halved and tried again
    until the faulty item stands alone and only its submitter sees the error. That is safe because a
    statement that raised has changed nothing; where that is not known (Unavailable), nothing is
    tried again here, and every submitter is told.
    """

    def __init__(
        self,
        run: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        group: Callable[[Item], Hashable] = everything,
        batch_max: int = 128,
        waiting_max: int = 4096,
        gather_seconds: float = 0,
    ) -> None:
        self._run = run
        self._group = group
        self._batch_max = batch_max
        self._waiting_max = waiting_max
        self._gather_seconds = gather_seconds
        self._waiting = 0
        self._queues: dict[Hashable, deque[tuple[Item, asyncio.Future[Result]]]] = {}
        self._drains: set[asyncio.Task[None]] = set()

    async def submit(self, item: Item) -> Result:
        if self._waiting >= self._waiting_max:
            raise Unavailable
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        key = self._group(item)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = deque()
            drain = deadline.detached(self._drain(key, queue))
            self._drains.add(drain)
            drain.add_done_callback(self._drains.discard)
        queue.append((item, future))
        self._waiting += 1
        return await deadline.answered(future)

    async def close(self) -> None:
        """Waits for what was submitted; its submitters still get their results."""
        await asyncio.gather(*self._drains)

    async def _drain(
        self, key: Hashable, queue: deque[tuple[Item, asyncio.Future[Result]]]
    ) -> None:
        while queue:
            taken = [queue.popleft() for _ in range(min(len(queue), self._batch_max))]
            self._waiting -= len(taken)
            # A submitter that has gone away before its turn (a closed connection) wants nothing.
            await self._settle([pair for pair in taken if not pair[1].done()])
            if self._gather_seconds and len(taken) > 1:
                # Many are asking: a moment's rest lets more of them share the next statement.
                await asyncio.sleep(self._gather_seconds)
        del self._queues[key]

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
