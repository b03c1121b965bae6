"""A merchant that is moved under load loses nothing. `make cells` moves it ten times.

The fast tests check the evaluation of a run, and need no cells.
"""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from manilla.cells.maps import Proxy
from tests.cells import proxies
from tests.cells.moving import checks
from tests.cells.moving.report import Findings, Result
from tests.simulation.facts import Notice, ProviderObject

FIXED_SEED = 20_261_118
MOVES = 2
FIRST = Notice("msg_1", 1, "TXN1", "Payout Pending", "pending")
SECOND = Notice("msg_2", 1, "TXN1", "Payout Completed", "completed")
OTHER = Notice("msg_3", 1, "TXN2", "Payment Completed", "completed")
CLEAN = Findings([], [], 0, [], 0, 0, [], [])


@pytest.mark.long
def test_moves_under_load_lose_and_double_nothing(project: Path, tmp_path: Path) -> None:
    if proxies.is_missing(Proxy.HAPROXY):
        pytest.skip("Debian's package haproxy is not installed.")
    output = tmp_path / "results.json"
    command = [sys.executable, "-m", "tests.cells.moving", "--output", str(output)]
    command += ["--seed", str(FIXED_SEED), "--moves", str(MOVES)]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    result = msgspec.json.decode(output.read_bytes(), type=Result)
    assert len(result.moves) == MOVES
    assert all(result.acknowledged[kind] for kind in ("payment", "payout"))
    assert result.findings.is_good


def test_followed_events_must_be_the_whole_list() -> None:
    listed = [FIRST, OTHER, SECOND]
    assert [*checks.find_differences(listed, listed)] == []
    for followed in ([FIRST, SECOND], [FIRST, SECOND, OTHER], [*listed, SECOND]):
        assert len([*checks.find_differences(followed, listed)]) == 1


def test_events_of_a_transaction_must_arrive_in_order_and_copies_do_not_count() -> None:
    listed = [FIRST, SECOND, OTHER]
    assert [*checks.find_disorder([OTHER, FIRST, SECOND, FIRST], listed)] == []
    [found] = checks.find_disorder([SECOND, FIRST], listed)
    assert "arrived after a later event of TXN1" in found


def test_events_that_did_not_arrive_are_counted() -> None:
    assert checks.count_missing([FIRST, FIRST], [FIRST, SECOND, OTHER]) == 2


def test_only_a_killed_worker_allows_a_repeated_delivery() -> None:
    moments = {("ipn", "msg_1"): [10.0], ("endpoint", "msg_1"): [10.0, 99.0]}
    assert checks.count_repeats(moments, []) == (0, 1)
    assert checks.count_repeats(moments, [9.0, 71.0]) == (0, 1)
    assert checks.count_repeats(moments, [12.0]) == (1, 0)


def test_a_transfer_may_be_sent_again_only_after_it_failed() -> None:
    failed = ProviderObject("a", "TXN1", 100, "failed")
    paid = ProviderObject("b", "TXN1", 100, "success")
    assert checks.find_doubled([failed, paid]) == []
    assert checks.find_doubled([paid, ProviderObject("c", "txn1", 100, "processing")]) == ["TXN1"]
    assert checks.find_doubled([ProviderObject("a", "TXN2", 100, "failed", 1)]) == ["TXN2"]


@pytest.mark.parametrize(
    "found",
    [
        {"lost": ["TXN1"]},
        {"doubled": ["TXN1"]},
        {"events_missing": 1},
        {"events_out_of_order": ["msg_1"]},
        {"repeats_wrong": 1},
        {"books": ["lagos: prove"]},
        {"violations": ["merchant 1 has 5, expected 4"]},
    ],
)
def test_a_run_with_any_finding_fails(found: dict[str, object]) -> None:
    assert CLEAN.is_good
    assert msgspec.structs.replace(CLEAN, repeats_allowed=3).is_good
    assert not msgspec.structs.replace(CLEAN, **found).is_good
