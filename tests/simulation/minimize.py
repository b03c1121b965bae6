"""Finds a short part of a failing plan that still fails, by playing parts of it again.

Processes run concurrently, so a part that fails may pass when it is played again. A part counts as
passing only after several attempts. The search is bounded by time, and returns the shortest part
that has failed so far.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from tests.simulation import plan
from tests.simulation.plan import Round

ATTEMPTS = 2

Item = TypeVar("Item")
Fails = Callable[[list[Round]], Awaitable[bool]]


class Minimizer:
    def __init__(self, fails: Fails, seconds: float) -> None:
        """`fails` plays rounds in a new world, and returns whether the model was violated."""
        self._fails = fails
        self._deadline = time.monotonic() + seconds
        self.played = 0

    async def shorten(self, rounds: list[Round]) -> list[Round]:
        """Removes rounds from the start, then whole lanes, then steps."""
        for count in range(1, len(rounds)):
            if await self._still_fails(rounds[-count:]):
                rounds = rounds[-count:]
                break
        steps = [step for each in rounds for step in each]
        lanes = await self._reduce(list(plan.lanes(steps).values()), _join)
        return _join([[step] for step in await self._reduce(_flat(lanes), _join_steps)])

    async def _reduce(
        self, items: list[Item], build: Callable[[Sequence[Item]], list[Round]]
    ) -> list[Item]:
        """Removes parts of a list, large parts first, as long as the rest still fails."""
        size = max(1, len(items) // 2)
        while True:
            start = 0
            while start < len(items) and len(items) > 1:
                rest = items[:start] + items[start + size :]
                if rest and await self._still_fails(build(rest)):
                    items = rest
                else:
                    start += size
            if size == 1 or time.monotonic() > self._deadline:
                return items
            size //= 2

    async def _still_fails(self, rounds: list[Round]) -> bool:
        for _ in range(ATTEMPTS):
            if time.monotonic() > self._deadline:
                return False
            self.played += 1
            if await self._fails(rounds):
                return True
        return False


def _flat(lanes: Sequence[Round]) -> Round:
    return sorted((step for lane in lanes for step in lane), key=lambda step: step.round)


def _join(lanes: Sequence[Round]) -> list[Round]:
    """Returns the rounds that consist of the lanes' steps."""
    return _join_steps(_flat(lanes))


def _join_steps(steps: Sequence[plan.Step]) -> list[Round]:
    rounds: dict[int, Round] = {}
    for step in steps:
        rounds.setdefault(step.round, []).append(step)
    return list(rounds.values())
