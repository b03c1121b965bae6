"""Runs the contract of the clients: `clients/contract/README.md` describes the contract."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.client_library import php
from tests.samples.languages import skip_without

ROOT = Path(__file__).parents[2]
CONTRACT = ROOT / "clients" / "contract"
RUN_SECONDS = 900
README_LINES_MAX = 10
# npm prints one of these codes if it cannot reach the registry.
OFFLINE = ("ENOTFOUND", "ECONNREFUSED", "ETIMEDOUT", "EAI_AGAIN", "ENETUNREACH", "ECONNRESET")

# Prepares a client in an empty folder, and returns the command of its runner.
Prepare = Callable[[Path], Sequence[str]]


def prepare_python(name: str) -> Prepare:
    return lambda _: [sys.executable, str(ROOT / "clients/python/contract/run.py"), name]


def prepare_typescript(folder: Path) -> Sequence[str]:
    """Builds a copy of the package, and installs the built package in an application."""
    package, application = copy_typescript(folder), folder / "application"
    shutil.copytree(CONTRACT, folder / "clients" / "contract")
    application.mkdir()
    # The README's program is compiled, and runs in the application as a test of its own.
    program = readme_program(package / "README.md", "ts")
    (package / "test" / "readme.ts").write_text(program)
    (application / "readme.test.mjs").write_text(program)
    install_compiler(package)
    built = ["npx", "--no-install", "tsc"]
    packed = ["npm", "pack", "--pack-destination", str(application)]
    for command in (built, [*built, "-p", "test"], packed):
        done = run(command, package)
        assert done.returncode == 0, done.stdout + done.stderr
    (archive,) = application.glob("*.tgz")
    installed = run(["npm", "install", "--offline", "--no-audit", archive.name], application)
    assert installed.returncode == 0, installed.stderr
    files = (package / "test/client.test.mjs", package / "contract/contract.test.mjs")
    return ["node", "--test", *map(str, files), str(application / "readme.test.mjs")]


def copy_typescript(folder: Path) -> Path:
    """Copies the TypeScript package's sources, so that a test does not change the project."""
    skip_without("npm")
    skip_without("node")
    ignored = shutil.ignore_patterns("node_modules", "dist")
    package = folder / "clients" / "typescript"
    shutil.copytree(ROOT / "clients" / "typescript", package, ignore=ignored)
    return package


def readme_program(readme: Path, language: str) -> str:
    """Returns the first program in a client's README. It is at most ten lines of code."""
    program, *_ = re.findall(rf"```{language}\n(.*?)```", readme.read_text(), re.DOTALL)
    assert len([line for line in program.splitlines() if line]) <= README_LINES_MAX
    return str(program)


def install_compiler(package: Path) -> None:
    done = run(["npm", "ci", "--no-audit", "--no-fund", "--prefer-offline"], package)
    if done.returncode and any(code in done.stderr for code in OFFLINE):
        pytest.skip("npm cannot reach its registry to install the TypeScript compiler")
    assert done.returncode == 0, done.stderr


def prepare_php(folder: Path) -> Sequence[str]:
    """Writes a program that first runs the README's payment, and then the contract."""
    php.skip_without_php()
    (folder / "vendor").mkdir()
    (folder / "vendor" / "autoload.php").write_text(f"<?php require '{php.CLIENT}/autoload.php';")
    program = php.readme_programs()[0]
    assert len(program.splitlines()) <= README_LINES_MAX
    (folder / "readme.php").write_text(program)
    runner = php.CLIENT / "contract" / "run.php"
    (folder / "run.php").write_text(f"<?php require 'readme.php'; require '{runner}';")
    return [*php.COMMAND, "run.php"]


PREPARED: Mapping[str, Prepare] = {
    "python": prepare_python("Client"),
    "python-async": prepare_python("AsyncClient"),
    "typescript": prepare_typescript,
    "php": prepare_php,
}


def run(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_SECONDS,
    )


@contextlib.contextmanager
def contract_server() -> Iterator[str]:
    """Runs the server of the scripted cases, and yields its URL."""
    with subprocess.Popen(
        [sys.executable, str(CONTRACT / "server.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.stdin.close()
            server.wait()


def check(command: Sequence[str], folder: Path, **environment: str) -> str:
    """Runs a client's runner. Fails with the runner's output if a case failed."""
    with contract_server() as url:
        done = run(command, folder, {**environment, "MANILLA_CONTRACT_URL": url})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
