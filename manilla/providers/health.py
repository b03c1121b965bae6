"""Health of the rails: statistics, and a circuit breaker for a rail that is down.

A rail is one provider in one direction. If a rail does not respond, the process that notices this
writes it to the database, and all other processes stop calling the rail within a second. A worker
then probes the rail with a harmless call until it responds again.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from manilla.kit import changes
from manilla.kit.database.connections import Database
from manilla.kit.errors import Unavailable
from manilla.providers import queries
from manilla.providers.port import Answer, Direction, Done, Refused, Unknown
from manilla.providers.queries import RailHealth

log = structlog.get_logger(__name__)

FAILURES_TO_TRIP = 5
FLUSH_SECONDS = 1.0
FIGURES_MINUTES = 15


class Figures(msgspec.Struct):
    """A rail's call counts that are not yet written to the database."""

    done: int = 0
    refused: int = 0
    unknown: int = 0
    milliseconds: int = 0
    last_error: str = ""

    def add(self, later: "Figures") -> None:
        self.done += later.done
        self.refused += later.refused
        self.unknown += later.unknown
        self.milliseconds += later.milliseconds
        self.last_error = later.last_error or self.last_error


class Rail:
    """The state of a rail (one provider in one direction) in this process."""

    def __init__(self, provider: str, direction: Direction, tripped: asyncio.Event) -> None:
        self._tripped = tripped
        self.provider = provider
        self.direction = direction
        self.down_since: datetime | None = None
        # Whether the rail went down in this process and the database does not know that yet.
        self.has_tripped = False
        self.figures = Figures()
        self._failures = 0
        self._probes = 0

    @property
    def is_down(self) -> bool:
        return self.down_since is not None

    @is_down.setter
    def is_down(self, is_down: bool) -> None:
        self.down_since = datetime.now(UTC) if is_down else None

    @property
    def is_open_for_calls(self) -> bool:
        return not self.is_down or self._probes > 0

    def record(self, answer: Answer[Any], seconds: float) -> None:
        figures = self.figures
        figures.milliseconds += round(seconds * 1000)
        match answer:
            case Done():
                figures.done += 1
            case Refused():
                figures.refused += 1
            case Unknown():
                figures.unknown += 1
                figures.last_error = answer.reason
        if isinstance(answer, Unknown) and answer.is_rail_down:
            self._failures += 1
            if self._failures >= FAILURES_TO_TRIP and not self.is_down:
                self._trip()
        else:
            self._failures = 0

    def _trip(self) -> None:
        self.is_down = self.has_tripped = True
        self._tripped.set()
        log.warning("rail_down", provider=self.provider, direction=self.direction)

    def reset(self) -> None:
        self.is_down = self.has_tripped = False
        self._failures = 0

    @contextlib.contextmanager
    def probing(self) -> Iterator[None]:
        self._probes += 1
        try:
            yield
        finally:
            self._probes -= 1


class Health:
    def __init__(self, db: Database, watch: changes.ChangeWatch) -> None:
        self._db = db
        self._tripped = asyncio.Event()
        self._flushing = asyncio.Lock()
        self._rails: dict[tuple[str, str], Rail] = {}
        # The rails that are down and since when, as last read from the database.
        self._down: dict[tuple[str, Direction], datetime] = {}
        # The accounts through which new payouts are stopped, and since when.
        self.drained: dict[str, datetime] = {}
        watch.follow(changes.RAILS, self._refresh)

    def rail(self, provider: str, direction: Direction) -> Rail:
        key = (provider, direction)
        if key not in self._rails:
            self._rails[key] = Rail(provider, direction, self._tripped)
            self._rails[key].down_since = self._down.get(key)
        return self._rails[key]

    def rails_down(self) -> list[Rail]:
        return [rail for rail in self._rails.values() if rail.is_down]

    async def run(self) -> None:
        """Writes the rails' statistics regularly, and immediately when a rail goes down."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._tripped.wait(), FLUSH_SECONDS)
            self._tripped.clear()
            try:
                await self.flush()
            except Unavailable as away:
                log.warning("rail_figures_not_written", **away.facts)

    async def flush(self) -> None:
        async with self._flushing:
            for rail in list(self._rails.values()):
                if rail.has_tripped:
                    await self._write_state(rail, is_down=True)
                    rail.has_tripped = False
            await self._write_figures([r for r in self._rails.values() if r.figures != Figures()])

    async def mark_up(self, rail: Rail) -> None:
        rail.reset()
        await self._write_state(rail, is_down=False)
        log.info("rail_up", provider=rail.provider, direction=rail.direction)

    async def overview(self) -> list[RailHealth]:
        return await queries.rail_health(self._db, FIGURES_MINUTES)

    async def _write_state(self, rail: Rail, *, is_down: bool) -> None:
        async with self._db.transaction() as connection:
            await changes.announce(connection, changes.RAILS)
            await queries.set_rail_state(connection, rail.provider, rail.direction, is_down)

    async def _write_figures(self, rails: Sequence[Rail]) -> None:
        for rail in rails:
            counted, rail.figures = rail.figures, Figures()
            try:
                await queries.add_rail_figures(
                    self._db, rail.provider, rail.direction, msgspec.structs.asdict(counted)
                )
            except Unavailable:
                counted.add(rail.figures)
                rail.figures = counted
                raise

    async def _refresh(self, _known_version: int) -> None:
        self.drained = await queries.drained_rails(self._db)
        self._down = down = await queries.rails_down(self._db)
        for key, rail in self._rails.items():
            if key in down:
                rail.down_since = down[key]
            elif rail.is_down and not rail.has_tripped:
                rail.reset()
