"""The tables of docs/proof.md count every stored run, and say if a file is missing."""

import json
from pathlib import Path

import pytest

from tools import proof


def _run(seed: int, outcome: str, version: str = "abc") -> str:
    counted = {"operations": {"payout": 1200}, "faults": {"failover: lost": 3}}
    about = {"seed": seed, "version": version, "outcome": outcome, "rounds": 4, "seconds": 90.0}
    return json.dumps({**about, **counted})


def test_runs_are_added_up_for_each_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = tmp_path / "results.jsonl"
    in_the_simulation = "failed, because of an error in the simulation"
    runs = [_run(7, "passed"), _run(8, "failed"), _run(9, in_the_simulation, version="def")]
    results.write_text("".join(f"{run}\n" for run in runs))
    monkeypatch.setattr(proof, "RESULTS", results)
    assert proof.simulation_runs().splitlines()[2:] == [
        "| `abc` | 2 | 3.0 | 8 | 2,400 | 6 | 1 | `8` |",
        "| `def` | 1 | 1.5 | 4 | 1,200 | 3 | 0 | `9` (an error in the simulation) |",
        "| all | 3 | 4.5 | 12 | 3,600 | 9 | 1 |  |",
    ]
    assert "| failover: lost | 9 |" in proof.simulation_faults()
    assert "| payout | 3,600 |" in proof.simulation_operations()


def test_a_missing_file_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "RESULTS", tmp_path / "none.jsonl")
    monkeypatch.setattr(proof, "FINDINGS", tmp_path / "none.json")
    assert proof.simulation_runs() == proof.NONE
    assert proof.simulation_findings() == "No error in Manilla has been found yet.\n"


def test_rows_of_other_checks_become_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = tmp_path / "findings.json"
    rows = [{"seed": 7, "error": "a|b"}, {"seed": 8, "fixed_in": "kit"}]
    findings.write_text(json.dumps({"note": "Two errors.", "rows": rows}))
    monkeypatch.setattr(proof, "FINDINGS", findings)
    assert proof.simulation_findings().splitlines() == [
        "Two errors.",
        "",
        "| Seed | Error | Fixed in |",
        "|---|---|---|",
        "| 7 | a\\|b |  |",
        "| 8 |  | kit |",
    ]
