"""Runs the sample shops in `docs/samples`, each with its language's own client."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

from tests.client_library.php import COMMAND as PHP
from tests.client_library.php import skip_without_php
from tests.contract.runners import copy_typescript, install_compiler, run
from tests.support.instance import free_port
from tests.support.timeouts import TIMEOUT_SECONDS
from tests.support.waiting import until_true

SAMPLES = Path(__file__).parents[2] / "docs" / "samples"
STARTED = ("The shop is open", "started")

# Prepares a shop in an empty folder, and returns the command that starts the shop on a port.
Prepare = Callable[[Path, int], Sequence[str]]


def prepare_node(folder: Path, _port: int) -> Sequence[str]:
    """Builds the TypeScript client in a copy of the project, beside a copy of the shop."""
    package = copy_typescript(folder)
    install_compiler(package)
    built = run(["npm", "run", "build"], package)
    assert built.returncode == 0, built.stdout + built.stderr
    shutil.copytree(SAMPLES, folder / "docs" / "samples")
    return ["node", str(folder / "docs/samples/shop-node/server.mjs")]


def prepare_php(_folder: Path, port: int) -> Sequence[str]:
    skip_without_php()
    return [*PHP, "-S", f"127.0.0.1:{port}", str(SAMPLES / "shop-php/server.php")]


def prepare_python(_folder: Path, _port: int) -> Sequence[str]:
    return [sys.executable, str(SAMPLES / "shop-python/server.py")]


PREPARED: Mapping[str, Prepare] = {
    "node": prepare_node,
    "php": prepare_php,
    "python": prepare_python,
}


class SampleShop:
    """A sample shop that a test can start several times, with other variables."""

    def __init__(self, language: str, folder: Path) -> None:
        port = free_port()
        self._command = PREPARED[language](folder, port)
        self.url = f"http://127.0.0.1:{port}"
        self._log = folder / "log"
        self._variables = {"PORT": str(port), "SHOP_ORDERS": str(folder / "orders")}

    @contextlib.asynccontextmanager
    async def open(self, **variables: str) -> AsyncIterator[None]:
        server = self._start(variables)
        try:
            await until_true(lambda: self._is_started(server))
            yield
        finally:
            server.terminate()
            server.wait(TIMEOUT_SECONDS)

    def _start(self, variables: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, **self._variables, "SHOP_URL": self.url, **variables}
        with self._log.open("wb") as log:
            return subprocess.Popen(self._command, env=environment, stdout=log, stderr=log)

    def _is_started(self, server: "subprocess.Popen[bytes]") -> bool:
        text = self._log.read_text()
        assert server.poll() is None, text
        return any(word in text for word in STARTED)

    def delivered(self) -> list[str]:
        """Returns the references of the orders that the shop has delivered since its start."""
        return re.findall(r"Deliver (ORDER-[0-9a-f]+)", self._log.read_text())
