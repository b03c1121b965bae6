"""The moved clock, which creates ids with a time in the past for the demo history.

Ids sort by time, and lists and daily figures rely on this order, so the ids must be created with a
time in the past. Only the timestamps can be moved later (see `moving`).
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Protocol

import msgspec

from manilla.kit.ids import TimedIds
from manilla.kit.jobs import Job, NextRun, Work
from manilla.ledger import trx_ids
from manilla.notify import notification_ids

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ClockStep(msgspec.Struct, frozen=True):
    """A clock change for one subject: at the time `real`, the subject's clock is set to `moved`."""

    real: datetime
    moved: datetime

    @property
    def back(self) -> timedelta:
        return self.real - self.moved


class NewId(Protocol):
    def __call__(self, owner: int) -> str: ...


class NewIdWithTime(Protocol):
    def __call__(self, owner: int) -> tuple[str, datetime]: ...


_current: ContextVar[ClockStep | None] = ContextVar("clock_step", default=None)


class MovedClock:
    """Stores the clock steps of each subject. A subject is a transaction or a payout file."""

    def __init__(self) -> None:
        self._steps: dict[str, list[ClockStep]] = {}
        self._changed: set[str] = set()  # ids of the transactions and files with new clock steps

    def install(self) -> None:
        """Replaces this process's functions that create ids, so that ids have the moved time."""
        trx_ids.new = self._new(trx_ids.TRX_IDS)
        trx_ids.new_with_time = self._new_with_time(trx_ids.TRX_IDS)
        notification_ids.new = self._new(notification_ids.NOTIFICATION_IDS)

    def _new(self, ids: TimedIds) -> NewId:
        def new(owner: int) -> str:
            step = _current.get()
            if step is None:
                return ids.new(owner)
            made = ids.new_at(owner, time.time_ns() - step.back // timedelta(microseconds=1) * 1000)
            self.follow(made)
            return made

        return new

    def _new_with_time(self, ids: TimedIds) -> NewIdWithTime:
        """Returns a function that returns a new id with the moved time, and also the real time."""

        def new(owner: int) -> tuple[str, datetime]:
            step = _current.get()
            made, moment = ids.new_with_time(owner)
            if step is None:
                return made, moment
            moved = moment - step.back - EPOCH
            made = ids.new_at(owner, moved // timedelta(microseconds=1) * 1000)
            self.follow(made)
            return made, moment

        return new

    @contextmanager
    def at(self, moment: datetime, *subjects: str) -> Iterator[None]:
        """Moves the clock within a `with` block, for new subjects and for the given subjects."""
        # Use whole milliseconds, because a transaction's id contains its time in milliseconds.
        with _set(ClockStep(_milliseconds(datetime.now(UTC)), _milliseconds(moment))):
            for subject in subjects:
                self.follow(subject)
            yield

    def follow(self, subject: str) -> None:
        """Applies the current clock step to a newly created transaction or payout file."""
        step = _current.get()
        assert step is not None, "the clock is not moved here"
        self._steps.setdefault(subject, []).append(step)
        self._changed.add(subject)

    def resume(self, steps: Mapping[str, list[ClockStep]]) -> None:
        """Continues with the clock steps that an interrupted process has stored."""
        self._steps |= steps

    def adapt(self, work: Work) -> Work:
        """Moves the clock while a job runs for one of the history's transactions or files."""

        async def handle(job: Job) -> NextRun:
            steps = self._steps.get(job.subject) or self._steps.get(job.subject.partition("-")[0])
            with _set(steps[-1] if steps else None):
                return await work.handler(job)

        return msgspec.structs.replace(work, handler=handle)

    @property
    def steps(self) -> Mapping[str, list[ClockStep]]:
        return self._steps

    def take_changed(self) -> dict[str, list[ClockStep]]:
        """Returns all clock steps of the subjects that got new steps since the last call."""
        changed, self._changed = self._changed, set()
        return {subject: self._steps[subject] for subject in changed}


@contextmanager
def _set(step: ClockStep | None) -> Iterator[None]:
    token = _current.set(step)
    try:
        yield
    finally:
        _current.reset(token)


def _milliseconds(moment: datetime) -> datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
