"""Measures the benchmarks: contenders run in alternating blocks and are compared within a round.

A machine's speed varies with its neighbors, temperature and disk. Within a round of a few seconds
all contenders run under nearly the same conditions, so the ratio of their blocks is more reliable
than the absolute numbers. Using the median of the rounds discards a disturbed round.
"""

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack

import msgspec

from bench import cpu
from bench.server import Counted, Server

SETTLE_SECONDS = 0.05
WARM_UP_TRIES = 20
MICROSECONDS = 1_000_000

PRODUCT, PGBENCH, BASELINE = "product", "pgbench", "baseline"


Counting = Callable[[], Awaitable[Counted]]


class Work(msgspec.Struct, frozen=True):
    """The work that a contender did in one block."""

    done: int
    seconds: float
    details: Mapping[str, float] = {}  # other results, keyed by name
    # CPU seconds in the block that are not part of the measured operation.
    other_program_seconds: float = 0
    other_database_seconds: float = 0


class Contender(msgspec.Struct, frozen=True):
    name: str
    run: Callable[[float], Awaitable[Work]]  # runs the contender for about this many seconds
    pid: int | None  # the measured process, including its children; None for pgbench
    detail: str = ""
    prepare: Callable[[], Awaitable[None]] | None = None  # runs before each block, not measured


class Block(msgspec.Struct, frozen=True):
    """The result of one contender in one round."""

    rate: float  # operations per second of wall-clock time
    program_us: float  # CPU microseconds per operation
    database_us: float
    wal_bytes: float  # bytes of write-ahead log per operation
    details: Mapping[str, float] = {}
    done: int = 0  # number of operations
    statements: float | None = None  # per operation, if the row counts them in its rounds
    buffers: float | None = None  # pages in the database's cache that an operation reads or changes

    @property
    def total_us(self) -> float:
        return self.program_us + self.database_us


Round = Mapping[str, Block]


class Target(msgspec.Struct, frozen=True):
    bound: float
    at_most: bool = False

    def is_met(self, value: float) -> bool:
        return value <= self.bound if self.at_most else value >= self.bound


class Comparison(msgspec.Struct, frozen=True):
    """A ratio that is computed from the blocks of one round."""

    name: str
    value: Callable[[Round], float]
    target: Target | None = None


class Row(msgspec.Struct, frozen=True):
    name: str
    title: str  # the note that the report prints next to the row's name
    contenders: Sequence[Contender]
    comparisons: Sequence[Comparison]
    # Runs all contenders at the same time instead of alternating, because some differences are too
    # small to see between two blocks. Only the first contender may use the database.
    together: bool = False
    # Runs each contender once, in order and without a warm-up, because one run takes long.
    once: bool = False
    # For a row whose blocks take long: runs this many rounds, and is warm when it is opened.
    rounds: int | None = None
    cpus: int = 1  # how many CPUs the measured programs may use
    # Counts statements and buffers in the rounds. Otherwise, statements are counted in separate
    # blocks, because counting uses some of the server's CPU time.
    counted: bool = False


class Plan(msgspec.Struct, frozen=True):
    """The durations of the measurement."""

    rounds: int
    block_seconds: float
    warm_seconds: float
    clients: Sequence[int]  # connection counts from which pgbench chooses the fastest
    overload_seconds: float = 60


class Measured(msgspec.Struct, frozen=True):
    row: Row
    rounds: list[Round]
    memory: dict[str, int]  # resident bytes of each contender's program
    statements: dict[str, float]  # SQL statements per operation of each contender

    def typical(self, name: str) -> Block:
        blocks = [blocks[name] for blocks in self.rounds]
        return Block(
            statistics.median(block.rate for block in blocks),
            statistics.median(block.program_us for block in blocks),
            statistics.median(block.database_us for block in blocks),
            statistics.median(block.wal_bytes for block in blocks),
            done=sum(block.done for block in blocks),
            statements=_median(block.statements for block in blocks),
            buffers=_median(block.buffers for block in blocks),
        )

    def values(self, comparison: Comparison) -> list[float]:
        return [comparison.value(blocks) for blocks in self.rounds]

    def median(self, comparison: Comparison) -> float:
        return statistics.median(self.values(comparison))


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


async def measure(row: Row, plan: Plan, server: Server) -> Measured:
    pids = {contender.name: contender.pid for contender in row.contenders if contender.pid}
    for pid in pids.values():
        cpu.pin(pid, row.cpus)
    if not row.once and row.rounds is None:
        # Warms up all contenders at once, which is faster.
        await asyncio.gather(*(_warm_up(each, plan.warm_seconds) for each in row.contenders))
    numbers = range(1 if row.once else row.rounds or plan.rounds)
    async with AsyncExitStack() as stack:
        counted = None
        if row.counted:
            counted = await stack.enter_async_context(server.counted_statements())
        rounds = [await _round(row, number, plan, server, counted) for number in numbers]
    memory = {name: cpu.resident_bytes(pid) for name, pid in pids.items()}
    return Measured(row, rounds, memory, await _statements(row, plan, server))


async def _warm_up(contender: Contender, seconds: float) -> None:
    """Runs until at least one operation is done: a busy machine may need seconds to load caches."""
    for _ in range(WARM_UP_TRIES):
        if (await contender.run(seconds)).done:
            return


async def _round(
    row: Row, number: int, plan: Plan, server: Server, counted: Counting | None
) -> Round:
    if row.together:
        return await _blocks(row.contenders, plan.block_seconds, server)
    # Each round starts with a different contender, so the order varies.
    start = number % len(row.contenders)
    blocks: dict[str, Block] = {}
    for contender in [*row.contenders[start:], *row.contenders[:start]]:
        if contender.prepare is not None:
            await contender.prepare()
        before = await counted() if counted else None
        found = await _blocks([contender], plan.block_seconds, server)
        if counted and before:
            found = _with_counts(found, before, await counted())
        blocks |= found
    return blocks


def _with_counts(blocks: dict[str, Block], before: Counted, after: Counted) -> dict[str, Block]:
    [(name, block)] = blocks.items()
    block = msgspec.structs.replace(
        block,
        statements=(after.statements - before.statements) / block.done,
        buffers=(after.buffers - before.buffers) / block.done,
    )
    return {name: block}


async def _statements(row: Row, plan: Plan, server: Server) -> dict[str, float]:
    """Counts statements in separate blocks, because counting uses some of the server's CPU time."""
    if row.once or row.together or row.counted:
        return {}
    counts = {}
    for contender in row.contenders:
        async with server.counted_statements() as counted:
            work = await contender.run(plan.block_seconds)
            counts[contender.name] = (await counted()).statements / work.done
    return counts


async def _blocks(
    contenders: Sequence[Contender], seconds: float, server: Server
) -> dict[str, Block]:
    """Runs the contenders in parallel. The database's CPU time is attributed to the first one."""
    await asyncio.sleep(SETTLE_SECONDS)
    wal_before = await server.wal_bytes()
    before, database_before = _program_seconds(contenders), cpu.of_server(server.postmaster)
    works = await asyncio.gather(*(contender.run(seconds) for contender in contenders))
    assert all(work.done for work in works), "a contender has completed no operation"
    after, database_after = _program_seconds(contenders), cpu.of_server(server.postmaster)
    other = sum(work.other_database_seconds for work in works)
    database_seconds = [database_after - database_before - other, *(0.0 for _ in contenders[1:])]
    wal_bytes = [await server.wal_bytes() - wal_before, *(0 for _ in contenders[1:])]
    return {
        contender.name: Block(
            work.done / work.seconds,
            (end - begin - work.other_program_seconds) * MICROSECONDS / work.done,
            database * MICROSECONDS / work.done,
            wal / work.done,
            work.details,
            work.done,
        )
        for contender, work, begin, end, database, wal in zip(
            contenders, works, before, after, database_seconds, wal_bytes, strict=True
        )
    }


def _program_seconds(contenders: Sequence[Contender]) -> list[float]:
    return [0.0 if each.pid is None else cpu.of_program(each.pid) for each in contenders]
