"""The server frees a request's memory with its response, and a connection's when it is closed."""

import asyncio
import contextlib
import gc
import weakref
from collections.abc import Iterator

import pytest

from tests.kit.test_server_limits import API, PAGE, Connection
from tests.support.waiting import until_true

REQUEST = b"POST %b HTTP/1.1\r\nHost: m\r\nContent-Length: 4\r\n\r\nbody"


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Lets only reference counting free objects, as on a server between two collections."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def _answered(path: bytes) -> Connection:
    connection = Connection()
    await connection.send(REQUEST % path)
    await until_true(lambda: bool(connection.transport.sent))
    await asyncio.sleep(0)  # the request's task ends
    assert b" 200 " in connection.transport.sent
    return connection


@pytest.mark.parametrize("path", [API, PAGE])
async def test_a_closed_connection_is_freed_at_once(path: bytes) -> None:
    with _no_garbage_collection():
        connection = await _answered(path)
        protocol = weakref.ref(connection.protocol)
        connection.close()
        await asyncio.sleep(0)
        del connection
        assert protocol() is None


async def test_a_connection_keeps_nothing_of_a_request_that_has_its_response() -> None:
    connection = await _answered(API)
    assert not hasattr(connection.protocol.cycle, "request")
    assert connection.protocol.headers == []
    await connection.send(REQUEST % API)
    await until_true(lambda: connection.transport.sent.count(b" 200 ") == 2)
