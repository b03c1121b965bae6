"""Secrets can come from files and commands, and no message contains a secret."""

import os
import shlex
import sys
from pathlib import Path

import pytest

from manilla import secret_sources
from manilla.kit import crypto
from manilla.secret_sources import BYTES_MAX
from manilla.settings import BadConfiguration, Mode, Settings
from manilla.variables import SECRETS
from tests.support.limits import limited

DATABASE = "postgresql://manilla_app:pässword@db.internal/manilla"
PLAIN = {
    "MANILLA_DATABASE_URL": DATABASE,
    "MANILLA_MASTER_KEY": crypto.generate_key(),
    "MANILLA_BASE_URL": "https://pay.example.com",
}


def read(changed: dict[str, str], mode: Mode = Mode.PRODUCTION) -> Settings:
    return Settings.read(PLAIN | changed, assumed_mode=mode)


def refused(changed: dict[str, str]) -> str:
    with pytest.raises(BadConfiguration) as refusal:
        read(changed)
    return refusal.value.text


def _file(folder: Path, content: str | bytes, mode: int = 0o600) -> str:
    file = folder / "secret"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    file.chmod(mode)
    return str(file)


def _python(code: str) -> str:
    return shlex.join([sys.executable, "-c", code])


def _from_file(path: str) -> dict[str, str]:
    return {"MANILLA_DATABASE_URL": "", "MANILLA_DATABASE_URL_FILE": path}


def _from_command(command: str) -> dict[str, str]:
    return {"MANILLA_DATABASE_URL": "", "MANILLA_DATABASE_URL_COMMAND": command}


def test_the_secrets_are_the_variables_that_can_contain_a_password_or_key() -> None:
    assert set(SECRETS) == {
        "MANILLA_DATABASE_URL",
        "MANILLA_DATABASE_READ_URL",
        "MANILLA_MIGRATION_URL",
        "MANILLA_TARGET_DATABASE_URL",
        "MANILLA_REPLICATION_URL",
        "MANILLA_MASTER_KEY",
        "MANILLA_MASTER_KEYS_PREVIOUS",
        "MANILLA_SMTP_URL",
    }


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_secret_is_read_from_a_file_without_the_last_line_break(tmp_path: Path, end: str) -> None:
    assert read(_from_file(_file(tmp_path, DATABASE + end))).database_url == DATABASE


def test_a_secret_is_read_from_a_command_that_gets_none_of_our_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in PLAIN.items():
        monkeypatch.setenv(name, value)
    code = "import os; print([name for name in os.environ if name.startswith('MANILLA_')])"
    assert read(_from_command(_python(code))).database_url == "[]"


def test_a_command_is_not_run_by_a_shell() -> None:
    settings = read(_from_command("echo '$HOME;' \"a  b\" | true"))
    assert settings.database_url == "$HOME; a  b | true"


def test_every_secret_can_come_from_a_file(tmp_path: Path) -> None:
    keys = [crypto.generate_key() for _ in range(2)]
    values = {
        "MANILLA_DATABASE_URL": DATABASE,
        "MANILLA_DATABASE_READ_URL": "postgresql://manilla_app@db2.internal/manilla",
        "MANILLA_MIGRATION_URL": "postgresql://manilla_owner@db.internal/manilla",
        "MANILLA_TARGET_DATABASE_URL": "postgresql://manilla_owner@abuja.internal/manilla",
        "MANILLA_REPLICATION_URL": "postgresql://manilla_owner@lagos.internal/manilla",
        "MANILLA_MASTER_KEY": keys[0],
        "MANILLA_MASTER_KEYS_PREVIOUS": keys[1],
        "MANILLA_SMTP_URL": "smtps://relay:secret@smtp.example.com",
    }
    environment = {"MANILLA_BASE_URL": PLAIN["MANILLA_BASE_URL"]}
    for name, value in values.items():
        (tmp_path / name).mkdir()
        environment[f"{name}_FILE"] = _file(tmp_path / name, f"{value}\n")
    settings = Settings.read(environment, assumed_mode=Mode.PRODUCTION)
    assert values.keys() == set(SECRETS)
    assert settings.database_url == DATABASE
    assert settings.read_url == values["MANILLA_DATABASE_READ_URL"]
    assert settings.migration_url == values["MANILLA_MIGRATION_URL"]
    assert settings.master_keys == tuple(crypto.decode_key(key) for key in keys)
    assert settings.smtp_server is not None
    assert settings.smtp_server.password == "secret"


def test_two_sources_of_a_secret_are_rejected(tmp_path: Path) -> None:
    both = {"MANILLA_DATABASE_URL_FILE": _file(tmp_path, DATABASE)}
    only_one = "MANILLA_DATABASE_URL and MANILLA_DATABASE_URL_FILE are set; use only one of them"
    assert only_one in refused(both)
    commands = _from_file(_file(tmp_path, DATABASE)) | {"MANILLA_DATABASE_URL_COMMAND": "true"}
    assert "MANILLA_DATABASE_URL_FILE and MANILLA_DATABASE_URL_COMMAND are set" in refused(commands)


@pytest.mark.parametrize("mode", [0o604, 0o606, 0o644])
def test_a_file_of_other_users_is_rejected_in_production_mode(tmp_path: Path, mode: int) -> None:
    from_file = _from_file(_file(tmp_path, DATABASE, mode))
    assert "MANILLA_DATABASE_URL_FILE: other users can read or change" in refused(from_file)
    assert read(from_file, Mode.DEVELOPMENT).database_url == DATABASE


def test_a_file_that_only_the_group_can_read_is_accepted(tmp_path: Path) -> None:
    """The files of systemd's LoadCredential show such a mode."""
    assert read(_from_file(_file(tmp_path, DATABASE, 0o440))).database_url == DATABASE


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "the value is empty"),
        ("\n", "the value is empty"),
        (b"\xff", "the value is not text in UTF-8"),
        (b"a" * (BYTES_MAX + 1), "the value is longer than 65536 bytes"),
    ],
)
def test_an_unusable_file_is_rejected(tmp_path: Path, content: str | bytes, problem: str) -> None:
    assert problem in refused(_from_file(_file(tmp_path, content)))


def test_a_path_without_a_file_is_rejected(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    assert "No such file or directory" in refused(_from_file(str(tmp_path / "missing")))
    assert "Is a directory" in refused(_from_file(str(tmp_path)))
    assert "is not a file" in refused(_from_file(str(pipe)))


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("/nowhere/vault kv get", "cannot run /nowhere/vault: No such file or directory"),
        ("echo 'a", "cannot be parsed: No closing quotation"),
        ("  ", "names no program"),
        ("true", "the value is empty"),
        (_python("print('pässword'); raise SystemExit(3)"), "ended with status 3"),
        (
            _python("import sys; sys.stderr.write('pässword'); raise SystemExit(1)"),
            "ended with status 1; run it yourself",
        ),
        (_python("while True: print('pässword' * 100)"), "is longer than 65536 bytes"),
        (_python("import sys; sys.stdout.buffer.write(bytes([255]))"), "is not text in UTF-8"),
    ],
)
def test_an_unusable_command_is_rejected_without_its_output(
    command: str, problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    text = refused(_from_command(command))
    assert "MANILLA_DATABASE_URL_COMMAND: " in text
    assert problem in text
    assert "pässword" not in text
    assert capfd.readouterr() == ("", "")


def test_a_command_that_takes_too_long_is_killed_with_what_it_started() -> None:
    """The program that the command starts keeps the output open, so it must be killed too."""
    with limited(secret_command_seconds=1):
        text = refused(_from_command("sh -c 'sleep 600 & wait'"))
    assert "MANILLA_DATABASE_URL_COMMAND: sh did not end within 1 s" in text


def test_all_problems_with_sources_are_reported_together() -> None:
    key = {"MANILLA_MASTER_KEY": "", "MANILLA_MASTER_KEY_FILE": "/nowhere"}
    text = refused(_from_command("false") | key)
    assert "MANILLA_DATABASE_URL_COMMAND: " in text
    assert "MANILLA_MASTER_KEY_FILE: cannot read /nowhere" in text
    assert "not set" not in text


def test_sources_are_described_without_values_or_arguments(tmp_path: Path) -> None:
    key_file = _file(tmp_path, crypto.generate_key())
    settings = read(
        {
            "MANILLA_MASTER_KEY": "",
            "MANILLA_MASTER_KEY_FILE": key_file,
            "MANILLA_SMTP_URL_COMMAND": "echo smtps://relay:secret@smtp.example.com",
        }
    )
    assert settings.secret_sources == (
        "MANILLA_DATABASE_URL: set directly",
        f"MANILLA_MASTER_KEY: file {key_file}",
        "MANILLA_SMTP_URL: command",
    )


def test_an_instances_values_replace_every_source() -> None:
    environment = {
        "MANILLA_DATABASE_URL_FILE": "/run/secrets/database",
        "MANILLA_MIGRATION_URL_COMMAND": "vault kv get",
        "MANILLA_MASTER_KEY_FILE": "/run/secrets/key",
    }
    running = {"MANILLA_DATABASE_URL": DATABASE, "MANILLA_MIGRATION_URL": DATABASE}
    secret_sources.override(environment, running)
    assert environment == {**running, "MANILLA_MASTER_KEY_FILE": "/run/secrets/key"}


def test_the_collectors_url_contains_no_credentials() -> None:
    """The variable is not a secret. The variables of OpenTelemetry set the credentials."""
    assert read({"MANILLA_OTLP_URL": "http://127.0.0.1:4318/"}).otlp_url == "http://127.0.0.1:4318"
    text = refused({"MANILLA_OTLP_URL": "https://user:pässword@otlp.example.com"})
    assert "MANILLA_OTLP_URL" in text
    assert "pässword" not in text
