"""How often we query a provider about a transaction. Older transactions are queried less often."""

from datetime import timedelta

import msgspec


class Schedule(msgspec.Struct, frozen=True):
    # Each step is a maximum age, and the seconds between two status queries up to that age.
    steps: tuple[tuple[timedelta, float], ...]
    # The interval for overdue transactions, or None for an eighth of the age. Queries never stop.
    overdue_seconds: float | None = None

    @property
    def first_seconds(self) -> float:
        return self.steps[0][1]

    @property
    def last_seconds(self) -> float:
        return self.overdue_seconds or self.steps[-1][1]

    def is_overdue(self, age: timedelta) -> bool:
        return age >= self.steps[-1][0]

    def seconds(self, age: timedelta) -> float:
        overdue_seconds = self.overdue_seconds or age.total_seconds() / 8
        return next((seconds for limit, seconds in self.steps if age < limit), overdue_seconds)
