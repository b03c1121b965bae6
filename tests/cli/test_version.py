"""`manilla --version` prints the same version as every package and document."""

import asyncio
import json
import re
import tomllib
from pathlib import Path

import manilla_client
import manilla_simulator
import pytest

import manilla
from tests.support.client import Site
from tests.support.command import manilla as command


async def test_the_version_is_the_same_everywhere(project: Path, site: Site) -> None:
    printed = (await asyncio.to_thread(command, "--version")).stdout.strip()
    described = (await site.send("GET", "/api/openapi.json")).json["info"]["version"]
    packages = {manilla_client.__version__, manilla_simulator.__version__}
    assert {printed, described, *packages} == {manilla.__version__}
    for folder in (".", "clients/python", "simulator"):
        description = tomllib.loads((project / folder / "pyproject.toml").read_text())
        assert description["project"]["dynamic"] == ["version"]


@pytest.mark.parametrize("name", ["package.json", "package-lock.json"])
def test_the_typescript_client_has_the_platforms_version(project: Path, name: str) -> None:
    package = json.loads((project / "clients" / "typescript" / name).read_text())
    versions = {package["version"], package.get("packages", {}).get("", package)["version"]}
    assert versions == {manilla.__version__}


def test_the_php_client_has_the_platforms_version(project: Path) -> None:
    """Composer takes a package's version from git, so only the class contains the version."""
    code = (project / "clients/php/src/Client.php").read_text()
    assert re.findall(r"const VERSION = '(.*)';", code) == [manilla.__version__]
