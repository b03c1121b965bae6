"""The computed hosts follow from the measured figures, and new figures change the tables."""

import msgspec
import pytest

from tools import capacity
from tools.capacity import Figure, Figures

EASY = Figures(
    api_cpu_ms=Figure(0.75, ""),
    worker_cpu_ms=Figure(1.5, ""),
    database_cpu_ms=Figure(3.0, ""),
    wal_kb=Figure(10, ""),
    database_transactions=Figure(1, ""),
    stored_kb=Figure(2, ""),
    api_connections=Figure(17, ""),
    worker_connections=Figure(15, ""),
)


def test_a_small_installation_has_two_of_each_process_and_one_cell() -> None:
    small = capacity.plan(1, EASY)
    assert (small.cells, small.api_processes, small.workers, small.application_hosts) == (
        1,
        2,
        2,
        2,
    )
    assert small.connections == 2 * 17 + 2 * 15 + 20


def test_processes_and_cores_use_three_quarters_of_their_time() -> None:
    plan = capacity.plan(4_000, EASY)
    assert (plan.api_processes, plan.workers) == (4, 8)
    assert (plan.cells, plan.primary_cores) == (1, 16)
    assert plan.connections == 4 * 17 + 8 * 15 + 20
    assert plan.wal_mb_per_second == pytest.approx(40)
    assert plan.stored_tb_per_year == pytest.approx(4_000 * 2e3 * 365 * 86_400 / 1e12)


def test_a_rate_that_fills_a_primary_needs_another_cell() -> None:
    assert capacity.plan(4_001, EASY).cells == 2
    assert capacity.plan(8_000, EASY).primary_cores == 16


def test_the_part_with_the_lowest_rate_is_full_first() -> None:
    parts = capacity.saturated_at(EASY)
    first, rate = parts[0]
    assert first == "one worker"
    assert rate == pytest.approx(500)
    assert parts == sorted(parts, key=lambda part: part[1])


def test_new_figures_change_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    before = capacity.plan_table()
    figures = capacity.load()
    slower = msgspec.structs.replace(figures, database_cpu_ms=Figure(50, "a test"))
    monkeypatch.setattr(capacity, "load", lambda: slower)
    assert capacity.plan_table() != before
    assert "a test" in capacity.figure_table()
