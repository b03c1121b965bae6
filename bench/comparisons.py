"""The ratios that several benchmarks report. A higher ratio is better for Manilla."""

from collections.abc import Callable

from bench.frame import BASELINE, PGBENCH, PRODUCT, Comparison, Round, Target


def rate_against_pgbench(target: Target | None = None) -> Comparison:
    """Divides Manilla's rate by pgbench's rate, which runs the same statements one by one."""
    return Comparison("rate: product / pgbench", _rate(PRODUCT, PGBENCH), target)


def database_cpu_against_pgbench() -> Comparison:
    return Comparison(
        "database CPU: pgbench / product",
        lambda blocks: blocks[PGBENCH].database_us / blocks[PRODUCT].database_us,
    )


def against_baseline(target: Target | None = None) -> list[Comparison]:
    return [
        Comparison("rate: product / baseline", _rate(PRODUCT, BASELINE), target),
        Comparison(
            "CPU: baseline / product",
            lambda blocks: blocks[BASELINE].total_us / blocks[PRODUCT].total_us,
            target,
        ),
    ]


def share_of_cpu(name: str, without: str, target: Target | None = None) -> Comparison:
    """Returns the share of Manilla's CPU time that the variant `without` saves."""

    def value(blocks: Round) -> float:
        return 1 - blocks[without].total_us / blocks[PRODUCT].total_us

    return Comparison(name, value, target)


def cost(name: str, one: str, other: str, maximum: float | None = None) -> Comparison:
    """Divides the CPU time of `one`, including its database CPU time, by that of `other`."""
    target = None if maximum is None else Target(maximum, at_most=True)
    return Comparison(
        f"cost: {name}", lambda blocks: blocks[one].total_us / blocks[other].total_us, target
    )


def speed(name: str, one: str, other: str, target: Target | None = None) -> Comparison:
    return Comparison(f"rate: {name}", _rate(one, other), target)


def detail(name: str, contender: str, target: Target | None = None) -> Comparison:
    """Compares a value that the contender itself reports, such as a latency."""
    return Comparison(name, lambda blocks: blocks[contender].details[name], target)


def growth(name: str, small: str, large: str, target: Target | None = None) -> list[Comparison]:
    """Compares a request's duration and database CPU time on a large and on a small database."""
    return [
        Comparison(f"time: {name}", _rate(small, large), target),
        database_cpu(name, large, small),
    ]


def database_cpu(name: str, one: str, other: str) -> Comparison:
    return Comparison(
        f"database CPU: {name}",
        lambda blocks: blocks[one].database_us / blocks[other].database_us,
    )


def buffers(name: str, one: str, other: str) -> Comparison:
    """Divides the number of buffers that the statements touch, which no other load changes."""

    def value(blocks: Round) -> float:
        many, few = blocks[one].buffers, blocks[other].buffers
        assert many is not None, "the row does not count buffers"
        assert few is not None
        return many / few

    return Comparison(f"buffers: {name}", value)


def _rate(one: str, other: str) -> Callable[[Round], float]:
    return lambda blocks: blocks[one].rate / blocks[other].rate
