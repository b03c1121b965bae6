"""Runs the command `manilla-client` as a real process, with a home folder of its own."""

import os
import subprocess
import sys
from pathlib import Path

from tests.timeouts import TIMEOUT_SECONDS

TOOL = [sys.executable, "-m", "manilla_client"]


def environment(home: Path, **variables: str) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("MANILLA_")}
    places = {"XDG_CONFIG_HOME": str(home / "config"), "XDG_STATE_HOME": str(home / "state")}
    return {**ours, "HOME": str(home), **places, **variables}


def tool(
    home: Path, *words: str, input: str = "", **variables: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*TOOL, *words],
        input=input,
        capture_output=True,
        text=True,
        check=False,
        env=environment(home, **variables),
        timeout=TIMEOUT_SECONDS,
    )


def variables(port: int, merchant_key: str, api_key: str, api_secret: str) -> dict[str, str]:
    return {
        "MANILLA_URL": f"http://127.0.0.1:{port}",
        "MANILLA_MERCHANT_KEY": merchant_key,
        "MANILLA_API_KEY": api_key,
        "MANILLA_API_SECRET": api_secret,
    }
