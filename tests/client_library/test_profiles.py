"""`manilla-client profile` stores several accounts' keys in a file with private permissions."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client_library.tool import TOOL, environment, tool, variables
from tests.support.timeouts import TIMEOUT_SECONDS

SANDBOX = ("http://127.0.0.1:1", "test_merchant", "test_api", "test_secret")
PRODUCTION = ("http://127.0.0.1:1", "merchant", "api", "secret")
PROMPTS = (b"URL", b"Merchant key", b"API key", b"API secret")


def lines(account: tuple[str, ...]) -> str:
    return "".join(f"{part}\n" for part in account)


def add(home: Path, name: str, account: tuple[str, ...]) -> None:
    run = tool(home, "profile", "add", name, input=lines(account))
    assert run.returncode == 0, run.stderr


def file(home: Path) -> Path:
    return home / "config" / "manilla-client" / "profiles.json"


def test_the_first_profile_is_used_until_another_is_chosen(tmp_path: Path) -> None:
    add(tmp_path, "shop", PRODUCTION)
    add(tmp_path, "shop-test", SANDBOX)
    listed = tool(tmp_path, "profile", "list").stdout
    assert listed == (
        "* shop  production  http://127.0.0.1:1\n  shop-test  sandbox  http://127.0.0.1:1\n"
    )
    assert tool(tmp_path, "profile", "use", "shop-test").returncode == 0
    assert "* shop-test" in tool(tmp_path, "profile", "list").stdout
    assert tool(tmp_path, "profile", "remove", "shop-test").returncode == 0
    assert "shop-test" not in file(tmp_path).read_text()
    refused = tool(tmp_path, "request", "GET", "/api/v1/site-info")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "No profile is in use." in refused.stderr


def test_the_file_can_be_read_by_its_owner_only(tmp_path: Path) -> None:
    add(tmp_path, "shop", SANDBOX)
    assert file(tmp_path).stat().st_mode & 0o777 == 0o600
    assert file(tmp_path).parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in file(tmp_path).parent.iterdir()] == ["profiles.json"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    add(tmp_path, "shop", SANDBOX)
    file(tmp_path).chmod(mode)
    for words in (("profile", "list"), ("request", "GET", "/"), ("profile", "use", "shop")):
        run = tool(tmp_path, *words)
        assert (run.returncode, run.stdout) == (1, "")
        assert f"chmod 600 {file(tmp_path)}" in run.stderr


def test_keys_are_not_shown_while_they_are_typed(tmp_path: Path) -> None:
    master, terminal = pty.openpty()
    run = subprocess.Popen(
        [*TOOL, "profile", "add", "shop"],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment(tmp_path),
        start_new_session=True,
    )
    os.close(terminal)
    shown = b""
    for prompt, answer in zip(PROMPTS, SANDBOX, strict=True):
        while prompt not in shown or not shown.endswith(b": "):
            shown += os.read(master, 1000)
        os.write(master, answer.encode() + b"\n")
    assert run.wait(TIMEOUT_SECONDS) == 0
    shown += os.read(master, 1000)
    os.close(master)
    assert b"Stored shop (sandbox)." in shown
    assert not [key for key in SANDBOX[1:] if key.encode() in shown]
    stored = json.loads(file(tmp_path).read_text())["profiles"]["shop"]
    assert tuple(stored.values()) == SANDBOX


def test_keys_can_come_from_the_environment(tmp_path: Path) -> None:
    words = ("profile", "add", "shop", "--from-environment")
    assert tool(tmp_path, *words, **variables(1, *SANDBOX[1:])).returncode == 0
    assert "* shop  sandbox" in tool(tmp_path, "profile", "list").stdout


@pytest.mark.parametrize(
    ("name", "account", "says"),
    [
        ("taken", SANDBOX, "The profile taken already exists."),
        ("../x", SANDBOX, "A profile's name has"),
        ("new", SANDBOX[:3], "API secret is missing."),
        ("new", (*SANDBOX[:3], "secret"), "different environments"),
        ("new", ("pay.example", *SANDBOX[1:]), "start with https://"),
        ("new", (*SANDBOX[:3], "test_ẹ"), "ASCII"),
    ],
)
def test_a_profile_that_cannot_work_is_not_stored(
    tmp_path: Path, name: str, account: tuple[str, ...], says: str
) -> None:
    add(tmp_path, "taken", PRODUCTION)
    before = file(tmp_path).read_bytes()
    run = tool(tmp_path, "profile", "add", name, input=lines(account))
    assert (run.returncode, run.stdout) == (1, "")
    assert says in run.stderr
    assert file(tmp_path).read_bytes() == before


def test_variables_are_used_only_if_all_are_set(tmp_path: Path) -> None:
    add(tmp_path, "shop", SANDBOX)
    run = tool(tmp_path, "request", "GET", "/", MANILLA_URL="http://127.0.0.1:2")
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == (
        "Not set in the environment: MANILLA_MERCHANT_KEY, MANILLA_API_KEY, MANILLA_API_SECRET.\n"
    )


def test_help_loads_no_more_than_it_needs() -> None:
    program = (
        "import sys; from manilla_client.command import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print('asyncio' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stdout.endswith("\nFalse\n")
