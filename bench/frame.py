"""The frame of a measurement: blocks that alternate, and ratios within each round.

A machine's speed wanders: by its neighbours, its temperature, its disk. Within a round of a few
seconds the contenders meet much the same machine, so the ratio of their blocks says more than
either number; the median over the rounds throws out the round that was disturbed.
"""

import asyncio
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from bench import cpu

SETTLE_SECONDS = 0.05

PRODUCT, PGBENCH, BASELINE = "product", "pgbench", "baseline"


class Work(msgspec.Struct, frozen=True):
    """What a contender says of its block."""

    done: int
    seconds: float


class Contender(msgspec.Struct, frozen=True):
    name: str
    run: Callable[[float], Awaitable[Work]]  # works for about so many seconds
    pid: int | None  # whose CPU counts as the program's; None: that of nobody (pgbench)
    detail: str = ""


class Block(msgspec.Struct, frozen=True):
    """One contender's share of a round."""

    rate: float  # done per second of the clock
    program_us: float  # CPU microseconds for each thing done
    database_us: float

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
    """A number without a unit, made from the blocks of one round."""

    name: str
    value: Callable[[Round], float]
    target: Target | None = None


class Row(msgspec.Struct, frozen=True):
    name: str
    title: str  # what the name leaves open
    contenders: Sequence[Contender]
    comparisons: Sequence[Comparison]


class Plan(msgspec.Struct, frozen=True):
    """How long to measure."""

    rounds: int
    block_seconds: float
    warm_seconds: float
    clients: Sequence[int]  # numbers of connections that pgbench may choose from


class Measured(msgspec.Struct, frozen=True):
    row: Row
    rounds: list[Round]
    memory: dict[str, int]  # resident bytes of each contender's program

    def typical(self, name: str) -> Block:
        blocks = [blocks[name] for blocks in self.rounds]
        return Block(
            statistics.median(block.rate for block in blocks),
            statistics.median(block.program_us for block in blocks),
            statistics.median(block.database_us for block in blocks),
        )

    def values(self, comparison: Comparison) -> list[float]:
        return [comparison.value(blocks) for blocks in self.rounds]


async def measure(row: Row, plan: Plan, postmaster: int) -> Measured:
    for contender in row.contenders:
        await contender.run(plan.warm_seconds)
    rounds: list[Round] = []
    for number in range(plan.rounds):
        # Each round begins with another contender, so that none always follows the same one.
        start = number % len(row.contenders)
        order = [*row.contenders[start:], *row.contenders[:start]]
        rounds.append(
            {
                contender.name: await _block(contender, plan.block_seconds, postmaster)
                for contender in order
            }
        )
    memory = {
        contender.name: cpu.resident_bytes(contender.pid)
        for contender in row.contenders
        if contender.pid is not None
    }
    return Measured(row, rounds, memory)


async def _block(contender: Contender, seconds: float, postmaster: int) -> Block:
    await asyncio.sleep(SETTLE_SECONDS)
    before = _cpu_seconds(contender, postmaster)
    work = await contender.run(seconds)
    after = _cpu_seconds(contender, postmaster)
    if work.done == 0:
        raise RuntimeError(f"{contender.name} has done nothing.")
    program_us, database_us = (
        (end - begin) * 1_000_000 / work.done for begin, end in zip(before, after, strict=True)
    )
    return Block(work.done / work.seconds, program_us, database_us)


def _cpu_seconds(contender: Contender, postmaster: int) -> tuple[float, float]:
    program = 0.0 if contender.pid is None else cpu.of_process(contender.pid)
    return program, cpu.of_server(postmaster)
