"""Fixtures for all tests: a private PostgreSQL server per test process, and Manilla on it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
import uvicorn
from playwright.async_api import Browser, async_playwright, expect

from manilla.app import WebApplication
from manilla.kit import crypto, deadline
from manilla.kit.crypto import Keyring
from manilla.kit.db import Database
from manilla.kit.embedded import postgres
from manilla.kit.embedded.postgres import Cluster
from manilla.kit.embedded.process import Supervisor
from manilla.kit.server.direct import Protocol
from manilla.kit.server.draining import Drain
from manilla.kit.server.request_queue import RequestQueue
from manilla.ledger import invariants
from manilla.providers import rails, wire
from manilla.services import Services
from manilla.settings import Mode, Settings
from manilla.sql import migrate
from manilla.wiring import opened
from tests import browser as browsers
from tests.client import Site
from tests.instance import free_port
from tests.invariants import ALL
from tests.timeouts import TIMEOUT_SECONDS

expect.set_options(timeout=TIMEOUT_SECONDS * 1000)

LONG = (
    "tests/payouts/test_model.py",
    "tests/faults/",
    "tests/samples/",
    "tests/cli/",
    "tests/dashboard/",
    "tests/console/",
)


@pytest.fixture(scope="session")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    folder = tmp_path_factory.mktemp("postgres")
    cluster = await asyncio.to_thread(postgres.prepare, folder)
    supervisor = Supervisor()
    await supervisor.start(cluster.program(folder / "postgres.log"))
    try:
        await postgres.wait_until_ready(cluster)
        await _disable_fsync(cluster)
        await postgres.create_database(cluster)
        yield cluster
    finally:
        await supervisor.stop()


async def _disable_fsync(cluster: Cluster) -> None:
    """Disables fsync, because the data is not needed later. Fault tests use other servers."""
    connection = await asyncpg.connect(cluster.url(postgres.SUPERUSER, "postgres"))
    try:
        for name in ("fsync", "full_page_writes"):
            await connection.execute(f"ALTER SYSTEM SET {name} = off")
        await connection.execute("SELECT pg_reload_conf()")
    finally:
        await connection.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Runs the longest test modules first, so that no process is still busy when the others end."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))


@pytest.fixture(scope="session")
async def settings(cluster: Cluster) -> Settings:
    settings = Settings(
        mode=Mode.DEVELOPMENT,
        database_url=cluster.url(postgres.APPLICATION),
        migration_url=cluster.url(postgres.OWNER),
        master_keys=(crypto.decode_key(crypto.generate_key()),),
        base_url=f"http://127.0.0.1:{free_port()}",
        trusted_proxies=(ip_network("127.0.0.0/8"),),
    )
    await migrate.upgrade(settings.migration_url, settings.database_url)
    return settings


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One browser for all tests. Each test opens its own browser context."""
    path = browsers.find()
    if path is None:
        pytest.skip(browsers.NO_BROWSER)
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield chromium
        await chromium.close()


@pytest.fixture(scope="session", autouse=True)
def _long_deadlines() -> Iterator[None]:
    """Raises the deadlines so that a busy machine does not fail unrelated tests.

    Tests of the deadline set it back.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deadline, "REQUEST_SECONDS", 20)
        patch.setattr("manilla.kit.db.ACQUIRE_TIMEOUT_SECONDS", 20)
        patch.setattr(rails, "CONNECT_SECONDS", wire.CALL_SECONDS)
        yield


@pytest.fixture(scope="session")
async def services(settings: Settings) -> AsyncIterator[Services]:
    async with opened(settings, name="tests", connections=20) as services:
        yield services


@pytest.fixture(scope="session")
def db(services: Services) -> Database:
    return services.db


@pytest.fixture(scope="session")
def keyring(services: Services) -> Keyring:
    return services.keyring


@pytest.fixture(scope="session")
async def owner(settings: Settings) -> AsyncIterator[Database]:
    """A database connection as the schema's owner, for changes the application may not make."""
    db = await Database.open(settings.migration_url, size=2, name="tests owner")
    yield db
    await db.close()


@pytest.fixture(scope="session")
async def site(services: Services) -> AsyncIterator[Site]:
    """The whole web application, served over real HTTP."""
    port = urlsplit(services.base_url).port
    assert port is not None
    async with serving(WebApplication(services), port):
        yield Site(port)


@contextlib.asynccontextmanager
async def serving(web: Any, port: int = 0) -> AsyncIterator[int]:
    """Serves an ASGI application, an API, or both, as `manilla serve` does."""
    direct = web if hasattr(web, "respond") else None
    listener = socket.create_server(("127.0.0.1", port))
    server = uvicorn.Server(
        uvicorn.Config(
            web,
            http=partial(Protocol, direct=direct, drain=Drain(), queue=RequestQueue()),  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
    )
    task = asyncio.create_task(server._serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await task


@pytest.fixture(scope="module", autouse=True)
async def _invariants_hold(services: Services) -> AsyncIterator[None]:
    """Checks every ledger invariant after each test module.

    The check reads the whole database, which grows during the run, so it is too slow for every
    test.
    """
    yield
    broken = [f for f in await invariants.check(services.db, ALL) if f.count]
    assert not broken


@pytest.fixture(scope="session")
def project() -> Path:
    return Path(__file__).parent.parent
