"""The `manilla` command, run against one instance."""

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from manilla.cli import output
from manilla.cli.instance import lock_folder
from manilla.kit.money import Money
from manilla.platform.settings import PlatformSettings
from tests.support.command import manilla
from tests.support.instance import InstanceFolder
from tests.support.rows import first_short


@pytest.fixture(scope="module")
def instance(idle: InstanceFolder) -> InstanceFolder:
    return idle


@pytest.fixture(scope="module")
def merchant(instance: InstanceFolder) -> Any:
    return instance.command("merchant", "create", "Ada Stores", "ada@example.com")


def refused(instance: InstanceFolder, *words: str) -> str:
    """Runs a command that must fail, and returns the command's one-line error."""
    run = manilla(*words, "--data", str(instance.folder))
    assert (run.returncode, run.stdout) == (1, "")
    assert len(run.stderr.splitlines()) == 1
    return run.stderr


def test_a_new_merchant_has_credentials_for_both_environments(merchant: Any) -> None:
    assert list(merchant) == ["id", "name", "status", "sandbox", "production"]
    assert (merchant["name"], merchant["status"]) == ("Ada Stores", "pending")
    for environment in ("sandbox", "production"):
        keys = merchant[environment]
        assert list(keys) == ["merchant_key", "api_key", "api_secret"]
        prefixed = [value.startswith("test_") for value in keys.values()]
        assert prefixed == [environment == "sandbox"] * 3


def test_a_merchant_may_be_created_approved_with_its_currencies(instance: InstanceFolder) -> None:
    new = instance.command(
        *("merchant", "create", "Mr. Yen", "yen@example.com", "--status", "approved"),
        *("--currency", "NGN", "--currency", "JPY"),
    )
    assert new["status"] == "approved"
    nothing = {"withheld": 0, "short": 0, "status": "active"}
    assert instance.command("wallet", "show", str(new["id"])) == [
        {"environment": "production", "currency": "JPY", "balance": 0, **nothing},
        {"environment": "production", "currency": "NGN", "balance": 0, **nothing},
        {"environment": "sandbox", "currency": "JPY", "balance": 1000000, **nothing},
        {"environment": "sandbox", "currency": "NGN", "balance": 1000000, **nothing},
    ]


def test_every_field_of_a_merchant_can_be_set(instance: InstanceFolder) -> None:
    merchant = str(instance.command("merchant", "create", "Set", "s@example.com")["id"])
    before = instance.command("merchant", "show", merchant)
    assert [before[key] for key in ("commission_percent", "commission_bearer", "payouts")] == [
        *(0, "customer", "on")
    ]
    after = instance.command(
        *("merchant", "set", merchant, "--status", "approved", "--commission-percent", "1.5"),
        *("--commission-bearer", "merchant", "--gateways", "providera-ngn, providerb-ngn"),
        *("--payouts", "off", "--kyc", "verified", "--phone", "verified"),
        *("--bvn", "22222222222", "--currency", "NGN", "--currency", "USD"),
        *("--reason", "All papers are there"),
    )
    wanted = {
        "status": "approved",
        "status_reason": "All papers are there",
        "commission_percent": 1.5,
        "commission_bearer": "merchant",
        "gateways": ["providera-ngn", "providerb-ngn"],
        "payouts": "off",
        "kyc": "verified",
        "phone": "verified",
        "has_bvn": True,
        "currencies": ["NGN", "USD"],
    }
    assert {key: after[key] for key in wanted} == wanted
    assert "22222222222" not in json.dumps(after)
    assert len(instance.command("wallet", "show", merchant)) == 4
    again = instance.command("merchant", "set", merchant, "--gateways", "all", "--kyc", "required")
    assert (again["gateways"], again["kyc"], again["payouts"]) == ("all", "required", "off")
    assert merchant in [str(row["id"]) for row in instance.command("merchant", "list")]


def test_funding_is_exact_and_creates_a_posting(instance: InstanceFolder, merchant: Any) -> None:
    words = ("wallet", "fund", str(merchant["id"]), "NGN")
    funded = instance.command(*words, "90071992547409.93", "--environment", "production")
    assert funded["trx_id"].startswith("TXN")
    raw = manilla(
        "wallet", "show", str(merchant["id"]), "--json", "--data", str(instance.folder)
    ).stdout
    assert '"balance":90071992547409.93' in raw


def test_input_is_not_interpreted_as_markup(instance: InstanceFolder) -> None:
    instance.command("merchant", "create", "[/bold]", "m@example.com")
    listed = manilla("merchant", "list", "--data", str(instance.folder))
    assert "[/bold]" in listed.stdout


@pytest.mark.parametrize(
    "amount", first_short(["10.001", "NaN", "1e400", "ten", "1000000000000000"])
)
def test_an_invalid_amount_is_rejected(
    instance: InstanceFolder, merchant: Any, amount: str
) -> None:
    words = ("wallet", "fund", str(merchant["id"]), "NGN", amount, "--environment", "sandbox")
    run = manilla(*words, "--data", str(instance.folder))
    assert (run.returncode, run.stdout) == (2, "")
    assert "Invalid value for AMOUNT" in run.stderr


def test_nothing_is_not_added_to_a_wallet(instance: InstanceFolder, merchant: Any) -> None:
    words = ("wallet", "fund", str(merchant["id"]), "NGN", "0", "--environment", "sandbox")
    refused(instance, *words)


def test_a_wallet_is_disabled_and_enabled(instance: InstanceFolder, merchant: Any) -> None:
    words = ("wallet", "set", str(merchant["id"]), "NGN", "--environment", "sandbox", "--status")
    assert instance.command(*words, "inactive")["status"] == "inactive"
    assert instance.command(*words, "active")["status"] == "active"


def test_a_rotation_shows_new_keys_once(instance: InstanceFolder, merchant: Any) -> None:
    words = ("merchant", "rotate", str(merchant["id"]), "--environment", "production")
    rotated = instance.command(*words, "--overlap-minutes", "5")
    old = merchant["production"]
    assert rotated["merchant_key"] == old["merchant_key"]
    assert rotated["api_key"] != old["api_key"]
    assert rotated["api_secret"] != old["api_secret"]
    shown = instance.command("merchant", "show", str(merchant["id"]))
    assert shown["production"]["live_credentials"] == 2
    assert rotated["api_secret"] not in json.dumps(shown)


def test_a_further_api_key_is_created_listed_and_revoked(
    instance: InstanceFolder, merchant: Any
) -> None:
    which = (str(merchant["id"]), "--environment", "production")
    rights = ["payments", "read", "manage", "charge"]
    terms = (*(part for right in rights for part in ("--right", right)),)
    terms = (*terms, "--address", "203.0.113.0/24")
    new = instance.command("api-key", "create", *which, "Shop", *terms, "--last-day", "2999-12-31")
    assert new["merchant_key"] == merchant["production"]["merchant_key"]
    [row] = instance.command("api-key", "list", *which)
    assert (row["rights"], row["networks"]) == (rights, ["203.0.113.0/24"])
    assert (row["status"], row["expires_at"]) == ("active", "2999-12-31T23:00:00.000000Z")
    assert new["api_secret"] not in json.dumps(row)
    refused(instance, "api-key", "create", *which, "Shop", "--right", "read")
    instance.command("api-key", "revoke", *which, "1")
    refused(instance, "api-key", "revoke", *which, "1")
    assert [row["status"] for row in instance.command("api-key", "list", *which)] == ["revoked"]


def test_every_setting_can_be_listed_read_and_changed(instance: InstanceFolder) -> None:
    listed = {row["key"]: row for row in instance.command("setting", "list")}
    assert set(listed) == set(PlatformSettings.__struct_fields__)
    assert all(row["value"] == row["default"] and row["explanation"] for row in listed.values())
    changes = {
        "signature_required": "false",
        "rate_limit_per_minute": "7",
        "payout_days": "fri,mon",
        "site_name": "Kobo ₦",
    }
    try:
        for key, value in changes.items():
            instance.command("setting", "set", key, value)
        read = {key: instance.command("setting", "get", key)["value"] for key in changes}
        assert read == {**changes, "payout_days": "mon,fri"}
    finally:
        for key in changes:
            instance.command("setting", "set", key, listed[key]["default"])


@pytest.mark.parametrize(
    ("key", "value"),
    first_short(
        [("kyc_required", "yes"), ("kyc_required", "True"), ("rate_limit_per_minute", "0")]
        + [("rate_limit_per_minute", "1.5"), ("timestamp_tolerance_seconds", "0")]
        + [("payout_days", "someday"), ("site_name", ""), ("nonsense", "1")]
    ),
)
def test_an_invalid_setting_is_rejected(instance: InstanceFolder, key: str, value: str) -> None:
    assert key in refused(instance, "setting", "set", key, value)


@pytest.mark.parametrize(
    "words",
    first_short(
        (
            (words,)
            for words in [
                ("merchant", "show", "999"),
                ("merchant", "set", "999", "--status", "approved"),
                ("merchant", "rotate", "999", "--environment", "sandbox"),
                ("wallet", "show", "999"),
                ("wallet", "fund", "999", "NGN", "1", "--environment", "sandbox"),
                ("wallet", "fund", "1", "KES", "1", "--environment", "sandbox"),
                ("wallet", "set", "1", "KES", "--environment", "sandbox", "--status", "inactive"),
                ("merchant", "create", "", "a@example.com"),
                ("merchant", "create", "A", "not an address"),
                ("merchant", "create", "A", "a@b@c"),
                ("setting", "set", "site_logo", "javascript:alert(1)"),
                ("merchant", "create", "A", "a@example.com", "--currency", "ABC"),
                ("merchant", "set", "1", "--commission-percent", "101"),
                ("merchant", "set", "1", "--bvn", "123"),
                ("merchant", "set", "1", "--gateways", "providera-ngn,nonsense"),
                ("setting", "get", "nonsense"),
            ]
        ),
        of_each=lambda row: row[0][:2],
    ),
)
def test_an_error_is_one_line_and_exit_1(instance: InstanceFolder, words: tuple[str, ...]) -> None:
    assert refused(instance, *words).startswith("manilla: ")


@pytest.mark.parametrize(
    "words",
    first_short(
        (
            (words,)
            for words in [
                ("merchant", "create"),
                ("merchant", "show", "abc"),
                ("merchant", "show", "99999999999999999999"),
                ("merchant", "create", "A", "a@example.com", "--status", "rejected"),
                ("merchant", "set", "1", "--payouts", "maybe"),
                ("merchant", "set", "1", "--commission-percent", "much"),
                ("merchant", "rotate", "1"),
                ("merchant", "rotate", "1", "--environment", "mars"),
                ("wallet", "fund", "1", "NGN", "1"),
                ("nonsense",),
                ("up", "--port", "seventy"),
            ]
        ),
        of_each=lambda row: row[0][:2],
    ),
)
def test_bad_usage_is_exit_2(words: tuple[str, ...]) -> None:
    assert manilla(*words).returncode == 2


def test_without_an_instance_every_command_reports_it(tmp_path: Path) -> None:
    run = manilla("merchant", "list", "--data", str(tmp_path / "nothing"))
    assert run.returncode == 1
    assert "No instance is running" in run.stderr


def test_the_ledger_check_reports_violations_and_exits_1(
    instance: InstanceFolder, merchant: Any
) -> None:
    assert instance.command("ledger", "check")["ok"]
    running = json.loads((instance.folder / "instance.json").read_text())
    here = f"merchant_id = {merchant['id']} AND environment = 'sandbox'"
    for change in ("+ 1", "- 1"):
        _sql(
            running["migration_url"],
            f"UPDATE wallet SET balance_minor = balance_minor {change} WHERE {here}",
        )
        run = manilla("ledger", "check", "--json", "--data", str(instance.folder))
        is_broken = change == "+ 1"
        assert run.returncode == int(is_broken)
        broken = [row["name"] for row in json.loads(run.stdout)["invariants"] if row["count"]]
        assert broken == (["wallets_equal_their_entries"] if is_broken else [])


def test_a_failed_job_is_listed_and_retried(instance: InstanceFolder, merchant: Any) -> None:
    running = json.loads((instance.folder / "instance.json").read_text())
    _sql(
        running["migration_url"],
        "INSERT INTO job (merchant_id, kind, subject, due_at, failures, parked_at, last_error)"
        f" VALUES ({merchant['id']}, 'nobody', 'TXNPARKED', now(), 12, now(), 'a bug')",
    )
    [job] = instance.command("job", "list")
    assert (job["subject"], job["failures"], job["last_error"]) == ("TXNPARKED", 12, "a bug")
    words = ("job", "retry", str(merchant["id"]), "nobody", "TXNPARKED")
    assert instance.command(*words)["kind"] == "nobody"
    assert instance.command("job", "list") == []
    assert manilla(*words, "--data", str(instance.folder)).returncode == 1


def _sql(url: str, statement: str) -> None:
    from manilla.kit.embedded.postgres import find_binaries

    subprocess.run([str(find_binaries() / "psql"), url, "-qc", statement], check=True)


def test_control_characters_are_not_sent_to_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output.print_lines({"ref_trx": "\x1b]0;pwn\x07", "list": ["\x9b31m"]})
    output.print_table([{"name": "\x1b[2J"}])
    shown = capsys.readouterr().out
    assert not {"\x1b", "\x9b", "\x07"} & set(shown)
    assert r"\x1b]0;pwn\x07" in shown


def test_text_output_shows_money_and_times_as_the_pages_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    at = datetime(2026, 1, 31, 23, 30, 5, 123, tzinfo=UTC)
    fields = {"amount": Money.of("1234567.5", "NGN"), "fee": Money.of("-1", "CHF"), "at": at}
    output.print_lines(fields)
    assert capsys.readouterr().out.splitlines() == [
        "amount  ₦1,234,567.50",
        "fee     -CHF 1.00",
        "at      1 Feb 2026, 00:30:05 WAT",
    ]
    output.print_json(fields)
    assert json.loads(capsys.readouterr().out)["at"] == "2026-01-31T23:30:05.000123Z"


def test_the_data_folder_can_be_given_before_the_command(
    instance: InstanceFolder, merchant: Any, tmp_path: Path
) -> None:
    words = ("wallet", "show", str(merchant["id"]))
    run = manilla("--data", str(instance.folder), *words)
    assert "₦1,000,000.00" in run.stdout
    # The option after the command wins, as in other programs with global options.
    run = manilla(f"--data={instance.folder}", *words, "--data", str(tmp_path))
    assert f"No instance is running in {tmp_path}" in run.stderr


@pytest.mark.parametrize(
    ("line", "completions"),
    [
        ("manilla pay", {"payment", "payout"}),
        ("manilla refund", {"refund", "refunds"}),
        ("manilla wallet ", {"fund", "adjust", "set", "show"}),
        ("manilla --data folder wallet s", {"set", "show"}),
    ],
)
def test_shells_can_complete_commands(line: str, completions: set[str]) -> None:
    variables = {"_MANILLA_COMPLETE": "complete_bash", "COMP_CWORD": str(line.count(" "))}
    run = manilla(**variables, COMP_WORDS=line.replace(" ", "\n"))
    assert set(run.stdout.split()) == completions


def test_an_empty_directory_becomes_private_and_another_is_unchanged(tmp_path: Path) -> None:
    for name, mode in (("empty", 0o700), ("used", 0o755)):
        folder = tmp_path / name
        folder.mkdir()
        folder.chmod(0o755)
        if name == "used":
            (folder / "file").touch()
        with lock_folder(folder):
            assert folder.stat().st_mode & 0o777 == mode
