"""`manilla up` as a user runs it. The tests start, kill and restart its processes."""

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manilla.cli.running import up
from manilla.kit import crypto
from tests.client_library.tool import TOOL as CLIENT
from tests.support.command import manilla
from tests.support.instance import MANILLA, Instance, InstanceFolder, free_port, prepare_folder
from tests.support.rows import first_short
from tests.support.signing import sign
from tests.support.timeouts import TIMEOUT_SECONDS

PATH = "/api/v1/site-info"


def alive(pids: list[int]) -> list[int]:
    def runs(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except FileNotFoundError:
            return False

    return [pid for pid in pids if runs(pid)]


def gone(pids: list[int], seconds: float = TIMEOUT_SECONDS) -> bool:
    deadline = time.monotonic() + seconds
    while alive(pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    # Make the directory private, so that only its owner can access it.
    parent = tmp_path_factory.mktemp("up")
    parent.chmod(0o700)
    prepare_folder(parent / "data")
    yield parent / "data"
    shutil.rmtree(parent, ignore_errors=True)


@pytest.mark.parametrize(("cpus", "processes"), [(1, 1), (2, 1), (4, 2), (64, 4)])
def test_postgresql_and_the_worker_get_half_of_the_cpus(
    monkeypatch: pytest.MonkeyPatch, cpus: int, processes: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cpus)
    assert up._usual_workers() == processes


def get(instance: Instance, merchant: Any, environment: str = "sandbox") -> Any:
    keys = merchant[environment]
    now = str(int(time.time()))
    headers = {
        "X-Environment": environment,
        "X-Merchant-Key": keys["merchant_key"],
        "X-API-Key": keys["api_key"],
        "X-Timestamp": now,
        "X-Signature": sign(keys["api_secret"], now, "GET", PATH, b""),
    }
    return instance.site.send("GET", PATH, headers)


def test_the_printed_commands_work(tmp_path: Path) -> None:
    instance = Instance(tmp_path / "data", is_first_start=True).wait()
    try:
        summary = instance.output.read_text()
        curl = next(line for line in summary.splitlines() if line.startswith("curl "))
        answer = subprocess.run(["bash", "-c", curl], capture_output=True, text=True, check=True)
        assert json.loads(answer.stdout)["api_version"] == "1.0"
        export = next(line for line in summary.splitlines() if line.startswith("export "))
        request = f"{shlex.join(CLIENT)} request GET /api/v1/balance"
        answer = subprocess.run(
            ["bash", "-c", f"{export} && {request}"], capture_output=True, text=True, check=True
        )
        assert json.loads(answer.stdout)["environment"] == "sandbox"
        assert len(re.findall(r"\btest_[0-9a-z]{32}\b", summary)) >= 3
        for path in ("dashboard/", "console/", "shop", "docs"):
            assert f"http://127.0.0.1:{instance.port}/{path}" in summary
    finally:
        tree = instance.tree()
        assert instance.stop(signal.SIGINT) == 0
    assert gone(tree)


@pytest.mark.long
async def test_the_rate_limit_is_exact_across_two_api_processes(folder: Path) -> None:
    instance = Instance(folder, "--workers", "2").wait()
    try:
        merchant = instance.command("merchant", "create", "Ada", "a@example.com")
        replies = await asyncio.gather(*(get(instance, merchant) for _ in range(121)))
        assert sorted(reply.status for reply in replies) == [200] * 120 + [429]
    finally:
        assert instance.stop() == 0


@pytest.mark.long
async def test_a_killed_parent_leaves_no_process_and_its_data_is_reused(folder: Path) -> None:
    instance = Instance(folder).wait()
    merchant = instance.command("merchant", "create", "Before", "b@example.com")
    instance.command(
        "wallet", "fund", str(merchant["id"]), "NGN", "12.34", "--environment", "sandbox"
    )
    tree = instance.tree()
    instance.process.kill()
    instance.process.wait()
    again = Instance(folder).wait()
    try:
        assert gone(tree)
        assert (await get(again, merchant)).status == 200
        wallets = again.command("wallet", "show", str(merchant["id"]))
        assert [wallet["balance"] for wallet in wallets] == [0, 1000012.34]
        assert again.command("ledger", "check")["ok"]
    finally:
        assert again.stop() == 0


@pytest.mark.long
def test_an_orphaned_database_server_is_stopped_and_its_data_reused(folder: Path) -> None:
    first = Instance(folder).wait()
    created = first.command("merchant", "create", "Orphan", "o@example.com")
    orphan = first.postmaster()
    os.kill(orphan, signal.SIGSTOP)  # A suspended server cannot exit when its parent process ends.
    first.process.kill()
    first.process.wait()
    second = Instance(folder)
    time.sleep(1)
    assert alive([orphan])
    os.kill(orphan, signal.SIGCONT)
    second.wait()
    try:
        assert second.postmaster() != orphan
        assert second.command("merchant", "show", str(created["id"]))["name"] == "Orphan"
    finally:
        assert second.stop() == 0


def _is_server(instance: Instance, pid: int) -> bool:
    """Returns True if this process is still the database server, or if no server is running yet."""
    try:
        return instance.postmaster() == pid
    except (FileNotFoundError, IndexError):
        return True


@pytest.mark.long
async def test_a_killed_database_is_restarted(folder: Path) -> None:
    instance = Instance(folder).wait()
    try:
        merchant = instance.command("merchant", "create", "Crash", "c@example.com")
        for _ in range(2):
            before = instance.postmaster()
            os.kill(before, signal.SIGKILL)
            deadline = time.monotonic() + TIMEOUT_SECONDS
            status = 0
            # Wait for the new server, because connections to the killed server may still respond.
            while status != 200 or _is_server(instance, before):
                assert time.monotonic() < deadline
                reply = await get(instance, merchant)
                status = reply.status
                assert status in (200, 503)
                await asyncio.sleep(0.05)
        assert instance.command("ledger", "check")["ok"]
    finally:
        assert instance.stop() == 0


@pytest.mark.long
def test_a_killed_api_process_is_replaced(folder: Path) -> None:
    instance = Instance(folder).wait()
    try:
        [api] = [pid for pid in instance.tree() if "serve" in _command_line(pid)]
        os.kill(api, signal.SIGKILL)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not (pids := [p for p in instance.tree() if "serve" in _command_line(p)]) or (
            pids == [api]
        ):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert asyncio.run(instance.site.send("GET", "/healthz")).status == 200
    finally:
        assert instance.stop() == 0


def _command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except FileNotFoundError:
        return []


@pytest.mark.long
def test_a_second_instance_is_detected_and_exits(folder: Path) -> None:
    instance = Instance(folder).wait()
    try:
        second = manilla("up", "--port", str(free_port()), "--data", str(folder))
        assert second.returncode == 1
        assert f"already running in {folder}" in second.stderr
        assert len(second.stderr.splitlines()) == 1
        taken = manilla("up", "--port", str(instance.port), "--data", str(folder) + "-other")
        assert taken.returncode == 1
        assert "Cannot listen" in taken.stderr
    finally:
        assert instance.stop() == 0


@pytest.mark.long
def test_it_stops_with_its_parent_if_requested(folder: Path) -> None:
    port = free_port()
    command = [*MANILLA, "up", "--port", str(port), "--data", str(folder), "--follow-parent"]
    script = f"{shlex.join(command)} & echo $!; sleep 600"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        child = int(shell.stdout.readline())
        while "Ctrl-C stops everything" not in shell.stdout.readline():
            pass
        shell.kill()
    assert gone([child])


@pytest.mark.long
def test_the_demo_can_be_disabled(tmp_path: Path) -> None:
    instance = Instance(tmp_path / "data", "--no-demo").wait()
    try:
        assert instance.command("merchant", "list") == []
        assert "curl" not in instance.output.read_text()
    finally:
        assert instance.stop() == 0


@pytest.mark.long
@pytest.mark.parametrize("name", ["a-rather-long-folder-name-" * 4, "a, b & 100%25+c?"])
def test_unusual_paths_work(tmp_path: Path, name: str) -> None:
    data = tmp_path / name / "data"
    data.parent.mkdir()
    instance = Instance(data, is_first_start=True).wait()
    try:
        assert [row["id"] for row in instance.command("merchant", "list")] == [1]
    finally:
        assert instance.stop() == 0


def test_a_data_directory_of_another_major_version_is_rejected_and_unchanged(
    tmp_path: Path,
) -> None:
    cluster = tmp_path / "data" / "postgres"
    cluster.mkdir(parents=True)
    (cluster / "PG_VERSION").write_text("17\n")
    run = manilla("up", "--port", str(free_port()), "--data", str(tmp_path / "data"))
    assert run.returncode == 1
    assert "PostgreSQL 17" in run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert (cluster / "PG_VERSION").read_text() == "17\n"


def test_each_process_reports_database_problems(idle: InstanceFolder) -> None:
    environment = {
        "MANILLA_MODE": "production",
        "MANILLA_DATABASE_URL": f"postgresql://nobody@127.0.0.1:{free_port()}/none",
        "MANILLA_MASTER_KEY": crypto.generate_key(),
        "MANILLA_BASE_URL": "https://pay.example.com",
    }
    programs = (["serve", "--port", str(free_port())], ["worker"])
    for program in programs:
        run = manilla(*program, **environment)
        assert (run.returncode, len(run.stderr.splitlines())) == (1, 1)
        assert "does not respond" in run.stderr
    running = json.loads((idle.folder / "instance.json").read_text())
    environment["MANILLA_DATABASE_URL"] = re.sub(r"/\w+\?", "/postgres?", running["database_url"])
    for program in programs:
        run = manilla(*program, **environment)
        assert run.returncode == 1
        assert run.stderr == (
            "manilla: The database schema is out of date: run `manilla migrate` first.\n"
        )


@pytest.mark.parametrize(
    "url", first_short(["mysql://x", "notaurl", "postgresql://x@127.0.0.1:99999/y"])
)
def test_a_malformed_database_url_is_reported_in_one_line(tmp_path: Path, url: str) -> None:
    environment = {
        "MANILLA_DATABASE_URL": url,
        "MANILLA_MASTER_KEY": crypto.generate_key(),
        "MANILLA_BASE_URL": "https://pay.example.com",
    }
    for words in (["merchant", "list"], ["serve"], ["migrate"], ["up", "--data", str(tmp_path)]):
        run = manilla(*words, **environment)
        assert (run.returncode, len(run.stderr.splitlines())) == (1, 1), (words, run.stderr)


def test_an_unusable_directory_is_reported_in_one_line() -> None:
    run = manilla("up", "--port", str(free_port()), "--data", "/proc/nothing")
    assert (run.returncode, len(run.stderr.splitlines())) == (1, 1)


def test_a_lost_master_key_is_not_replaced(tmp_path: Path) -> None:
    cluster = tmp_path / "data" / "postgres"
    cluster.mkdir(parents=True)
    (cluster / "PG_VERSION").write_text("18\n")
    run = manilla("up", "--port", str(free_port()), "--data", str(tmp_path / "data"))
    assert run.returncode == 1
    assert "master.key is missing" in run.stderr
    assert not (tmp_path / "data" / "master.key").exists()


def test_a_wrong_master_key_is_reported_as_the_reason(folder: Path) -> None:
    wrong = {"MANILLA_MASTER_KEY": crypto.generate_key()}
    run = manilla("up", "--port", str(free_port()), "--data", str(folder), **wrong)
    assert run.returncode == 1
    assert "master key does not match" in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_production_mode_reports_all_missing_settings_together(tmp_path: Path) -> None:
    for program in (["up", "--data", str(tmp_path / "data")], ["serve"], ["worker"], ["migrate"]):
        run = manilla(*program, MANILLA_MODE="production")
        assert run.returncode == 1
        for name in ("MANILLA_DATABASE_URL", "MANILLA_MASTER_KEY", "MANILLA_BASE_URL"):
            assert f"{name} is not set" in run.stderr
        assert len(run.stderr.splitlines()) == 1
    assert not (tmp_path / "data" / "postgres").exists()


def test_the_processes_default_to_production_mode() -> None:
    assert "production mode" in manilla("serve").stderr
    assert "development mode" in manilla("serve", MANILLA_MODE="development").stderr
    assert "MANILLA_MODE" in manilla("serve", MANILLA_MODE="staging").stderr


@pytest.mark.long
def test_a_given_database_url_is_used_and_no_server_started(folder: Path, tmp_path: Path) -> None:
    """Runs the production processes with the database of another, running instance."""
    host = Instance(folder, "--no-demo").wait()
    try:
        running = json.loads((folder / "instance.json").read_text())
        environment = {
            "MANILLA_MODE": "production",
            "MANILLA_DATABASE_URL": running["database_url"],
            "MANILLA_MIGRATION_URL": running["migration_url"],
            "MANILLA_MASTER_KEY": (folder / "master.key").read_text(),
            "MANILLA_BASE_URL": "https://pay.example.com",
        }
        assert "at version" in manilla("migrate", **environment).stdout
        listed = manilla("merchant", "list", "--json", **environment)
        assert (listed.returncode, listed.stderr) == (0, "")
        guest = Instance(tmp_path / "guest", environment=environment).wait()
        try:
            assert not (tmp_path / "guest" / "postgres").exists()
            assert not (tmp_path / "guest" / "master.key").exists()
            assert asyncio.run(guest.site.send("GET", "/readyz")).status == 200
            assert "curl" not in guest.output.read_text()
        finally:
            assert guest.stop() == 0
        wrong = {**environment, "MANILLA_MASTER_KEY": crypto.generate_key()}
        refused = manilla("merchant", "list", **wrong)
        assert refused.returncode == 1
        assert "master key does not match" in refused.stderr
    finally:
        assert host.stop() == 0
