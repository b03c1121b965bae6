"""Each process loads only the modules that it needs, so it starts fast and uses little memory."""

import subprocess
import sys
from collections.abc import Sequence

import pytest

from manilla import program

LOADED = """
import atexit, runpy, sys
atexit.register(lambda: print("loaded", *(name for name in sys.modules if sys.modules[name])))
module, *words = sys.argv[1:]
sys.argv = [module, *words]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
PAGES = {"manilla.checkout", "manilla.dashboard", "manilla.console", "manilla.pages", "manilla.web"}
COMMAND_LINE = {"typer", "pydantic", "rich", "manilla.cli"}
# Only the simulator uses aiohttp. The tables of idna are needed only for non-ASCII host names.
HTTP_LIBRARIES = {"aiohttp", "yarl", "multidict", "idna"}
TRACING = {"opentelemetry", "requests", "google.protobuf"}  # loaded only if tracing is on


def loaded(*words: str, options: Sequence[str] = ()) -> set[str]:
    """Returns the names of the modules that a process without settings has loaded when it exits."""
    done = subprocess.run(
        [sys.executable, *options, "-c", LOADED, "manilla", *words],
        capture_output=True,
        text=True,
        check=False,
        env={},
    )
    [line] = [line for line in done.stdout.splitlines() if line.startswith("loaded ")]
    return set(line.split())


@pytest.mark.long
def test_no_command_loads_the_programs_before_it_runs() -> None:
    commands = "from manilla.cli import main; main.build()"
    script = f"import sys; {commands}; print(*(name for name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    modules = set(done.stdout.split())
    assert "manilla.cli.merchant" in modules
    assert not modules & {"uvicorn", "jinja2", "manilla.wiring"}


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_help_overview_loads_no_command(option: str) -> None:
    modules = loaded(option)
    heavy = {"asyncio", "asyncpg", "aiohttp", "cryptography", "msgspec", "structlog"}
    assert "manilla.cli.main" in modules
    assert not modules & heavy
    assert {name for name in modules if name.startswith("manilla.cli.")} == {"manilla.cli.main"}


@pytest.mark.long
def test_the_worker_loads_neither_the_pages_nor_the_command_line() -> None:
    modules = loaded("worker", options=["-X", program.MARK])
    assert "manilla.worker" in modules
    assert not modules & {*PAGES, *COMMAND_LINE, *HTTP_LIBRARIES, "uvicorn", "manilla.api"}


@pytest.mark.long
def test_the_api_process_loads_the_pages_and_not_the_command_line() -> None:
    modules = loaded("serve", "0", options=["-X", program.MARK])
    assert modules >= PAGES
    assert not modules & {*COMMAND_LINE, *HTTP_LIBRARIES}


def test_the_api_process_and_the_worker_load_no_libraries_for_http_or_tracing() -> None:
    modules = "import sys, manilla.app, manilla.worker; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", modules], capture_output=True, text=True, check=True
    )
    assert "manilla.kit.http_client.client" in done.stdout.split()
    assert not {*HTTP_LIBRARIES, *TRACING} & set(done.stdout.split())
