"""Computes the tables of docs/operating/capacity.md from measured figures. `make docs` writes them.

The measured figures are in docs/operating/capacity.json. Replace them after a new measurement.
"""

import math
from collections.abc import Callable
from pathlib import Path

import msgspec

from tools.proof import table

FILE = Path(__file__).parents[1] / "docs/operating/capacity.json"
RATES = (10, 100, 1_000, 10_000)  # payouts per second
LOAD = 0.75  # the share of a core's time that may be used, so that peaks do not cause delays
CORES = 8  # the cores of a host for the API and the workers
HOSTS_MIN = 2  # a host can fail or restart
PRIMARY_CORES_MAX = 16  # the cores of a primary; beyond that, an installation needs more cells
STANDBYS = 2
DAY_SECONDS = 86_400
YEAR_SECONDS = 365 * DAY_SECONDS
PEAK = 3  # the busiest second, compared with the average
ADMINISTRATORS = 20  # the connections for people, replication and commands


class Figure(msgspec.Struct, frozen=True):
    value: float
    source: str


class Figures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one payout takes from the signed request to the last delivery of its notifications."""

    api_cpu_ms: Figure
    worker_cpu_ms: Figure
    database_cpu_ms: Figure
    wal_kb: Figure
    database_transactions: Figure
    stored_kb: Figure
    api_connections: Figure
    worker_connections: Figure


class Volume(msgspec.Struct, frozen=True):
    """Transfers of a national system in a period."""

    name: str
    period: str
    transfers: int
    seconds: int
    source: str


VOLUMES = (
    Volume(
        "Nigeria, NIBSS Instant Payments",
        "May 2024, the busiest month of 2024",
        1_020_000_000,
        31 * DAY_SECONDS,
        "[NIBSS figures](https://brtnews.ng/nigerias-e-transactions-value-surge-by-79-in-2024)",
    ),
    Volume(
        "India, UPI",
        "August 2025",
        20_010_000_000,
        31 * DAY_SECONDS,
        "[NPCI figures](https://www.thegk247.com/upi-transactions-cross-20-billion-for-first-time-august-2025)",
    ),
    Volume(
        "India, UPI",
        "2 August 2025, a record day",
        707_000_000,
        DAY_SECONDS,
        "[NPCI figures](https://bangla.asianetnews.com/amp/business/business-news/more-than-700-million-transactions-in-a-day-upi-transactions-set-a-record/photoshow-9t3wgab)",
    ),
)


class Plan(msgspec.Struct, frozen=True):
    """What an installation needs for a rate of payouts. All values are computed."""

    cells: int
    api_processes: int
    workers: int
    application_hosts: int
    primary_cores: int  # of each cell
    connections: int  # of each cell
    wal_mb_per_second: float
    wal_gb_per_day: float
    stored_tb_per_year: float


def load() -> Figures:
    return msgspec.json.decode(FILE.read_bytes(), type=Figures)


def cores(rate: float, cpu_ms: float) -> int:
    """Returns how many cores a CPU time per payout takes, with room for peaks."""
    return math.ceil(round(rate * cpu_ms / 1000 / LOAD, 6))


def plan(rate: float, figures: Figures) -> Plan:
    database = cores(rate, figures.database_cpu_ms.value)
    cells = max(1, math.ceil(database / PRIMARY_CORES_MAX))
    # One process uses at most one core, and each cell has at least two of each kind.
    api = max(HOSTS_MIN * cells, cores(rate, figures.api_cpu_ms.value))
    workers = max(HOSTS_MIN * cells, cores(rate, figures.worker_cpu_ms.value))
    in_cell = math.ceil(api / cells) * figures.api_connections.value
    in_cell += math.ceil(workers / cells) * figures.worker_connections.value
    return Plan(
        cells=cells,
        api_processes=api,
        workers=workers,
        application_hosts=max(HOSTS_MIN * cells, math.ceil((api + workers) / CORES)),
        primary_cores=max(2, math.ceil(database / cells)),
        connections=round(in_cell) + ADMINISTRATORS,
        wal_mb_per_second=rate * figures.wal_kb.value / 1000,
        wal_gb_per_day=rate * figures.wal_kb.value * DAY_SECONDS / 1e6,
        stored_tb_per_year=rate * figures.stored_kb.value * YEAR_SECONDS / 1e9,
    )


def saturated_at(figures: Figures) -> list[tuple[str, float]]:
    """Returns the rates at which the parts of one cell are full, the lowest rate first."""
    parts = {
        "one API process": 1000 * LOAD / figures.api_cpu_ms.value,
        "one worker": 1000 * LOAD / figures.worker_cpu_ms.value,
        f"the CPU of a primary with {PRIMARY_CORES_MAX} cores": (
            PRIMARY_CORES_MAX * 1000 * LOAD / figures.database_cpu_ms.value
        ),
        "a network of 1 Gbit/s from the primary to its two standbys": (
            1e9 / 8 / STANDBYS * LOAD / (figures.wal_kb.value * 1000)
        ),
        "a disk that writes 200 MB of WAL per second": (
            200e6 * LOAD / (figures.wal_kb.value * 1000)
        ),
    }
    return sorted(parts.items(), key=lambda part: part[1])


NAMES = {
    "api_cpu_ms": "CPU time of API processes, ms",
    "worker_cpu_ms": "CPU time of workers, ms",
    "database_cpu_ms": "CPU time of PostgreSQL, ms",
    "wal_kb": "WAL, KB",
    "database_transactions": "Database transactions",
    "stored_kb": "Stored in the database, with indexes, KB",
    "api_connections": "Connections of an API process",
    "worker_connections": "Connections of a worker",
}


def figure_table() -> str:
    figures = load()
    rows = [
        (text, f"{getattr(figures, name).value:g}", getattr(figures, name).source)
        for name, text in NAMES.items()
    ]
    return table(("Per payout, or per process", "Value", "Source"), rows)


ROWS: tuple[tuple[str, Callable[[Plan], str]], ...] = (
    ("Cells", lambda each: f"{each.cells}"),
    ("API processes", lambda each: f"{each.api_processes}"),
    ("Workers", lambda each: f"{each.workers}"),
    (f"Application hosts with {CORES} cores", lambda each: f"{each.application_hosts}"),
    ("Database hosts, three in each cell", lambda each: f"{each.cells * (1 + STANDBYS)}"),
    ("Cores of each database host", lambda each: f"{each.primary_cores}"),
    ("`max_connections` in each cell, at least", lambda each: f"{each.connections}"),
    ("WAL, MB per second", lambda each: f"{each.wal_mb_per_second:.2f}"),
    ("WAL, GB per day at this rate", lambda each: f"{each.wal_gb_per_day:,.0f}"),
    ("Growth of the database, TB per year", lambda each: f"{each.stored_tb_per_year:,.1f}"),
)


def plan_table() -> str:
    plans = [plan(rate, load()) for rate in RATES]
    rows = [(text, *(show(each) for each in plans)) for text, show in ROWS]
    return table(("Payouts per second", *(f"{rate:,}" for rate in RATES)), rows)


def saturation_table() -> str:
    rows = [(part, f"{rate:,.0f}") for part, rate in saturated_at(load())]
    return table(("Part", "Full at payouts per second"), rows)


def volume_table() -> str:
    rows = []
    for volume in VOLUMES:
        average = volume.transfers / volume.seconds
        needed = plan(PEAK * average, load())
        hosts = f"{needed.application_hosts} application hosts, "
        hosts += f"{needed.cells * (1 + STANDBYS)} database hosts, cells: {needed.cells}"
        what = f"{volume.name}: {volume.period}, {volume.source}"
        rows.append((what, f"{volume.transfers / 1e6:,.0f} million", f"{average:,.0f}", hosts))
    head = ("System", "Transfers", "Average per second", f"Hosts for {PEAK} times the average")
    return table(head, rows)


TABLES: dict[str, Callable[[], str]] = {
    "measured figures": figure_table,
    "hosts": plan_table,
    "saturation": saturation_table,
    "national volumes": volume_table,
}
