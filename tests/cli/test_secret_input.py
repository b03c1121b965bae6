"""Commands accept secrets without exposing them in the process's arguments."""

import os
import pty
import re
import subprocess
import sys

import pytest

from tests.support.instance import InstanceFolder

SECRET = "sk_never_on_a_command_line"


@pytest.fixture(scope="module")
def instance(idle: InstanceFolder) -> InstanceFolder:
    return idle


def _manilla(
    instance: InstanceFolder, *words: str, given: str
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "manilla", *words, "--data", str(instance.folder)]
    return subprocess.run(
        command, input=given, capture_output=True, text=True, check=False, timeout=60
    )


def _settings(instance: InstanceFolder, provider: str) -> dict[str, object]:
    settings: dict[str, object] = instance.command("provider", "show", provider)["settings"]
    return settings


def test_values_are_read_line_by_line_from_standard_input(instance: InstanceFolder) -> None:
    words = ("provider", "set", "providerc", "secret_key=-", "sandbox=true", "webhook_secret=-")
    done = _manilla(instance, *words, given=f"{SECRET}\nwhsec\n")
    assert (done.returncode, SECRET in done.stdout + done.stderr) == (0, False)
    shown = _settings(instance, "providerc")
    assert (shown["secret_key"], shown["webhook_secret"]) == ("set", "set")


@pytest.mark.parametrize("given", ["", "\n"])
def test_standard_input_without_a_value_changes_nothing(
    instance: InstanceFolder, given: str
) -> None:
    done = _manilla(instance, "provider", "set", "providera", "secret_key=-", given=given)
    assert done.returncode == 2
    assert "no value on standard input" in done.stderr


def test_a_key_without_a_value_needs_a_terminal(instance: InstanceFolder) -> None:
    done = _manilla(instance, "provider", "set", "providera", "secret_key", given=SECRET)
    assert done.returncode == 2
    assert "secret_key=-" in done.stderr


def test_a_key_without_a_value_is_prompted_for_without_echo(instance: InstanceFolder) -> None:
    words = ["provider", "set", "providerb", "api_key", "--data", str(instance.folder)]
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-m", "manilla", *words])
    said = _read_until(terminal, rb"api_key: ")
    os.write(terminal, SECRET.encode() + b"\n")
    said += _read_until(terminal, None)
    _, status = os.waitpid(child, 0)
    assert (os.waitstatus_to_exitcode(status), SECRET.encode() in said) == (0, False)
    assert _settings(instance, "providerb")["api_key"] == "set"


@pytest.mark.long
def test_a_bvn_is_read_from_standard_input(instance: InstanceFolder) -> None:
    new = instance.command("merchant", "create", "Ada Stores", "ada@example.com")
    words = ("merchant", "set", str(new["id"]), "--bvn", "-")
    assert _manilla(instance, *words, given="22222222222\n").returncode == 0
    assert instance.command("merchant", "show", str(new["id"]))["has_bvn"] is True


def _read_until(terminal: int, wanted: bytes | None) -> bytes:
    """Reads the terminal until it shows `wanted`, or until it is closed if `wanted` is None."""
    said = b""
    while wanted is None or not re.search(wanted, said):
        try:
            chunk = os.read(terminal, 4096)
        # Linux raises this error after the other end of the terminal has been closed.
        except OSError:
            break
        if not chunk:
            break
        said += chunk
    return said
