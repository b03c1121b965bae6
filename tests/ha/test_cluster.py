"""The cluster of `deploy/ha` loses no acknowledged write. `make ha` runs all kinds of disruptions.

The fast tests check the files and the evaluation of a run, and need no cluster.
"""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from tests.ha import etcd
from tests.ha.__main__ import missing
from tests.ha.cluster import FILES
from tests.ha.disruptions import Disruption
from tests.ha.load import Acknowledged, Load
from tests.ha.report import Result, Totals, summarize

MANUAL = FILES.parents[1] / "docs/operating/high-availability.md"
HOSTS = ["db1", "db2", "db3"]
KILLED, SWITCHED = "primary killed", "switchover"
ABOUT = {"date": "2026-11-18", "seed": 1, "versions": {}, "minutes": 1.0}
CLEAN = Totals(Counter(), Counter(), 0, 0, 0, 0, [])


@pytest.mark.long
def test_a_killed_primary_and_a_switchover_lose_and_double_nothing(tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    output = tmp_path / "results.json"
    kinds = ("--kinds", KILLED, SWITCHED)
    command = [sys.executable, "-m", "tests.ha", "--rounds", "1", *kinds, "--output", str(output)]
    # The cluster's programs run as another user, who must be able to read their files.
    run = subprocess.run(command, capture_output=True, text=True, check=False, umask=0o077)
    assert run.returncode == 0, run.stdout + run.stderr
    result = msgspec.json.decode(output.read_bytes(), type=Result)
    assert {each.kind: each.count for each in result.kinds if each.count} == {
        KILLED: 1,
        SWITCHED: 1,
    }
    assert (result.lost, result.doubled, result.ledger_violations) == (0, 0, [])
    assert result.payouts_acknowledged > 0


@pytest.mark.parametrize(
    ("file", "pattern"),
    [
        ("patroni.yml", r"\b(db\d):2379"),
        ("etcd.env.example", r"\b(db\d)=http://\1:2380"),
        ("haproxy.cfg", r"server (db\d) \1:5432"),
    ],
)
def test_all_files_name_the_same_three_hosts(file: str, pattern: str) -> None:
    found = re.findall(pattern, (FILES / file).read_text())
    assert found[: len(HOSTS)] == HOSTS
    assert set(found) == set(HOSTS)


@pytest.mark.parametrize("version", ["3.4.23", "3.4.30", "3.5.0", "3.5.12", "3.3.99", "2.3.8"])
def test_an_etcd_that_revokes_the_locks_of_other_hosts_is_rejected(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(_install_etcd(tmp_path, version).parent))
    assert etcd.find(tmp_path / "none") is None
    assert f"etcd {version} loses acknowledged writes" in etcd.missing()


@pytest.mark.parametrize("version", ["3.4.31", "3.5.13", "3.5.16", "3.6.0", "4.0.0"])
def test_a_fixed_etcd_is_used(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = _install_etcd(tmp_path, version)
    monkeypatch.setenv("PATH", str(program.parent))
    assert etcd.find(tmp_path / "none") == program


def test_a_downloaded_etcd_replaces_an_etcd_that_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(_install_etcd(tmp_path / "own", "3.4.23").parent))
    program = _install_etcd(tmp_path / "downloaded", "3.5.16")
    assert etcd.find(tmp_path / "downloaded") == program


@pytest.mark.parametrize("file", [FILES / "etcd.env.example", MANUAL])
def test_the_files_name_the_safe_versions_of_etcd(file: Path) -> None:
    text = " ".join(file.read_text().replace("#", " ").split())
    assert f"etcd {etcd.NEEDED} or later" in text


def _install_etcd(folder: Path, version: str) -> Path:
    """Creates a program that prints this version as etcd does."""
    program = folder / "usr/bin/etcd"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'etcd Version: {version}'\necho 'Git SHA: none'\n")
    program.chmod(0o755)
    return program


def _load() -> Load:
    return Load(running=None)  # type: ignore[arg-type]  # only the evaluation is tested


def test_an_interruption_is_the_longest_time_without_an_acknowledged_write() -> None:
    load = _load()
    load.moments = [1.0, 2.0, 5.5, 6.0]
    assert load.longest_gap(1.5, 6.5) == 3.5
    assert load.longest_gap(1.5, 20.0) == 14.0
    assert load.first_after(2.5) == 5.5
    assert load.first_after(6.5) is None


def test_a_stalled_run_is_not_measured() -> None:
    done = [Disruption(KILLED, 9.0, 1, [2.0], False), Disruption(KILLED, 99.0, 1, [50.0], True)]
    result = summarize(_load(), CLEAN, done, ABOUT)
    assert (result.disruptions, result.repeated_after_stalls) == (1, 1)
    assert (result.kinds[0].longest_interruption_seconds, result.recovery_max_seconds) == (9.0, 2.0)
    assert result.is_good


@pytest.mark.parametrize(
    "totals",
    [
        {"lost": Counter({KILLED: 1})},
        {"doubled": Counter({KILLED: 1})},
        {"unknown_transfers": 1},
        {"open_payouts": 1},
        {"failed_payouts": 1},
        {"uncredited_payments": 1},
        {"ledger_violations": ["entries_sum_to_zero"]},
    ],
)
def test_a_run_that_lost_or_doubled_anything_fails(totals: dict[str, object]) -> None:
    load = _load()
    load.payouts["HA-1"] = Acknowledged("TRX1", KILLED)
    found = msgspec.structs.replace(CLEAN, **totals)
    assert not summarize(load, found, [], ABOUT).is_good


def test_a_run_with_a_response_other_than_503_fails() -> None:
    load = _load()
    load.wrong.append((KILLED, "500 Internal Server Error"))
    assert not summarize(load, CLEAN, [], ABOUT).is_good
