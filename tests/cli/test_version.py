"""`manilla version` prints the version and loads only a few modules."""

import asyncio
import subprocess
import sys
import tomllib
from pathlib import Path

import manilla_client
import manilla_simulator
import pytest

import manilla
from tests.client import Site
from tests.command import manilla as command

HEAVY = {"asyncio", "asyncpg", "aiohttp", "cryptography", "litestar", "msgspec", "structlog"}
LOADED = """
import atexit, runpy, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
sys.argv = ["manilla", *sys.argv[1:]]
runpy.run_module("manilla", run_name="__main__")
"""


async def test_the_version_is_the_same_everywhere(project: Path, site: Site) -> None:
    printed = (await asyncio.to_thread(command, "--version")).stdout.strip()
    described = (await site.send("GET", "/api/openapi.json")).json["info"]["version"]
    packages = {manilla_client.__version__, manilla_simulator.__version__}
    assert {printed, described, *packages} == {manilla.__version__}
    for folder in (".", "clients/python", "simulator"):
        description = tomllib.loads((project / folder / "pyproject.toml").read_text())
        assert description["project"]["dynamic"] == ["version"]


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_help_overview_loads_no_command(option: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, option], capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.split())
    assert "manilla.cli.main" in loaded
    assert not loaded & HEAVY
    assert {name for name in loaded if name.startswith("manilla.cli.")} == {"manilla.cli.main"}
