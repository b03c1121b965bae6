"""Wheels that pip installs in an empty environment run like a clone: no file of the clone is used.

The test downloads the pinned requirements from the package index that pip uses.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import limits
from tests.support.client import Site
from tests.support.instance import UpProcess, free_port
from tools import wheels

BASE = Path(sys.base_prefix) / "bin" / "python3"
INSTALL_SECONDS = 1800  # This timeout only ends an installation that hangs.
# What pip prints if it cannot connect to the package index.
OFFLINE = ("Failed to establish a new connection", "Failed to resolve", "ProxyError")
WIDE = {"COLUMNS": "200"}  # No line of the summary is wrapped, whatever its length.

FILES = r'(?:src|href)="(/[^"]+\.(?:css|js|svg|woff2)(?:\?[^"]*)?)"'

# The parts of the summary that differ between two installations.
DIFFERENT = {
    r"ready in [\d.]+ s": "ready in SECONDS s",
    r"Data, logs .*": "Data, logs FOLDER",
    r"\b(test_)?[0-9a-z]{32,39}\b": r"\1KEY",
    r"X-Timestamp: \d+": "X-Timestamp: TIME",
    r"X-Signature: [0-9a-f]{64}": "X-Signature: SIGNATURE",
}


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Returns the programs of an environment that has only the wheels and their requirements."""
    pip = [str(BASE), "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("the interpreter has no pip")
    requirements = wheels.build_all(tmp_path / "the wheels")
    environment = tmp_path / "environment"
    subprocess.run([BASE, "-m", "venv", "--without-pip", environment], check=True)
    install = ["--python", str(environment / "bin" / "python"), "install", "--no-input"]
    done = subprocess.run(
        [*pip, *install, "--disable-pip-version-check", "--requirement", requirements],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=INSTALL_SECONDS,
    )
    if done.returncode and any(reason in done.stderr for reason in OFFLINE):
        pytest.skip("pip cannot reach its package index to install the requirements")
    assert done.returncode == 0, done.stderr
    return environment / "bin"


@pytest.fixture
def from_wheels(installed: Path, tmp_path: Path) -> Iterator[UpProcess]:
    """Runs `manilla up` in an empty folder, with an environment that has nothing of the clone."""
    for name in ("empty", "home"):
        (tmp_path / name).mkdir()
    process = UpProcess(
        [str(installed / "manilla"), "up", "--port", str(free_port())],
        tmp_path / "wheels.out",
        at=tmp_path / "empty",
        environment={
            "PATH": os.defpath,
            "HOME": str(tmp_path / "home"),
            **WIDE,
            **limits.as_variables(),
        },
    )
    yield process
    assert process.stop(signal.SIGINT) == 0


@pytest.fixture
def from_clone(project: Path, tmp_path: Path) -> Iterator[UpProcess]:
    process = UpProcess(
        ["make", "run", f"PORT={free_port()}", f"DATA={tmp_path / 'data'}"],
        tmp_path / "clone.out",
        at=project,
        environment={**os.environ, **WIDE},
    )
    yield process
    # A terminal sends Ctrl-C to make and to the program that make runs.
    os.killpg(process.process.pid, signal.SIGINT)
    process.process.wait()


@pytest.mark.long
async def test_the_wheels_run_with_the_first_screen_of_make_run(
    from_wheels: UpProcess, from_clone: UpProcess
) -> None:
    screens = [summary(each.wait()) for each in (from_wheels, from_clone)]
    assert screens[0] == screens[1]
    await open_every_page(from_wheels.output.read_text())


def summary(process: UpProcess) -> list[str]:
    text = process.output.read_text()
    found = re.search(r"running at http://127\.0\.0\.1:(\d+)", text)
    assert found, text
    port = int(found[1])
    text = text.replace(f":{port}", ":PORT").replace(f":{port + 1}", ":NEXT")
    for pattern, replacement in DIFFERENT.items():
        text = re.sub(pattern, replacement, text)
    lines = [line.rstrip() for line in text.splitlines()]
    # make prints its own lines before the summary if it installs something.
    return lines[next(number for number, line in enumerate(lines) if "is running" in line) :]


async def open_every_page(text: str) -> None:
    """Opens the pages that the summary names, with their style sheets and scripts."""
    urls = re.findall(r"^  \w.*? http://127\.0\.0\.1:(\d+)(/\S*)", text, re.MULTILINE)
    assert {path for _, path in urls} >= {"/dashboard/", "/console/", "/shop", "/docs", "/control"}
    for port, path in urls:
        if path != "/api/v1":
            await open_page(Site(int(port)), path)


async def open_page(site: Site, path: str) -> None:
    reply = await site.send("GET", path)
    while reply.status in {302, 303}:
        reply = await site.send("GET", reply.location)
    assert reply.status == 200, (path, reply.status)
    for file in set(re.findall(FILES, reply.body.decode())):
        assert (await site.send("GET", file)).status == 200, (path, file)
