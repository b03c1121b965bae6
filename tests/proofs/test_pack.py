"""`manilla prove` writes a pack with which an auditor verifies the ledger."""

import asyncio
import csv
import inspect
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import pytest

from manilla import __version__
from manilla.kit.clock import LAGOS
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster
from manilla.kit.errors import Unavailable
from manilla.ledger.invariants import Invariant
from manilla.proofs import anchors, chain, checks, new_rows, pack, verify
from manilla.proofs.pack import PackOptions
from manilla.services import Services
from manilla.settings import Settings
from tests.payouts.payout_merchant import PayoutMerchant
from tests.proofs.ledger_story import LedgerStory
from tests.support.client import Site, new_merchant
from tests.support.command import manilla

CREDITED = "paid_payments_are_credited_once"


class Proved(NamedTuple):
    code: int
    printed: Any
    out: Path

    @property
    def report(self) -> Any:
        return json.loads((self.out / "report.json").read_text())

    def rows(self, name: str) -> list[dict[str, str]]:
        with (self.out / f"{name}.csv").open() as file:
            return list(csv.DictReader(file))


class Prover:
    """Runs `manilla prove`, by default as the application's database user."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self.folder = folder
        self._packs = 0

    async def run(self, *options: str, url: str | None = None) -> Proved:
        self._packs += 1
        out = self.folder / f"pack{self._packs}"
        done = await asyncio.to_thread(
            manilla,
            *("prove", "--out", str(out), "--json", "--database-url", url or self._url, *options),
        )
        return Proved(done.returncode, json.loads(done.stdout) if done.stdout else done.stderr, out)


@pytest.fixture
def prover(settings: Settings, tmp_path: Path) -> Prover:
    return Prover(settings.database_url, tmp_path)


async def test_the_pack_of_a_healthy_ledger(
    prover: Prover, db: Database, story: LedgerStory
) -> None:
    proved = await prover.run()
    assert (proved.code, proved.printed["broken"]) == (0, [])
    assert proved.printed["chain_head"] == (await anchors.heads(db)).chain_head
    report = proved.report
    assert (report["ok"], report["version"]) == (True, __version__)
    assert report["postings_verified"] == await db.number("SELECT count(*) FROM posting")
    assert report["entries_verified"] == await db.number("SELECT count(*) FROM entry")
    assert {check["count"] for check in report["checks"]} == {0}
    balances = {
        (row["merchant_id"], row["environment"], row["account"]): int(row["balance_minor"])
        for row in proved.rows("balances")
    }
    merchant = str(story.merchant.new.id)
    assert balances[merchant, "production", "wallet"] == await story.shop.balance()
    assert balances[merchant, "production", "in_flight"] == 0
    assert "does not have the heads of an earlier pack" in (proved.out / "report.md").read_text()
    summary = f"All {len(report['checks'])} checks passed."
    assert summary in (proved.out / "report.md").read_text()


async def test_the_pack_has_the_sql_of_each_check_and_the_program(
    prover: Prover, db: Database, story: LedgerStory
) -> None:
    proved = await prover.run()
    names = [check["name"] for check in proved.report["checks"]]
    assert len(set(names)) == len(names)
    for name in (*names, *proved.report["lists"]):
        assert (proved.out / "sql" / f"{name}.sql").read_text().strip()
    assert (proved.out / "verify.py").read_text() == inspect.getsource(verify)
    # An auditor can run the SQL of a rule without Manilla.
    for name in ("postings_have_their_transaction", "wallets_are_covered_by_providers"):
        sql = (proved.out / "sql" / f"{name}.sql").read_text()
        assert await db.records(sql.rstrip().removesuffix(";")) == []


async def test_the_program_runs_without_manilla(
    prover: Prover, settings: Settings, tmp_path: Path, story: LedgerStory
) -> None:
    proved = await prover.run()
    packages = tmp_path / "packages"
    packages.mkdir()
    (packages / "asyncpg").symlink_to(Path(asyncpg.__file__).parent)
    environment = {"PYTHONPATH": str(packages), "PATH": os.environ["PATH"]}

    def python(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-S", *words],  # -S: without the installed packages
            env=environment,
            cwd=proved.out,
            capture_output=True,
            text=True,
            check=False,
        )

    assert "No module named 'manilla'" in python("-c", "import manilla").stderr
    head = proved.report["chain_head"]
    done = await asyncio.to_thread(python, "verify.py", settings.database_url, "--expect", head)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"The head of the chain is {head}" in done.stdout
    unknown = f"1:{'0' * 64}"
    done = await asyncio.to_thread(python, "verify.py", settings.database_url, "--expect", unknown)
    assert done.returncode == 1
    assert f"WRONG anchor: {unknown}" in done.stdout


async def test_an_anchored_head_stays_in_the_chain(prover: Prover, story: LedgerStory) -> None:
    earlier = (await prover.run()).printed
    await story.pay_out("completed")
    await chain.extend(story.db)
    kept = ("--expect", earlier["chain_head"], "--audit-kept", earlier["audit_head"])
    proved = await prover.run(*kept)
    assert (proved.code, proved.printed["broken"]) == (0, [])
    assert (
        "does not have the heads of an earlier pack" not in (proved.out / "report.md").read_text()
    )
    assert proved.printed["chain_head"] != earlier["chain_head"]
    proved = await prover.run("--expect", f"1:{'0' * 64}")
    assert (proved.code, proved.printed["broken"]) == (1, ["recomputed_anchor"])


async def test_a_seal_limits_the_next_run_to_new_postings(
    prover: Prover, db: Database, story: LedgerStory
) -> None:
    full = await prover.run()
    before = full.report["postings_verified"]
    await story.pay_out("completed")
    await chain.extend(db)
    sealed = await prover.run("--seal", str(full.out / "seal.json"))
    assert (sealed.code, sealed.printed["broken"]) == (0, [])
    count = await db.number("SELECT count(*) FROM posting")
    assert sealed.report["postings_verified"] == count - before
    again = await prover.run()
    assert sealed.rows("balances") == again.rows("balances")
    # The seal of a limited run has the same contents as the seal of a full run.
    limited, complete = [
        json.loads((each.out / "seal.json").read_text()) for each in (sealed, again)
    ]
    assert limited.pop("checked_at") < complete.pop("checked_at")
    assert limited == complete


async def test_a_sealed_run_checks_new_transactions_only(
    prover: Prover, db: Database, owner: Database, story: LedgerStory
) -> None:
    earlier = await db.value("SELECT min(trx_id) FROM payment WHERE status = 'success'")
    seal = (await prover.run()).out / "seal.json"
    stored = json.loads(seal.read_text())
    # All earlier rows are now older than the overlap of two runs.
    stored["checked_at"] = (datetime.now(UTC) + 2 * new_rows.OVERLAP).isoformat()
    seal.write_text(json.dumps(stored))
    later = await story.take_payment()
    await chain.extend(db)
    await story.report_balance()
    async with changed_payment(owner, earlier):
        proved = await prover.run("--seal", str(seal))
        assert (proved.code, proved.printed["broken"]) == (0, [])
        assert (await prover.run()).printed["broken"] == [CREDITED]
    async with changed_payment(owner, later):
        assert (await prover.run("--seal", str(seal))).printed["broken"] == [CREDITED]


async def test_a_sealed_run_with_many_new_transactions_checks_all_transactions(
    prover: Prover,
    db: Database,
    owner: Database,
    story: LedgerStory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    earlier = await db.value("SELECT min(trx_id) FROM payment WHERE status = 'success'")
    seal = (await prover.run()).out / "seal.json"
    await owner.execute("ANALYZE")
    monkeypatch.setattr(new_rows, "LOOKED_UP", (0, 10))
    async with changed_payment(owner, earlier):
        proved = await prover.run("--seal", str(seal))
    assert proved.printed["broken"] == [CREDITED]
    assert proved.report["postings_verified"] == 0


async def test_a_sealed_run_lists_the_days_of_new_postings(
    prover: Prover, db: Database, story: LedgerStory
) -> None:
    full = await prover.run()
    seal = str(full.out / "seal.json")
    assert full.rows("days_without_statement") != []
    unchanged = await prover.run("--seal", seal)
    assert not (unchanged.out / "days_without_statement.csv").exists()
    await story.take_payment()
    await chain.extend(db)
    await story.report_balance()
    sealed, again = await prover.run("--seal", seal), await prover.run()
    assert sealed.rows("days_without_statement") == again.rows("days_without_statement") != []


@asynccontextmanager
async def changed_payment(owner: Database, trx_id: str) -> AsyncIterator[None]:
    """Changes the payment's amount until the end of the `with` block."""
    sql = "UPDATE payment SET amount_minor = amount_minor + $2 WHERE trx_id = $1"
    await owner.execute(sql, trx_id, 1)
    try:
        yield
    finally:
        await owner.execute(sql, trx_id, -1)


async def test_the_seal_of_the_program_does_not_limit_the_checks_of_transactions(
    prover: Prover, settings: Settings, db: Database, owner: Database, story: LedgerStory
) -> None:
    seal = prover.folder / "seal.json"
    seal.write_text((await verify.run(settings.database_url, [], None)).seal())
    trx_id = await db.value("SELECT min(trx_id) FROM payment WHERE status = 'success'")
    async with changed_payment(owner, trx_id):
        proved = await prover.run("--seal", str(seal))
    assert proved.printed["broken"] == [CREDITED]


async def test_balances_at_a_date(prover: Prover, story: LedgerStory) -> None:
    today = datetime.now(LAGOS).date()
    proved = await prover.run("--date", str(today))
    assert proved.code == 0
    for row in proved.rows("balances"):
        assert row["balance_at_date_minor"] == row["balance_minor"]
    proved = await prover.run("--date", str(today - timedelta(days=2)))
    assert {row["balance_at_date_minor"] for row in proved.rows("balances")} == {"0"}


@pytest.fixture
async def auditor_url(cluster: Cluster) -> AsyncIterator[str]:
    """The URL of a database user that can read every table, and can write nothing."""
    superuser = await asyncpg.connect(cluster.url(postgres.SUPERUSER))
    try:
        await superuser.execute(
            "CREATE ROLE auditor LOGIN PASSWORD 'secret'; GRANT pg_read_all_data TO auditor"
        )
        url = cluster.url(postgres.SUPERUSER)
        yield f"postgresql://auditor:secret@{url.rpartition('@')[2]}"
        await superuser.execute("DROP ROLE auditor")
    finally:
        await superuser.close()


async def test_a_database_user_that_can_only_read_is_enough(
    prover: Prover, auditor_url: str, story: LedgerStory
) -> None:
    proved = await prover.run(url=auditor_url)
    assert (proved.code, proved.printed["broken"]) == (0, [])
    report = proved.report
    assert (report["database_user"], report["user_can_write"]) == ("auditor", False)


async def test_no_check_can_write(
    settings: Settings, story: LedgerStory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All sessions of a pack have transactions that only read, for every database user."""
    writing = Invariant("writes", "", "SELECT nextval('posting_id_seq')")
    monkeypatch.setattr(checks, "TRANSFERS", (writing,))
    with pytest.raises(Unavailable) as raised:
        await pack.collect(settings.database_url, PackOptions())
    assert isinstance(raised.value.__cause__, asyncpg.ReadOnlySQLTransactionError)


async def test_sandbox_money_needs_no_cover(
    prover: Prover, services: Services, site: Site, keyring: Keyring, story: LedgerStory
) -> None:
    merchant = await new_merchant(site, services.db, keyring)
    await PayoutMerchant(services, story.simulator, merchant).fund("1000000000")
    await chain.extend(services.db)
    proved = await prover.run()
    assert (proved.code, proved.printed["broken"]) == (0, [])
    [row] = [
        row
        for row in proved.rows("balances")
        if (row["merchant_id"], row["account"]) == (str(merchant.new.id), "wallet")
        and row["balance_minor"] != "0"
    ]
    assert row["environment"] == "sandbox"
    assert int(row["balance_minor"]) >= 100_000_000_000


async def test_people_keys_and_roles_are_listed_without_secrets(
    prover: Prover, story: LedgerStory
) -> None:
    proved = await prover.run()
    merchant = story.merchant
    keys = [row for row in proved.rows("api_keys") if row["merchant_id"] == str(merchant.new.id)]
    assert {row["environment"] for row in keys} == {"sandbox", "production"}
    roles = {row["role"]: row["can_change"] for row in proved.rows("database_roles")}
    assert roles[postgres.OWNER] == "True"
    assert roles[postgres.APPLICATION] == "False"
    for file in proved.out.rglob("*"):
        if file.is_file():
            assert merchant.credentials.api_key not in file.read_text()


async def test_a_folder_with_files_is_refused(
    prover: Prover, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "pack1").mkdir()
    (tmp_path / "pack1" / "report.md").touch()
    proved = await prover.run()
    assert proved.code == 1
    assert "is not empty" in proved.printed


async def test_a_file_that_is_not_a_seal_is_refused(prover: Prover, tmp_path: Path) -> None:
    (tmp_path / "seal.json").write_text("[]")
    proved = await prover.run("--seal", str(tmp_path / "seal.json"))
    assert proved.code == 1
    assert "is not the seal of a pack" in proved.printed


async def test_a_seal_has_no_balances_at_a_date(prover: Prover, story: LedgerStory) -> None:
    seal = (await prover.run()).out / "seal.json"
    proved = await prover.run("--seal", str(seal), "--date", "2026-01-01")
    assert (proved.code, "Use --date without --seal" in proved.printed) == (1, True)


@pytest.mark.parametrize("options", [("--expect", "x"), ("--date", "today"), ("--audit-kept", "1")])
async def test_invalid_options_are_a_usage_error(prover: Prover, options: tuple[str, str]) -> None:
    assert (await prover.run(*options)).code == 2
