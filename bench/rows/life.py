"""The whole life of a payout or a payment, until the last delivery, next to an earlier version."""

import os
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from bench import cpu, worker
from bench.comparisons import detail
from bench.frame import MICROSECONDS, PRODUCT, Comparison, Contender, Row, Target, Work
from bench.life import installation
from bench.life.installation import THIS, Installation, Running
from bench.server import COMMITS, SLOW
from bench.stage import Stage
from bench.worker import Worker

EARLIER = "2c5047a"
PAYOUTS, PAYOUTS_QUICK, PAYOUT_MERCHANTS = 2000, 400, 20
STEADY_RATE, STEADY_SECONDS = 80, 20
PAYMENTS, PAYMENTS_QUICK, PAYMENT_MERCHANTS = 600, 200, 8
ROUNDS = 3
WARM_UP = 200
QUICK_BLOCK_SECONDS = 0.5

LIVES, LIVES_QUICK = 10, 3
CPU_RANGE_MAX, WAIT_MS_MAX = 1.25, 5000

DETAILS = (
    *("created a second", "API µs", "worker µs", "transactions"),
    *("median ms", "99 % ms", "longest wait ms"),
)


@asynccontextmanager
async def payouts(stage: Stage) -> AsyncIterator[Row]:
    """As fast as they are accepted, and again with slow commits, which show what is serial."""
    number = _number(stage, PAYOUTS, PAYOUTS_QUICK)
    order = {"kind": "payout", "number": number}
    async with _contenders(stage, "life_payout", order, PAYOUT_MERCHANTS) as (product, earlier):
        yield Row(
            name="life-payout",
            title=f"{number:,} payouts over 32 connections, until the last delivery",
            contenders=_with_slow_commits(product, earlier),
            comparisons=[
                _cost(Target(0.25, at_most=True)),
                _rate("", Target(5)),
                _rate(SLOW, Target(8)),
                _slow_commits(Target(0.8)),
                _wal(Target(0.6, at_most=True)),
                *(detail(name, each) for each in (PRODUCT, EARLIER) for name in DETAILS),
            ],
            rounds=ROUNDS,
            cpus=len(os.sched_getaffinity(0)),
        )


@asynccontextmanager
async def steady_payouts(stage: Stage) -> AsyncIterator[Row]:
    """At a steady rate, at which few payouts can share a statement."""
    number = STEADY_RATE * STEADY_SECONDS
    order = {"kind": "payout", "number": number, "rate": STEADY_RATE}
    async with _contenders(stage, "steady_payout", order, PAYOUT_MERCHANTS) as (product, earlier):
        yield Row(
            name="life-payout-steady",
            title=f"{STEADY_RATE} payouts a second for {STEADY_SECONDS} seconds",
            contenders=[product(PRODUCT, 0), earlier(EARLIER, 0)],
            comparisons=[
                _cost(Target(0.4, at_most=True)),
                *(detail(name, each) for each in (PRODUCT, EARLIER) for name in DETAILS),
            ],
            rounds=ROUNDS,
            cpus=len(os.sched_getaffinity(0)),
        )


@asynccontextmanager
async def payments(stage: Stage) -> AsyncIterator[Row]:
    """Like `payouts`, with customers who open checkout and pay on the provider's page."""
    number = _number(stage, PAYMENTS, PAYMENTS_QUICK)
    order = {"kind": "payment", "number": number}
    async with _contenders(stage, "life_payment", order, PAYMENT_MERCHANTS) as (product, earlier):
        yield Row(
            name="life-payment",
            title=f"{number:,} payments over 32 connections, until the last delivery",
            contenders=_with_slow_commits(product, earlier),
            comparisons=[
                _cost(Target(0.35, at_most=True)),
                _rate(""),
                _rate(SLOW),
                _slow_commits(Target(0.8)),
                _wal(),
                *(detail(name, each) for each in (PRODUCT, EARLIER) for name in DETAILS),
            ],
            rounds=ROUNDS,
            cpus=len(os.sched_getaffinity(0)),
        )


@asynccontextmanager
async def repeated_payouts(stage: Stage) -> AsyncIterator[Row]:
    """The same life on fresh databases, to find costs and delays that occur only by chance."""
    number = _number(stage, PAYOUTS, PAYOUTS_QUICK)
    lives = _number(stage, LIVES, LIVES_QUICK)
    async with worker.started("bench.life.world", stage.environment()) as world:

        async def run(_seconds: float) -> Work:
            return _range([await _life(stage, world, each, number) for each in range(lives)])

        yield Row(
            name="life-payout-repeated",
            title=f"{number:,} payouts, {lives} times on a fresh database",
            contenders=[Contender(PRODUCT, run, None)],
            comparisons=[
                detail("CPU: slowest / median", PRODUCT, Target(CPU_RANGE_MAX, at_most=True)),
                detail("longest wait ms", PRODUCT, Target(WAIT_MS_MAX, at_most=True)),
                *(detail(name, PRODUCT) for name in ("lowest µs", "median µs", "highest µs")),
            ],
            once=True,
            cpus=len(os.sched_getaffinity(0)),
        )


async def _life(stage: Stage, world: Worker, number: int, payouts: int) -> Work:
    database, url = f"life_{number}", world.started["url"]
    async with installation.running(stage, THIS, database, url, PAYOUT_MERCHANTS) as running:
        contender = _maker(stage, world, running, {"kind": "payout", "number": payouts})(PRODUCT, 0)
        before = _cpu_seconds(stage, running.pid)
        done = await contender.run(0)
        used = _cpu_seconds(stage, running.pid) - before
    await stage.server.execute("postgres", f"DROP DATABASE {database} WITH (FORCE)")
    details = {**done.details, "µs": used * MICROSECONDS / done.done}
    return Work(done.done, done.seconds, details)


def _cpu_seconds(stage: Stage, pid: int) -> float:
    return cpu.of_program(pid) + cpu.of_server(stage.server.postmaster)


def _range(lives: Sequence[Work]) -> Work:
    used = sorted(life.details["µs"] for life in lives)
    middle = statistics.median(used)
    return Work(
        sum(life.done for life in lives),
        sum(life.seconds for life in lives),
        {
            "CPU: slowest / median": used[-1] / middle,
            "longest wait ms": max(life.details["longest wait ms"] for life in lives),
            "lowest µs": used[0],
            "median µs": middle,
            "highest µs": used[-1],
        },
    )


def _number(stage: Stage, full: int, quick: int) -> int:
    return full if stage.plan.block_seconds > QUICK_BLOCK_SECONDS else quick


Make = Callable[[str, int], Contender]


def _with_slow_commits(product: Make, earlier: Make) -> list[Contender]:
    return [
        make(name + condition, commit_microseconds)
        for condition, commit_microseconds in COMMITS.items()
        for name, make in ((PRODUCT, product), (EARLIER, earlier))
    ]


@asynccontextmanager
async def _contenders(
    stage: Stage, database: str, order: Mapping[str, Any], merchant_count: int
) -> AsyncIterator[tuple[Make, Make]]:
    async with AsyncExitStack() as stack:
        makers = []
        versions: dict[str, Installation] = {
            PRODUCT: THIS,
            EARLIER: installation.checkout(EARLIER),
        }
        for name, version in versions.items():
            world = await stack.enter_async_context(
                worker.started("bench.life.world", stage.environment())
            )
            running = await stack.enter_async_context(
                installation.running(
                    *(stage, version, f"{database}_{name}", world.started["url"]), merchant_count
                )
            )
            warm_up = {"kind": order["kind"], "number": WARM_UP}
            await _maker(stage, world, running, warm_up)("warm-up", 0).run(0)
            makers.append(_maker(stage, world, running, order))
        yield makers[0], makers[1]


def _maker(stage: Stage, world: Worker, running: Running, order: Mapping[str, Any]) -> Make:
    sent = {
        **order,
        "port": running.port,
        "merchants": running.merchants,
        "method_id": running.method_id,
    }
    work = world.contender("world", sent).run

    def make(name: str, commit_microseconds: int) -> Contender:
        async def run(seconds: float) -> Work:
            async with stage.server.commits_of(commit_microseconds):
                return await _measured(stage, running.pid, work, seconds)

        return Contender(name, run, running.pid)

    return make


async def _measured(
    stage: Stage, pid: int, work: Callable[[float], Awaitable[Work]], seconds: float
) -> Work:
    """Adds each process's CPU time and the number of transactions to what the world has seen."""
    before, committed = _by_process(pid), await stage.server.transactions()
    done = await work(seconds)
    used = {name: after - before[name] for name, after in _by_process(pid).items()}
    details = {
        **done.details,
        **{f"{name} µs": used[name] * MICROSECONDS / done.done for name in ("API", "worker")},
        "transactions": (await stage.server.transactions() - committed) / done.done,
    }
    return Work(done.done, done.seconds, details)


def _by_process(pid: int) -> dict[str, float]:
    """CPU seconds so far of the API process and of the worker."""
    used = {"API": 0.0, "worker": 0.0}
    for child in cpu.children(pid):
        words = Path(f"/proc/{child}/cmdline").read_text().split("\0")
        name = "worker" if "worker" in words else "API" if "serve" in words else None
        if name is not None:
            used[name] += cpu.of_program(child)
    return used


def _cost(target: Target) -> Comparison:
    return Comparison(
        f"CPU: {PRODUCT} / {EARLIER}",
        lambda blocks: blocks[PRODUCT].total_us / blocks[EARLIER].total_us,
        target,
    )


def _rate(condition: str, target: Target | None = None) -> Comparison:
    return Comparison(
        f"rate: {PRODUCT} / {EARLIER}{condition}",
        lambda blocks: blocks[PRODUCT + condition].rate / blocks[EARLIER + condition].rate,
        target,
    )


def _slow_commits(target: Target) -> Comparison:
    return Comparison(
        "rate: 10 ms commits / fast commits",
        lambda blocks: blocks[PRODUCT + SLOW].rate / blocks[PRODUCT].rate,
        target,
    )


def _wal(target: Target | None = None) -> Comparison:
    return Comparison(
        f"WAL: {PRODUCT} / {EARLIER}",
        lambda blocks: blocks[PRODUCT].wal_bytes / blocks[EARLIER].wal_bytes,
        target,
    )
