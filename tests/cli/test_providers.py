"""The commands for providers and methods, and the simulator that `manilla up` starts."""

import json
import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from manilla.kit.clock import LAGOS
from tests.support.command import manilla
from tests.support.instance import Instance, InstanceFolder, free_port
from tests.support.rows import first_short
from tests.support.timeouts import TIMEOUT_SECONDS


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """An instance with the demo merchant, which uses the simulated providers."""
    instance = Instance(tmp_path_factory.mktemp("providers") / "data").wait()
    yield instance
    assert instance.stop() == 0


@pytest.fixture(scope="module")
def instance(idle: InstanceFolder) -> InstanceFolder:
    return idle


def by_code(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["code"]: row for row in rows}


def active(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["active"]]


@pytest.mark.long
def test_the_demo_uses_the_simulator(running: Instance) -> None:
    assert "/control" in running.output.read_text()
    for provider in ("providera", "providerb", "providerc"):
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            report = manilla("provider", "test", provider, "--json", "--data", str(running.folder))
            if report.returncode == 0 or time.monotonic() > deadline:
                break
        assert json.loads(report.stdout)["ok"], report.stdout


@pytest.mark.long
def test_an_account_is_checked_and_reported(running: Instance) -> None:
    report = running.command("provider", "check", "providera")
    assert (report["account"], report["mode"], report["ok"]) == ("providera", "test", True)
    assert {each["result"] for each in report["checks"]} == {"matches"}
    queried = running.command("provider", "check", "providera", "--live")
    assert len(queried["checks"]) < len(report["checks"])
    shown = manilla("provider", "check", "providera", "--data", str(running.folder))
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("Check of providera (providera), test account")
    assert "sim_a_secret" not in shown.stdout


@pytest.mark.long
def test_without_the_demo_no_provider_is_configured(tmp_path: Path) -> None:
    bare = Instance(tmp_path / "data", "--no-demo").wait()
    try:
        shown = bare.command("provider", "show")
        assert not any(each["valid"] for each in shown)
        assert "/control" not in bare.output.read_text()
        missing = bare.command("provider", "set", "providera", "secret_key=planted-4711")
        assert (missing["valid"], missing["missing"]) == (False, ["webhook_secret"])
        full = manilla(
            *("provider", "set", "providera", "webhook_secret=planted-4712"),
            *("base_url=http://127.0.0.1:9/x", "sandbox=true", "--json"),
            *("--data", str(bare.folder)),
        )
        assert json.loads(full.stdout)["valid"]
        assert "planted" not in full.stdout
        checked = manilla("provider", "check", "providera", "--data", str(bare.folder))
        assert (checked.returncode, checked.stderr) == (1, "")
        assert "planted" not in checked.stdout
        failed = manilla("provider", "test", "providera", "--data", str(bare.folder))
        assert (failed.returncode, failed.stderr) == (1, "")
        cleared = bare.command("provider", "clear", "providera")
        assert (cleared["valid"], cleared["settings"]["secret_key"]) == (False, None)
        refused = manilla("provider", "test", "providera", "--data", str(bare.folder))
        assert refused.returncode == 1
        assert "not configured" in refused.stderr
        assert "planted" not in "".join(
            file.read_text() for file in (bare.folder / "logs").glob("*.log")
        )
    finally:
        assert bare.stop() == 0


@pytest.mark.long
def test_the_movements_on_a_statement_are_listed(running: Instance) -> None:
    [base] = re.findall(r"http://\S+(?=/control)", running.output.read_text())[:1]
    running.command(
        "provider", "set", "kora", "secret_key=sk_live_simulated", f"base_url={base}/kora"
    )
    top_up = Request(f"{base}/control/api/kora/balance", b'{"available": 10000005}')
    top_up.add_header("Content-Type", "application/json")
    urlopen(top_up).read()
    today = datetime.now(LAGOS).date().isoformat()
    days = ("--from", today, "--to", today)
    [line] = running.command("provider", "statement", "kora", *days)
    assert (line["amount"], line["kind"], line["balance_after"]) == (5, "other", 10000005)
    file = manilla("provider", "statement", "kora", *days, "--csv", "--data", str(running.folder))
    header, row = file.stdout.splitlines()
    assert header.startswith("line_id,booked_at,amount,kind,reference")
    assert ",5.00,other," in row
    running.command("provider", "clear", "kora")


@pytest.mark.parametrize(
    ("words", "code"),
    first_short(
        [
            (("provider", "statement", "kora", "--from", "2026-01-01", "--to", "2026-01-01"), 1),
            (
                (
                    "provider",
                    "statement",
                    "providera",
                    "--from",
                    "2026-01-01",
                    "--to",
                    "2026-01-01",
                ),
                1,
            ),
            (("provider", "statement", "providera", "--from", "today", "--to", "2026-01-01"), 2),
            (("provider", "set", "providerz", "a=b"), 2),
            (("provider", "set", "providera", "novalue"), 2),
            (("provider", "set", "providera", "nonsense=1"), 1),
            (("provider", "set", "providerb", "sandbox=maybe"), 1),
            (("deposit-method", "set", "nonsense", "--active", "off"), 1),
            # The code `platform` is a withdrawal method's code, not a deposit method's.
            (("deposit-method", "set", "platform", "--active", "off"), 1),
            # Deposit methods have no fee.
            (("deposit-method", "set", "providera-ngn", "--fee-fixed", "5"), 2),
            (("withdraw-method", "set", "platform", "--min", "1.001"), 1),
            (("withdraw-method", "set", "platform", "--min", "2000000"), 1),
            (("withdraw-method", "set", "platform", "--fee-percent", "101"), 1),
            (("withdraw-method", "set", "platform", "--active", "maybe"), 2),
            (("deposit-method", "add", "x-usd", "--name", "X", "--currency", "USD"), 1),
            (("withdraw-method", "add", "x", "--name", "X", "--currency", "QQQ"), 1),
            (
                (
                    "withdraw-method",
                    "add",
                    "x",
                    "--name",
                    "X",
                    "--currency",
                    "NGN",
                    "--flow",
                    "hosted",
                ),
                1,
            ),
            (("withdraw-method", "set", "platform", "--fee-minimum", ""), 1),
            (("provider", "set", "providerc", "base_url=http://["), 1),
            (("withdraw-method", "add", "platform", "--name", "X", "--currency", "NGN"), 1),
        ],
        of_each=lambda row: row[0][:2],
    ),
)
def test_bad_input_is_rejected(instance: InstanceFolder, words: tuple[str, ...], code: int) -> None:
    run = manilla(*words, "--data", str(instance.folder))
    assert (run.returncode, run.stdout) == (code, "")
    if code == 1:
        assert len(run.stderr.splitlines()) == 1


@pytest.mark.long
def test_the_methods_are_seeded_as_specified(running: Instance) -> None:
    """In a new installation, the methods of the real providers are inactive."""
    deposits = active(running.command("deposit-method", "list"))
    assert [row["code"] for row in deposits] == [
        *("providera-ngn", "providera_ngn_va", "providerb-ngn", "providerb_ngn_va"),
        "providerc-ngn",
    ]
    withdrawals = active(running.command("withdraw-method", "list"))
    assert [(row["code"], row["min"], row["max"]) for row in withdrawals] == [
        ("providera_ngn_transfer", 100, 5000000),
        ("providerb_ngn_transfer", 100, 5000000),
        ("providerc_ngn_transfer", 500, 5000000),
        ("platform", 500, 1000000),
        ("auto_ngn", 100, 5000000),
    ]
    assert {row["currency"] for row in deposits + withdrawals} == {"NGN"}
    assert not [name for row in deposits for name in row if name.startswith("fee")]


def test_a_deposit_method_has_the_fee_of_its_provider(instance: InstanceFolder) -> None:
    words = "deposit-method", "set", "providerc-ngn"
    fee = "--provider-fee-percent", "1.5", "--provider-fee-maximum", "2000"
    changed = instance.command(*words, *fee)
    assert (changed["provider_fee_percent"], changed["provider_fee_maximum"]) == (1.5, 2000)
    instance.command(*words, "--provider-fee-percent", "0", "--provider-fee-maximum", "none")


def test_a_method_is_changed_and_another_added_without_code(instance: InstanceFolder) -> None:
    changed = instance.command(
        *("withdraw-method", "set", "providerb_ngn_transfer", "--name", "Fast", "--active", "off"),
        *("--min", "50", "--max", "none", "--fee-fixed", "25.50", "--fee-percent", "1.25"),
        *("--fee-minimum", "30", "--fee-maximum", "2000"),
    )
    wanted = {
        "name": "Fast",
        "active": False,
        "min": 50,
        "max": None,
        "fee_fixed": 25.5,
        "fee_percent": 1.25,
        "fee_minimum": 30,
        "fee_maximum": 2000,
    }
    assert {key: changed[key] for key in wanted} == wanted
    instance.command(
        *("withdraw-method", "add", "manual_usd", "--name", "Manual dollars", "--currency", "USD")
    )
    instance.command(
        *("deposit-method", "add", "providerc-ghs", "--name", "Cedi checkout"),
        *("--currency", "GHS", "--provider", "providerc", "--flow", "hosted"),
    )
    rows = by_code(instance.command("withdraw-method", "list"))
    assert (rows["manual_usd"]["currency"], rows["manual_usd"]["provider"]) == ("USD", None)
    rows = by_code(instance.command("deposit-method", "list"))
    assert rows["providerc-ghs"]["flow"] == "hosted"


def test_the_simulator_does_not_start_in_production() -> None:
    run = manilla("simulator", "--port", str(free_port()), MANILLA_MODE="production")
    assert run.returncode == 1
    assert "never runs in production" in run.stderr
    assert len(run.stderr.splitlines()) == 1


@pytest.mark.long
def test_bank_codes_are_learned_listed_mapped_and_unmapped(running: Instance) -> None:
    at = ("--json", "--data", str(running.folder))
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (shown := json.loads(manilla("bank", "show", "GTBank", *at).stdout))["providers"]:
        assert time.monotonic() < deadline, "the worker has loaded no bank list"
    assert (shown["code"], shown["nip_code"]) == ("058", "000013")
    provider, code = next(iter(shown["providers"].items()))
    assert json.loads(manilla("bank", "list", provider, "--unmatched", *at).stdout) == []
    assert json.loads(manilla("bank", "unmap", provider, code, *at).stdout)["bank"] is None
    after = json.loads(manilla("bank", "show", "000013", *at).stdout)["providers"]
    assert provider not in after
    mapped = json.loads(manilla("bank", "map", provider, code, "GTB", *at).stdout)
    assert (mapped["bank"], mapped["matched_by"]) == ("058", "manual")
    listed = by_code(json.loads(manilla("bank", "list", provider, *at).stdout))
    assert listed[code]["bank_name"] == "Guaranty Trust Bank"
    wrong = manilla("bank", "map", provider, code, "Zenit", "--data", str(running.folder))
    assert (wrong.returncode, "Zenith Bank (057)" in wrong.stderr) == (1, True)


@pytest.mark.long
def test_a_rail_is_drained_and_undrained(running: Instance) -> None:
    assert {row["bank"] for row in running.command("rail", "list")} == {None}
    drained = running.command("rail", "drain", "providerc")
    assert (drained["account"], drained["changed"]) == ("providerc", True)
    again = running.command("rail", "drain", "providerc")
    assert (again["drained_since"], again["changed"]) == (drained["drained_since"], False)
    first = running.command("rail", "list")[0]
    assert (first["account"], first["bank_name"]) == ("providerc", "All banks")
    assert (first["drained_since"], first["open"]) == (drained["drained_since"], 0)
    undrained = running.command("rail", "undrain", "providerc")
    assert (undrained["drained_since"], undrained["changed"]) == (None, True)
    unknown = manilla("rail", "drain", "nobody", "--data", str(running.folder))
    assert (unknown.returncode, "not one of" in unknown.stderr) == (2, True)
