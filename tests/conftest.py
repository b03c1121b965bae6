"""Fixtures for all tests: each test process runs Manilla with its own PostgreSQL server."""

import asyncio
import contextlib
import fcntl
import gc
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import argon2
import hypothesis
import jinja2
import pytest
import structlog
import uvicorn
from aiohttp import web
from manilla_simulator import dispatch
from manilla_simulator.faults import Ending
from playwright.async_api import Browser, BrowserContext, async_playwright, expect

from manilla.api.kernel import MerchantApi
from manilla.app import WebApplication
from manilla.kit import crypto, time_limits
from manilla.kit.crypto import Keyring
from manilla.kit.database.connections import Database
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster
from manilla.kit.server import accepting
from manilla.kit.server.clients import ClientConnections
from manilla.kit.server.direct import Protocol
from manilla.kit.server.draining import Drain
from manilla.kit.server.request_queue import RequestQueue
from manilla.people import passwords
from manilla.services import Services
from manilla.settings import Mode, Settings
from manilla.wiring import open_services
from tests.support import browser as browsers
from tests.support import clock, cpu_time, limits, ordering, template
from tests.support.clean_database import CleanDatabase
from tests.support.client import Site
from tests.support.instance import free_port
from tests.support.provider_simulator import ProviderSimulator, running_simulator
from tests.support.timeouts import TIMEOUT_SECONDS

expect.set_options(timeout=TIMEOUT_SECONDS * 1000)

# The tests use long time limits, so that a busy machine does not change their results.
time_limits.use(limits.PATIENT)
os.environ.update(limits.as_variables())

PRODUCTION_HASHER = passwords.hasher
LOOPBACK = ip_network("127.0.0.0/8")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--shuffle",
        metavar="SEED",
        help="run the modules, and the tests of each module, in the random order of this seed",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Store bytecode, so that not every test process compiles every module again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    config.pluginmanager.register(cpu_time)
    gc.disable()  # Disable garbage collection, because collecting the tests creates no garbage.
    _log_plain_tracebacks()
    _configure_hypothesis(is_short=config.option.markexpr == "not long")
    templates = ExitStack()
    templates.enter_context(template.shared_folder())
    config.add_cleanup(templates.close)
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(_CollectsAlone())
    else:
        config.pluginmanager.register(_NamesFailures(config))


class _NamesFailures:
    """Prints the name of a failed test at once. Its error follows at the end of the run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal: pytest.TerminalReporter | None = self._config.pluginmanager.get_plugin(
            "terminalreporter"
        )
        if report.failed and terminal is not None:
            terminal.ensure_newline()
            terminal.write_line(f"failed: {report.nodeid}")


class _CollectsAlone:
    """Lets one test process after the other collect the tests.

    On a fresh clone, the first process compiles all modules, and the others read the stored
    bytecode.
    """

    def __init__(self) -> None:
        lock = Path(os.environ[template.FOLDER_VARIABLE], "collecting.lock")
        self._lock = lock.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def pytest_collection_finish(self) -> None:
        self._lock.close()


def pytest_collection_finish() -> None:
    """Excludes the thousands of collected tests from garbage collection."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def _configure_hypothesis(*, is_short: bool) -> None:
    """Limits `make test` to a few fixed examples. A slow example never fails a test."""
    hypothesis.settings.register_profile(
        "manilla",
        max_examples=30 if is_short else 100,
        derandomize=is_short,
        deadline=None,
        database=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    hypothesis.settings.load_profile("manilla")


def _log_plain_tracebacks() -> None:
    """Logs exceptions without local variables, which take up to 20 s of CPU time to format."""
    *processors, _ = structlog.get_config()["processors"]
    renderer = structlog.dev.ConsoleRenderer(
        colors=False, exception_formatter=structlog.dev.plain_traceback
    )
    structlog.configure(processors=[*processors, renderer])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sorts the modules, longest first, so that all test processes end at about the same time."""
    if seed := config.getoption("--shuffle"):
        ordering.shuffle(items, seed)
    else:
        ordering.longest_first(items)


@pytest.fixture(scope="session")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with template.running_cluster(tmp_path_factory.mktemp("postgres") / "data") as cluster:
        yield cluster


@pytest.fixture(scope="session")
async def settings(cluster: Cluster) -> Settings:
    return Settings(
        mode=Mode.DEVELOPMENT,
        database_url=cluster.url(postgres.APPLICATION),
        migration_url=cluster.url(postgres.OWNER),
        master_keys=(crypto.decode_key(crypto.generate_key()),),
        base_url=f"http://127.0.0.1:{free_port()}",
        trusted_proxies=(LOOPBACK,),
    )


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """The browser that all tests share. Each test opens a separate browser context."""
    path = browsers.find()
    if path is None:
        pytest.skip(browsers.NO_BROWSER)
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(chromium, "new_context", partial(_new_context, chromium.new_context))
            yield chromium
        await chromium.close()


async def _new_context(open_context: Any, **options: Any) -> BrowserContext:
    """Opens a browser context whose actions have the same long timeout as `expect`."""
    context: BrowserContext = await open_context(**options)
    context.set_default_timeout(TIMEOUT_SECONDS * 1000)
    return context


@pytest.fixture
def hanging_calls_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes calls that the simulator never answers reach their time limit immediately."""
    end = dispatch._end_without_answer

    async def hang(request: web.Request, ending: Ending) -> None:
        if ending is Ending.HANG:
            clock.end_calls()
        await end(request, ending)

    monkeypatch.setattr(dispatch, "_end_without_answer", hang)


@pytest.fixture(scope="session", autouse=True)
def _cheap_password_hashes() -> Iterator[None]:
    """Makes password hashing fast. Tests of the password hash use `PRODUCTION_HASHER`."""
    with pytest.MonkeyPatch.context() as patch:
        cheap = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
        patch.setattr(passwords, "hasher", cheap)
        yield


@pytest.fixture(scope="session", autouse=True)
def _templates_are_compiled_once() -> Iterator[None]:
    """Caches compiled templates in files, which all processes and later test runs use."""
    folder = Path(".reports/templates").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    make = jinja2.Environment

    def environment(**options: Any) -> jinja2.Environment:
        # The same template source compiles to different code with and without autoescape.
        kind = "html" if options.get("autoescape") else "text"
        compiled = jinja2.FileSystemBytecodeCache(str(folder), f"{kind}-%s")
        return make(bytecode_cache=compiled, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jinja2, "Environment", environment)
        yield


@pytest.fixture(scope="session")
async def services(cluster: Cluster, settings: Settings) -> AsyncIterator[Services]:
    async with (
        open_services(settings, name="tests", connections=20) as services,
        CleanDatabase.opened(cluster) as database,
    ):
        _shared.append((services, database))
        yield services


@pytest.fixture(scope="session")
def db(services: Services) -> Database:
    return services.db


@pytest.fixture(scope="session")
def keyring(services: Services) -> Keyring:
    return services.keyring


@pytest.fixture(scope="session")
async def owner(settings: Settings) -> AsyncIterator[Database]:
    """A database connection as the schema's owner, for changes forbidden to the application."""
    db = await Database.open(settings.migration_url, size=2, name="tests owner")
    yield db
    await db.close()


@pytest.fixture(scope="session")
async def site(services: Services) -> AsyncIterator[Site]:
    """The whole web application, which the tests call over HTTP."""
    port = urlsplit(services.base_url).port
    assert port is not None
    async with serving(WebApplication(services), port):
        yield Site(port)


@pytest.fixture(scope="module")
async def simulated_providers(services: Services, site: Site) -> AsyncIterator[ProviderSimulator]:
    """Simulates providers A, B and C for a module. The providers send webhooks to the tested site.

    The `simulator` fixtures reset the providers before each test.
    """
    async with running_simulator(services) as running:
        yield running


class _ApiAlone:
    """The merchant API without pages and webhooks."""

    def __init__(self, api: MerchantApi) -> None:
        self._api = api

    def direct(self, _path: str) -> MerchantApi:
        return self._api


@contextlib.asynccontextmanager
async def serving(web: Any, port: int = 0) -> AsyncIterator[int]:
    """Serves an ASGI application, an API, or both, as `manilla serve` does."""
    has_direct_part = hasattr(web, "direct")
    site = _ApiAlone(web) if isinstance(web, MerchantApi) else web if has_direct_part else None
    listener = socket.create_server(("127.0.0.1", port))
    clients = ClientConnections([LOOPBACK])
    server = uvicorn.Server(
        uvicorn.Config(
            web,
            http=partial(  # type: ignore[arg-type]
                Protocol, site=site, drain=Drain(), queue=RequestQueue(), clients=clients
            ),
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
    )
    task = asyncio.create_task(server._serve(sockets=accepting.listeners(listener)))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await task


@pytest.fixture(scope="module", autouse=True)
async def _starts_with_an_empty_database() -> AsyncIterator[None]:
    """Starts each module with the database of a new installation, and checks the ledger at the end.

    Because of this fixture, no test depends on the modules that ran before.
    """
    for services, database in _shared:
        await database.reset()
        await services.watch.look()
    yield
    for _, database in _shared:
        assert await database.broken_invariants() == []


# After a test has requested the `services` fixture, this holds the fixture and its database.
_shared: list[tuple[Services, CleanDatabase]] = []


@pytest.fixture(scope="session")
def project() -> Path:
    return Path(__file__).parent.parent
