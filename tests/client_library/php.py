"""Runs PHP programs that use the PHP client."""

import contextlib
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.support.instance import free_port
from tests.support.timeouts import TIMEOUT_SECONDS

CLIENT = Path(__file__).parents[2] / "clients" / "php"
# PHP prints every warning, so that a test can reject it.
COMMAND = ("php", "-d", "display_errors=stderr", "-d", "error_reporting=-1")
LARAVEL = Path("/usr/share/php/Illuminate/autoload.php")


def skip_without_php() -> None:
    if shutil.which("php") is None:
        pytest.skip("php is not installed; Debian's packages are php-cli and php-curl")
    if b"\ncurl\n" not in subprocess.run(["php", "-m"], capture_output=True, check=True).stdout:
        pytest.skip("PHP has no curl extension; Debian's package is php-curl")


def php(
    *words: str, at: Path = CLIENT, variables: Mapping[str, str] = MappingProxyType({})
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=at,
        timeout=TIMEOUT_SECONDS,
        env={**os.environ, **variables},
    )


def output(
    *words: str, at: Path = CLIENT, variables: Mapping[str, str] = MappingProxyType({})
) -> str:
    done = php(*words, at=at, variables=variables)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout


def readme_programs() -> list[str]:
    return programs(CLIENT / "README.md")


def readme_program(words: str) -> str:
    """Returns the program in the README that contains these words."""
    [program] = [each for each in readme_programs() if words in each]
    return program


def programs(document: Path) -> list[str]:
    """Returns the PHP code in a document."""
    return re.findall(r"```php\n(.*?)```", document.read_text(), re.DOTALL)


@contextlib.contextmanager
def serving(script: Path, log: Path, **variables: str) -> Iterator[str]:
    """Serves a script with PHP's own web server, and yields the server's URL."""
    port = free_port()
    command = ["php", "-S", f"127.0.0.1:{port}", str(script)]
    with log.open("wb") as file:
        server = subprocess.Popen(
            command, cwd=script.parent, env={**os.environ, **variables}, stdout=file, stderr=file
        )
        try:
            _wait_until_started(server, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(TIMEOUT_SECONDS)


def _wait_until_started(server: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while b"started" not in log.read_bytes():
        assert server.poll() is None and time.monotonic() < deadline, log.read_text()  # noqa: PT018
        time.sleep(0.05)


def send(
    url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    request = urllib.request.Request(url, data=body, headers=dict(headers or {}))
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
