"""If one of several database hosts hangs, the client connects to another host."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from manilla.kit.database import connector
from manilla.kit.database.connections import Database, UnusableDatabase, connect, session
from manilla.kit.database.connector import SEARCH_PATH, Connector
from manilla.kit.database.reader import Standby
from manilla.kit.embedded.postgres import APPLICATION, SUPERUSER, Cluster
from manilla.kit.errors import Unavailable
from manilla.settings import Settings
from manilla.wiring import open_services
from tests.faults.proxy import Proxy, proxied
from tests.support import clock
from tests.support.databases import database
from tests.support.instance import free_port
from tests.support.limits import limited
from tests.support.rows import first_short
from tests.support.timeouts import TIMEOUT_SECONDS

Value = TypeVar("Value")


@contextlib.contextmanager
def silent() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@contextlib.contextmanager
def dropping() -> Iterator[str]:
    """A server whose accept queue is full, so that the kernel drops new connection attempts."""
    with contextlib.ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


HANGING = [silent, dropping]


def url_of(hosts: list[str], one: str) -> str:
    """Returns the URL of the same database with these hosts."""
    parts = urlsplit(one)
    return f"{parts.scheme}://{parts.username}:{parts.password}@{','.join(hosts)}{parts.path}"


@pytest.fixture
async def proxy(settings: Settings) -> AsyncIterator[Proxy]:
    async with proxied(settings.database_url) as proxy:
        yield proxy


@pytest.mark.parametrize("place", first_short([0, 1, 2]))
@pytest.mark.parametrize("hanging", HANGING)
async def test_a_hanging_host_does_not_block_the_others(
    proxy: Proxy, hanging: Any, place: int
) -> None:
    with hanging() as bad:
        hosts = [f"127.0.0.1:{free_port()}", proxy.host]
        hosts.insert(place, bad)
        db = await Database.open(url_of(hosts, proxy.url), size=2, name="tests hosts")
        try:
            assert await db.value("SELECT 1") == 1
            assert await db.keep_connection().rows(_One, "SELECT 1 AS one") == [_One(1)]
        finally:
            await db.close()


class _One(msgspec.Struct, frozen=True):
    one: int


@pytest.mark.parametrize("hanging", first_short(HANGING))
async def test_the_processes_start_while_the_first_host_hangs(
    proxy: Proxy, settings: Settings, hanging: Any
) -> None:
    with hanging() as first, hanging() as second:
        url = url_of([first, second, proxy.host], proxy.url)
        elsewhere = msgspec.structs.replace(settings, database_url=url)
        async with open_services(elsewhere, name="tests hosts", connections=2) as services:
            assert await services.db.value("SELECT 1") == 1


@pytest.mark.parametrize("hanging", first_short(HANGING))
async def test_when_no_host_responds_each_is_named_without_the_password(hanging: Any) -> None:
    closed = f"127.0.0.1:{free_port()}"
    with hanging() as bad, limited(host_connect_seconds=0.5):
        url = f"postgresql://manilla:a-password@{bad},{closed}/manilla?sslmode=disable"
        with pytest.raises(Unavailable) as refused:
            await Database.open(url, size=1, name="tests hosts")
    cause = str(refused.value.__cause__)
    assert f"{bad}: timed out" in cause
    assert f"{closed}: " in cause
    assert "a-password" not in cause


async def test_sessions_move_to_another_host_when_theirs_hangs(
    settings: Settings,
) -> None:
    async with proxied(settings.database_url) as old, proxied(settings.database_url) as new:
        new.freeze()
        with limited(statement_seconds=10, statement_grace_seconds=0):
            db = await Database.open(
                url_of([old.host, new.host], old.url), size=4, name="tests hosts"
            )
        kept = db.keep_connection()
        await asyncio.gather(*(db.value("SELECT pg_sleep(0.1)") for _ in range(4)))
        await kept.rows(_One, "SELECT 1 AS one")

        old.freeze()
        with pytest.raises(Unavailable):
            await _in_moved_time(db.value("SELECT 1"))
        new.thaw()
        try:
            with limited(host_connect_seconds=10):
                while not await _in_moved_time(_answers(db)):
                    pass
            # These queries also use connections that were idle when the host stopped responding.
            await asyncio.gather(*(db.value("SELECT pg_sleep(0.1)") for _ in range(4)))
            assert await kept.rows(_One, "SELECT 1 AS one") == [_One(1)]
        finally:
            await db.close()


async def _in_moved_time(work: Coroutine[Any, Any, Value]) -> Value:
    """Awaits a result, and moves the clock until the limit of 10 s ends all hanging calls."""
    task = asyncio.create_task(work)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not task.done():
            await asyncio.sleep(0.1)
            clock.advance(2)
    return await task


async def _answers(db: Database) -> bool:
    try:
        await db.value("SELECT 1")
    except Unavailable:
        return False
    return True


async def test_hosts_in_the_query_string_are_tried_one_by_one(settings: Settings) -> None:
    parts = urlsplit(settings.database_url)
    folder = parse_qs(parts.query)["host"][0]
    whom = f"user={parts.username}&password={parts.password}"
    with silent() as bad:
        host, _, port = bad.partition(":")
        url = f"postgresql:///{parts.path[1:]}?host={host},{folder}&port={port},5432&{whom}"
        session = await connect(url)
        try:
            assert await session.fetchval("SELECT 1") == 1
        finally:
            await session.close()


@pytest.mark.parametrize(
    ("url", "names"),
    [
        ("postgresql://u:p,q@a,b:6432,[::1]:5/db", ["a", "b:6432", "[::1]:5"]),
        ("postgresql:///db?host=a,b&port=1,2", ["a:1", "b:2"]),
        ("postgresql:///db?host=a,/run/x", ["a", "/run/x"]),
        ("postgresql://u:p@h/db", ["h"]),
        ("postgresql:///db", ["the default host"]),
    ],
)
def test_hosts_are_named_as_in_the_url(url: str, names: list[str]) -> None:
    assert [host.name for host in connector.hosts_of(url)] == names


@pytest.mark.parametrize(
    "url", ["postgresql:///db?host=a,b&port=1,2,3", "postgresql://u@h:port/db", "mysql://h/db"]
)
async def test_a_malformed_database_url_is_rejected(url: str) -> None:
    with pytest.raises(UnusableDatabase):
        await connect(url)
    with pytest.raises(UnusableDatabase):
        await Database.open(url, size=1, name="tests hosts")


async def test_closing_a_session_of_a_lost_server_does_not_wait_for_it(settings: Settings) -> None:
    opening = Connector(settings.database_url)
    lost = await opening.connect()
    opening.lose_sessions()
    later = await opening.connect()
    closing = lost.close(timeout=600)
    with pytest.raises(StopIteration):
        closing.send(None)  # ends immediately
    assert lost.is_closed()
    assert await later.fetchval("SELECT 1") == 1
    await later.close()


async def test_a_session_that_commits_sends_no_request_to_cancel(settings: Settings) -> None:
    session = await Connector(settings.database_url).connect()
    session.set_committing(True)
    sent = asyncio.get_running_loop().create_future()
    session._cancel_current_command(sent)
    assert sent.done()
    assert not session._cancellations
    await session.close()


@pytest.fixture
async def shadowed(cluster: Cluster, settings: Settings) -> AsyncIterator[Settings]:
    """A database whose settings put another schema before the one of the tables."""
    own = await database(cluster, settings, "shadowed", is_migrated=True)
    superuser = await Database.open(cluster.url(SUPERUSER, "postgres"), size=1, name="tests")
    of_role = f"ALTER ROLE {APPLICATION} IN DATABASE shadowed"
    await superuser.execute("ALTER DATABASE shadowed SET search_path = shadow, pg_catalog, public")
    await superuser.execute(f"{of_role} SET search_path = shadow, pg_catalog, public")
    yield own
    await superuser.execute(f"{of_role} RESET ALL")
    await superuser.close()


async def test_no_setting_of_the_role_or_the_database_replaces_the_search_path(
    shadowed: Settings,
) -> None:
    """A function in another schema never takes the place of ours."""
    url = f"{shadowed.database_url}&search_path=shadow&options=-csearch_path%3Dshadow"
    db = await Database.open(url, size=1, name="tests")
    standby = await Standby.open(f"{url}&target_session_attrs=any", size=1, name="tests")
    kept = db.keep_connection({"work_mem": "8MB"})
    show = "SELECT current_setting('search_path')"
    try:
        async with session(url, statement_seconds=None) as raw:
            found = [await raw.fetchval(show)]
        found += [await db.value(show)]
        found += [next(iter(row)) for row in await db.records_by_key(show)]
        found += [next(iter(row)) for row in await kept.records(show)]
        async with db.transaction() as connection:
            found.append(await connection.value(show))
        found.append(await standby.pool.value(show))
        assert found == [SEARCH_PATH] * 6
    finally:
        await standby.close()
        await db.close()


async def test_a_session_whose_search_path_a_login_trigger_replaces_is_not_used(
    cluster: Cluster, shadowed: Settings
) -> None:
    url = cluster.url(SUPERUSER, "shadowed")
    superuser = await Database.open(url, size=1, name="tests")
    await superuser.execute(
        """
        CREATE FUNCTION on_login() RETURNS event_trigger LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM set_config('search_path', 'shadow, public', false);
        END $$;
        CREATE EVENT TRIGGER on_login ON login EXECUTE FUNCTION on_login()"""
    )
    await superuser.close()
    for opening in (
        connect(shadowed.database_url),
        Database.open(shadowed.database_url, size=1, name="tests"),
    ):
        with pytest.raises(UnusableDatabase, match="search_path shadow, public"):
            await opening
