"""The HTTP client with a local server: responses, errors and persistent connections."""

import asyncio
import contextlib
import socket
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import uvloop

from manilla.kit import outbound
from manilla.kit.http_client.client import HttpClient
from manilla.kit.http_client.connection import HEAD_BYTES_MAX, HttpReply
from manilla.kit.http_client.errors import (
    Disconnected,
    HttpError,
    IncompleteReply,
    MalformedReply,
    NotConnected,
)
from tests.kit.http_server import OK, Answer, RawServer, closes, hang, in_parts, serving

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
REST = b"HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nother"

COMPLETE: dict[str, tuple[bytes | Answer, int, bytes]] = {
    "length": (OK, 200, b"ok"),
    "no body": (HEAD + b"Content-Length: 0\r\n\r\n", 200, b""),
    "chunked": (CHUNKED + b"2\r\nok\r\n3;x=y\r\nabc\r\n0\r\n\r\n", 200, b"okabc"),
    "trailer": (CHUNKED + b"2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n", 200, b"ok"),
    "until close": (closes(HEAD + b"\r\nsome", b"thing"), 200, b"something"),
    "http/1.0": (closes(b"HTTP/1.0 200 OK\r\n\r\nold"), 200, b"old"),
    "continue": (b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\n" + OK, 200, b"ok"),
    "early hints": (in_parts(b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n", OK), 200, b"ok"),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    "304": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, b""),
    "redirect": (b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", 302, b""),
    "one byte at a time": (in_parts(*(bytes([each]) for each in OK)), 200, b"ok"),
    "only line feeds": (OK.replace(b"\r\n", b"\n"), 200, b"ok"),
    "no reason": (OK.replace(b" OK", b""), 200, b"ok"),
}
NO_RESPONSE = "the connection was closed without a response"
INCOMPLETE = "the response was incomplete"
# Each row has the response, the client's error and its description, and the received status.
BROKEN: dict[str, tuple[bytes | Answer, type[HttpError], str, int | None]] = {
    "nothing": (closes(), Disconnected, NO_RESPONSE, None),
    "half a head": (closes(HEAD + b"Content-Le"), Disconnected, NO_RESPONSE, None),
    "only a continue": (closes(b"HTTP/1.1 100 C\r\n\r\n"), Disconnected, NO_RESPONSE, None),
    "reset": (closes(is_reset=True), Disconnected, "Connection reset by peer", None),
    **{
        name: (answer, IncompleteReply, INCOMPLETE, 200)
        for name, answer in (
            ("half a body", closes(HEAD + b"Content-Length: 9\r\n\r\nhalf")),
            ("half a chunk", closes(CHUNKED + b"9\r\nhalf")),
            ("no last chunk", closes(CHUNKED + b"4\r\nhalf\r\n")),
            ("reset in a body", closes(HEAD + b"\r\nhalf", is_reset=True)),
        )
    },
    **{
        name: (answer, MalformedReply, "the response is not valid HTTP", status)
        for name, answer, status in (
            ("not http", b"\x00\x01 hello\r\n\r\n", None),
            ("tls", b"\x15\x03\x01\x00\x02\x02\x46", None),
            ("two lengths", HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok", None),
            ("length and chunks", HEAD + b"Content-Length: 2\r\n" + CHUNKED[len(HEAD) :], None),
            ("invalid length", HEAD + b"Content-Length: -2\r\n\r\nok", None),
            ("large head", HEAD + b"X: " + b"y" * HEAD_BYTES_MAX + b"\r\n" + OK[17:], None),
            ("endless header", HEAD + b"X: " + b"y" * 10 * HEAD_BYTES_MAX, None),
            ("endless headers", HEAD + b"X: y\r\n" * HEAD_BYTES_MAX, None),
            ("endless continues", b"HTTP/1.1 100 Continue\r\n\r\n" * HEAD_BYTES_MAX, None),
            ("invalid chunk", CHUNKED + b"zz\r\n", 200),
            ("endless extension", CHUNKED + b"1;" + b"x" * 10 * HEAD_BYTES_MAX, 200),
            ("endless trailer", CHUNKED + b"0\r\nX: " + b"x" * 10 * HEAD_BYTES_MAX, 200),
        )
    },
}


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with serving() as server:
        yield server


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    async with HttpClient(connections=4, keepalive_seconds=60) as client:
        yield client


async def get(client: HttpClient, url: str, body_max: int = 1000) -> HttpReply:
    async with asyncio.timeout(30):
        return await client.request("GET", url, body_max=body_max)


async def post(client: HttpClient, url: str, **more: Any) -> HttpReply:
    async with asyncio.timeout(30):
        return await client.request("POST", url, body=b"{}", **{"body_max": 1000, **more})


async def until_closed(server: RawServer) -> None:
    async with asyncio.timeout(30):
        while server.open:
            await asyncio.sleep(0.01)


# Replies.


@pytest.mark.parametrize("how", COMPLETE)
async def test_a_complete_response_is_returned(
    server: RawServer, client: HttpClient, how: str
) -> None:
    answer, status, body = COMPLETE[how]
    server.answers = [answer]
    reply = await post(client, server.url)
    assert (reply.status, bytes(reply.body), reply.is_cut) == (status, body, False)
    assert len(server.requests) == 1


@pytest.mark.parametrize("how", BROKEN)
async def test_a_broken_response_is_an_error_and_never_counts_as_not_sent(
    server: RawServer, client: HttpClient, how: str
) -> None:
    answer, kind, text, status = BROKEN[how]
    server.answers = [answer]
    reply = HttpReply()
    with pytest.raises(kind) as raised:
        await post(client, server.url, reply=reply)
    assert type(raised.value) is kind
    assert not isinstance(raised.value, NotConnected)
    assert outbound.describe(raised.value) == text
    assert (reply.status, len(server.requests)) == (status, 1)
    await until_closed(server)


async def test_headers_have_lower_case_names_and_are_those_of_the_final_response(
    server: RawServer, client: HttpClient
) -> None:
    server.answers = [
        b"HTTP/1.1 103 Hints\r\nX-A: 0\r\n\r\n" + HEAD + b"X-B: 1\r\nx-b: 2\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-C: 3\r\n\r\n"
    ]
    reply = await get(client, server.url)
    assert reply.headers == {"x-b": "1, 2", "transfer-encoding": "chunked"}


@pytest.mark.parametrize(
    "head", [HEAD + b"\r\n", HEAD + b"Content-Length: 1000000\r\n\r\n", CHUNKED + b"f4240\r\n"]
)
async def test_a_large_body_is_cut_and_its_connection_closed(
    server: RawServer, client: HttpClient, head: bytes
) -> None:
    server.answers = [in_parts(head, b"x" * 500, b"x" * 999_500)]
    reply = await get(client, server.url, body_max=600)
    assert (reply.status, bytes(reply.body), reply.is_cut) == (200, b"x" * 600, True)
    await until_closed(server)


async def test_a_body_of_exactly_the_limit_is_not_cut(
    server: RawServer, client: HttpClient
) -> None:
    reply = await get(client, server.url, body_max=2)
    assert (bytes(reply.body), reply.is_cut) == (b"ok", False)


async def test_an_endless_body_is_read_no_further_than_the_limit(
    server: RawServer, client: HttpClient
) -> None:
    sent = 0

    async def endless(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(HEAD + b"\r\n")
        while True:
            writer.write(b"x" * 65536)
            sent += 65536
            await writer.drain()

    server.answers = [endless]
    reply = await get(client, server.url, body_max=100_000)
    assert len(reply.body) == 100_000
    await until_closed(server)
    assert sent < 20 * 1024 * 1024  # This much data fits into the buffers of both sockets.


async def test_a_compressed_body_is_returned_as_received(
    server: RawServer, client: HttpClient
) -> None:
    packed = zlib.compress(b"text")
    head = HEAD + b"Content-Encoding: deflate\r\nContent-Length: %d\r\n\r\n" % len(packed)
    server.answers = [head + packed]
    reply = await get(client, server.url)
    assert (bytes(reply.body), reply.headers["content-encoding"]) == (packed, "deflate")
    assert server.requests[0].header("Accept-Encoding") == "identity"


async def test_cookies_and_redirects_are_ignored(server: RawServer, client: HttpClient) -> None:
    server.answers = [
        b"HTTP/1.1 307 See\r\nLocation: /next\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
    ]
    assert [(await post(client, server.url)).status for _ in range(2)] == [307, 200]
    assert [each.header("Cookie") for each in server.requests] == [None, None]


async def test_proxy_settings_of_the_environment_are_ignored(
    server: RawServer, client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    assert (await get(client, server.url)).status == 200


async def test_other_methods_are_rejected(server: RawServer, client: HttpClient) -> None:
    for method in ("HEAD", "CONNECT", "get", "GET /\r\n"):
        with pytest.raises(ValueError, match="not supported"):
            await client.request(method, server.url, body_max=9)
    assert server.requests == []


# Calls that end early.


async def test_a_call_that_times_out_closes_its_connection_and_shows_what_had_arrived(
    server: RawServer, client: HttpClient
) -> None:
    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: 9\r\n\r\nhalf")
        await hang(reader, writer)

    server.answers = [slow]
    reply = HttpReply()
    call = asyncio.create_task(
        client.request("POST", server.url, body=b"{}", body_max=9, reply=reply)
    )
    async with asyncio.timeout(30):
        while not reply.body:
            await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (reply.status, bytes(reply.body)) == (200, b"half")
    await until_closed(server)


async def test_a_call_that_is_cancelled_as_its_response_arrives_leaves_no_connection_open(
    server: RawServer, client: HttpClient
) -> None:
    reply = HttpReply()
    call = asyncio.create_task(client.request("GET", server.url, body_max=9, reply=reply))
    while not reply.body:
        await asyncio.sleep(0)
    call.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await call
    await client.close()
    await until_closed(server)


async def test_a_cancelled_call_lets_the_next_one_pass(server: RawServer) -> None:
    server.answers = [hang]
    async with HttpClient(connections=1, keepalive_seconds=60) as client:
        first = asyncio.create_task(post(client, server.url))
        while not server.requests:
            await asyncio.sleep(0.01)
        second = asyncio.create_task(post(client, server.url))
        await asyncio.sleep(0.05)
        assert len(server.requests) == 1  # The second request waits for the connection.
        first.cancel()
        assert (await second).status == 200
    assert [each.connection for each in server.requests] == [1, 2]


async def test_closing_the_client_ends_calls_in_progress_as_unknown(server: RawServer) -> None:
    server.answers = [hang, in_parts(HEAD + b"\r\nhalf")]
    client = HttpClient(connections=2, keepalive_seconds=60)
    calls = [asyncio.create_task(post(client, server.url)) for _ in range(2)]
    while len(server.requests) < 2:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    await client.close()
    errors = await asyncio.gather(*calls, return_exceptions=True)
    # When the client closes the connection, a body without a length counts as incomplete.
    assert {type(each) for each in errors} == {Disconnected, IncompleteReply}
    await until_closed(server)


# Kept connections.


async def test_a_connection_is_kept_for_the_next_requests(
    server: RawServer, client: HttpClient
) -> None:
    for _ in range(3):
        await post(client, server.url)
        await get(client, server.url)
    assert {each.connection for each in server.requests} == {1}


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + b"Connection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        OK + b"garbage",
        OK + REST,
        OK + b"\x00",
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        in_parts(OK, REST),
        in_parts(OK, b"garbage"),
        in_parts(OK, b"\r\n"),
        CHUNKED + b"0\r\n\r\n" + REST,
    ],
)
async def test_a_connection_is_not_kept_after_a_response_that_ends_it_or_has_more_behind_it(
    server: RawServer, client: HttpClient, answer: bytes | Answer
) -> None:
    server.answers = [answer]
    first = await post(client, server.url)
    assert first.status in (101, 200)
    assert bytes(first.body) in (b"ok", b"")
    await asyncio.sleep(0.1)  # until all of it has arrived
    assert bytes((await post(client, server.url)).body) == b"ok"
    assert [each.connection for each in server.requests] == [1, 2]


async def test_a_response_before_the_request_was_read_is_not_followed_by_another_request(
    server: RawServer, client: HttpClient
) -> None:
    """The server would read the rest of the first request as the start of the next request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await answered.wait()
        writer.close()

    answered = asyncio.Event()
    running = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1024)
    url = f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}/"
    reply = await client.request("POST", url, body=b"x" * 50_000_000, body_max=9)
    assert reply.status == 200
    assert not client._idle
    answered.set()
    running.close()


@pytest.mark.parametrize("is_reset", [False, True])
async def test_a_connection_that_the_server_closed_is_not_used(
    server: RawServer, client: HttpClient, is_reset: bool
) -> None:
    await post(client, server.url)
    [writer] = server.open
    writer.transport.abort() if is_reset else writer.close()
    await asyncio.sleep(0.05)
    assert (await post(client, server.url)).status == 200
    assert [each.connection for each in server.requests] == [1, 2]


@contextlib.contextmanager
def blocking_server() -> Iterator[tuple[socket.socket, str]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener, f"http://127.0.0.1:{listener.getsockname()[1]}/"


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 408 Timeout\r\nContent-Length: 0\r\n\r\n"])
async def test_a_closed_connection_is_not_used_even_if_the_event_loop_has_not_seen_it_yet(
    client: HttpClient, sent: bytes
) -> None:
    with blocking_server() as (listener, url):
        call = asyncio.create_task(post(client, url))
        first, _ = await asyncio.to_thread(listener.accept)
        await asyncio.to_thread(first.recv, 65536)
        first.sendall(OK)
        assert (await call).status == 200
        first.sendall(sent)
        first.close()  # The event loop runs no iteration before the next request.
        call = asyncio.create_task(post(client, url))
        second, _ = await asyncio.to_thread(listener.accept)
        assert b"POST" in await asyncio.to_thread(second.recv, 65536)
        second.sendall(OK)
        assert (await call).status == 200
        second.close()


async def test_a_query_is_repeated_once_if_a_kept_connection_ends_without_a_response(
    server: RawServer, client: HttpClient
) -> None:
    for ending in (closes(), closes(is_reset=True)):
        server.answers = [OK, ending]
        server.requests.clear()
        for _ in range(2):
            assert (await get(client, server.url)).status == 200
        first, second, repeated = server.requests
        assert first.connection == second.connection != repeated.connection
        assert second.line == repeated.line


async def test_a_query_is_repeated_on_a_new_connection_and_only_once(
    server: RawServer, client: HttpClient
) -> None:
    server.answers = [in_parts(b"", OK), in_parts(b"", OK), closes(), closes()]
    await asyncio.gather(get(client, server.url), get(client, server.url))  # two are kept
    with pytest.raises(Disconnected):
        await get(client, server.url)
    first, second, kept, new = (each.connection for each in server.requests)
    assert kept in (first, second)
    assert new not in (first, second)


async def test_a_query_that_was_written_once_is_never_reported_as_not_sent(
    client: HttpClient,
) -> None:
    async with serving() as server:
        await get(client, server.url)

        async def vanish(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
            server.stop()
            raise ConnectionResetError

        server.answers = [vanish]
        with pytest.raises(Disconnected):
            await get(client, server.url)
        assert len(server.requests) == 2


async def test_a_query_is_not_repeated_after_a_byte_of_the_response(
    server: RawServer, client: HttpClient
) -> None:
    server.answers = [OK, closes(b"HTTP/1.1 ")]
    await get(client, server.url)
    with pytest.raises(Disconnected):
        await get(client, server.url)
    assert len(server.requests) == 2


@pytest.mark.parametrize("is_reset", [False, True])
async def test_a_post_is_never_repeated(
    server: RawServer, client: HttpClient, is_reset: bool
) -> None:
    server.answers = [OK, closes(is_reset=is_reset)]
    await post(client, server.url)
    with pytest.raises(Disconnected):
        await post(client, server.url)
    assert len(server.requests) == 2


async def test_idle_connections_are_closed(server: RawServer) -> None:
    async with HttpClient(connections=4, keepalive_seconds=0.05) as client:
        await post(client, server.url)
        await until_closed(server)
        assert not client._idle
        await post(client, server.url)
    assert [each.connection for each in server.requests] == [1, 2]


async def test_connections_are_limited_and_calls_wait(server: RawServer) -> None:
    server.answers = [in_parts(b"", OK)] * 20
    async with HttpClient(connections=3, keepalive_seconds=60) as client:
        replies = await asyncio.gather(*(post(client, server.url) for _ in range(20)))
    assert {each.status for each in replies} == {200}
    assert server.most_open == 3


async def test_kept_connections_to_other_hosts_make_room(server: RawServer) -> None:
    async with (
        serving() as other,
        HttpClient(connections=2, keepalive_seconds=60) as client,
    ):
        server.answers = [in_parts(b"", OK)] * 2
        await asyncio.gather(*(post(client, server.url) for _ in range(2)))
        assert (await post(client, other.url)).status == 200
        async with asyncio.timeout(30):
            while len(server.open) + len(other.open) > 2:
                await asyncio.sleep(0.01)


async def test_more_connections_can_be_kept_than_used_at_the_same_time() -> None:
    async with (
        serving() as one,
        serving() as two,
        HttpClient(connections=1, keepalive_seconds=60, open_max=2) as client,
    ):
        for server in (one, two, one, two):
            await post(client, server.url)
        assert [each.connection for each in one.requests + two.requests] == [1, 1, 1, 1]


async def test_connections_are_kept_per_scheme_host_and_port(client: HttpClient) -> None:
    async with serving() as one, serving() as two:
        for server in (one, two, one, two):
            await post(client, server.url)
        await post(client, one.url.replace("127.0.0.1", "localhost"))
        assert [each.connection for each in one.requests] == [1, 1, 2]
        assert [each.connection for each in two.requests] == [1, 1]


async def test_the_client_works_on_uvloop() -> None:
    async def scenario() -> list[int | None]:
        async with serving() as server, HttpClient(connections=2, keepalive_seconds=9) as client:
            url = server.url.replace("127.0.0.1", "localhost")
            statuses = [(await post(client, url)).status for _ in range(2)]
            server.answers = [closes(), OK, closes()]
            statuses.append((await get(client, url)).status)
            with pytest.raises(Disconnected):
                await post(client, url)
            assert server.connections == 2
            return statuses

    assert await asyncio.to_thread(uvloop.run, scenario()) == [200, 200, 200]
