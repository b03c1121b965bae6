"""The merchants' requests during the moves. Each request is repeated until its outcome is known."""

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Mapping

from tests.cells.moving.world import CellWorld
from tests.simulation.facts import Notice, Observation
from tests.simulation.model import PENDING
from tests.simulation.observing import Observer
from tests.simulation.operations import MerchantSteps
from tests.simulation.plan import AMOUNT, BACK, OUTCOME, Choices, Step, draw
from tests.simulation.shops import Shop
from tests.support.client import Reply

LANES = 2  # how many requests of a merchant run at the same time
# Each lane waits this long between its steps, so that a small machine is not overloaded.
PAUSE_SECONDS = 0.4
FOLLOW_SECONDS = 0.5
QUERIES_MAX = 600
CHECKOUT_RAILS = ("a", "b")  # Refunds of these providers' payments always get a result.
# Delivered; reported as failed later; open until the provider settles it.
ACCOUNTS = ["0123456789"] * 6 + ["0000000001", "0000000003", "0000000003"]
CHANGES: Mapping[str, tuple[float, Choices]] = {
    "pay": (5, {"amount": AMOUNT, "rail": CHECKOUT_RAILS, "outcome": OUTCOME}),
    "pay_by_link": (1, {"amount": AMOUNT, "rail": CHECKOUT_RAILS, "outcome": OUTCOME}),
    "pay_out": (7, {"amount": AMOUNT, "method": ["a", "b", "c", "auto"], "account": ACCOUNTS}),
    "refund": (2, {"back": BACK, "percent": [10, 30, 100]}),
}
# One lane of each merchant also reads. Two lanes could get their responses in the wrong order.
STEPS: Mapping[str, tuple[float, Choices]] = {
    **CHANGES,
    "repeat": (1, {"back": BACK, "copies": [1, 1, 3]}),
    "verify": (4, {"back": BACK}),
    "read_balance": (4, {}),
}


class LoadSteps(MerchantSteps):
    tries = 2400  # A move that was killed can be continued much later.

    def repeatable(self) -> list[str]:
        """Leaves out the requests that are being sent in parallel at the moment."""
        return [key for key in self.shop.requests if key not in self.shop.unknown]


class EventFollower(Observer):
    """Follows each merchant's list of events, from the last event that it has seen."""

    def __init__(self, world: CellWorld, rails: tuple[str, ...]) -> None:
        super().__init__(world, rails)
        self.followed: dict[int, list[Notice]] = {shop.id: [] for shop in world.shops}

    async def new_events(self, shop: Shop) -> AsyncIterator[Notice]:
        """Returns the new events. Events about new transactions are only recorded."""
        async for event in super().new_events(shop):
            self.followed[shop.id].append(event)
            if event.status != PENDING:
                yield event

    async def observe(self) -> Observation:
        """Leaves out the events about new transactions, which the model does not know."""
        seen = await super().observe()
        seen.deliveries = [each for each in seen.deliveries if each.status != PENDING]
        return seen

    async def _get(self, shop: Shop, target: str, *expected: int) -> Reply:
        """Repeats a query. During a move, and on a busy machine, a cell may answer with 503."""
        for _ in range(QUERIES_MAX - 1):
            with contextlib.suppress(ConnectionError):
                return await super()._get(shop, target, *expected)
            await asyncio.sleep(FOLLOW_SECONDS)
        return await super()._get(shop, target, *expected)

    async def follow(self, shop: Shop, done: asyncio.Event) -> None:
        while not done.is_set():
            async for event in self.new_events(shop):
                self._events.append(event)
            await asyncio.sleep(FOLLOW_SECONDS)

    async def whole_list(self, shop: Shop) -> list[Notice]:
        """Reads the list of events again from its beginning."""
        last = self._last_event.pop(shop.id, None)
        found = [event async for event in Observer.new_events(self, shop)]
        if last is not None:
            self._last_event[shop.id] = last
        return found


class Load:
    def __init__(self, world: CellWorld, seed: int, follower: EventFollower) -> None:
        self._world, self._seed, self._follower = world, seed, follower
        self._numbers = itertools.count(1)
        self._done = asyncio.Event()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            for shop in self._world.shops:
                group.create_task(self._follower.follow(shop, self._done))
                for lane in range(LANES):
                    group.create_task(self._run(shop, lane))
            try:
                yield
            finally:
                self._done.set()

    async def _run(self, shop: Shop, lane: int) -> None:
        steps = LoadSteps(self._world, shop)
        chance = random.Random(f"{self._seed}-{shop.id}-{lane}")
        while not self._done.is_set():
            step = Step(1, next(self._numbers), f"merchant {shop.id}", "")
            await steps.run(draw(chance, CHANGES if lane else STEPS, step))
            await asyncio.sleep(PAUSE_SECONDS)
