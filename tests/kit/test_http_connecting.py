"""How the HTTP client connects: names, addresses and TLS. If connecting fails, nothing is sent."""

import asyncio
import errno
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from manilla.kit import outbound
from manilla.kit.http_client import connecting
from manilla.kit.http_client.client import HttpClient
from manilla.kit.http_client.connecting import NAME_CACHE_SECONDS
from manilla.kit.http_client.errors import (
    AddressRefused,
    CertificateRejected,
    ConnectTimeout,
    Disconnected,
    HttpError,
    InvalidUrl,
    NotConnected,
    UnknownHost,
)
from manilla.providers import wire
from tests.kit.http_server import RawServer, serving
from tests.support import clock
from tests.support.certificates import Certificate

Resolve = Callable[[list[str]], list[str]]


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with serving() as server:
        yield server


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Resolve:
    """Makes every name resolve to these addresses. Returns the list of resolved names."""

    def resolve(addresses: list[str]) -> list[str]:
        asked: list[str] = []

        def getaddrinfo(host: str, port: int, **_more: Any) -> list[Any]:
            asked.append(host)
            return [
                (socket.AF_INET6, 1, 6, "", (each, port, 0, 0))
                if ":" in each
                else (socket.AF_INET, 1, 6, "", (each, port))
                for each in addresses
            ]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        return asked

    return resolve


async def post(url: str, **options: Any) -> int | None:
    async with HttpClient(connections=4, keepalive_seconds=60, **options) as client:
        return await post_with(client, url)


async def post_with(client: HttpClient, url: str) -> int | None:
    async with asyncio.timeout(30):
        return (await client.request("POST", url, body=b"{}", body_max=100)).status


async def failure(url: str, **options: Any) -> HttpError:
    with pytest.raises(HttpError) as raised:
        await post(url, **options)
    return raised.value


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


# Names and addresses.


async def test_an_unknown_host_has_its_own_error() -> None:
    error = await failure("http://no-such-name.invalid/")
    assert type(error) is UnknownHost
    assert error.host == "no-such-name.invalid"
    assert (outbound.describe(error), outbound.is_not_reached(error)) == (
        outbound.NOT_REACHED,
        True,
    )
    unknown = wire._failed(error)
    assert unknown.never_sent
    assert unknown.reason == "connection failed: the host name no-such-name.invalid is not known"


async def test_a_refused_connection_has_its_system_error() -> None:
    error = await failure(f"http://127.0.0.1:{unused_port()}/")
    assert type(error) is NotConnected
    assert error.cause.errno == errno.ECONNREFUSED
    assert outbound.describe(error) == "Connection refused"
    assert not outbound.is_not_reached(error)
    assert wire._failed(error).never_sent


async def test_a_connection_closed_at_once_may_have_got_the_request() -> None:
    async def close(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    running = await asyncio.start_server(close, "127.0.0.1", 0)
    error = await failure(f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}/")
    running.close()
    assert type(error) is Disconnected
    assert not wire._failed(error).never_sent


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0177.0.0.1", "127.0.0.01", "1.2.3.4.5"])
async def test_an_address_in_another_notation_is_rejected(host: str) -> None:
    error = await failure(f"http://{host}:{unused_port()}/")
    assert type(error) is InvalidUrl
    assert outbound.describe(error) == f"{host} - is not a canonical IPv4 address"


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "localhost"])
async def test_a_private_address_is_refused(server: RawServer, host: str) -> None:
    error = await failure(f"http://{host}:{server.port}/", is_public_only=True)
    assert type(error) is AddressRefused
    assert (outbound.describe(error), outbound.is_not_reached(error)) == (
        outbound.NOT_REACHED,
        True,
    )
    assert server.connections == 0


async def test_an_address_is_checked_whenever_a_connection_is_opened(
    server: RawServer, resolve: Resolve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host name can resolve to a public address first, and to a private address later."""
    asked = resolve(["127.0.0.1"])
    verdicts = iter([True, False, True])
    monkeypatch.setattr(outbound, "is_public", lambda _address: next(verdicts))
    url = f"http://shop.example:{server.port}/"
    async with HttpClient(connections=1, keepalive_seconds=60, is_public_only=True) as client:
        assert await post_with(client, url) == 200
        [writer] = server.open
        writer.close()
        await asyncio.sleep(0.05)
        with pytest.raises(AddressRefused):
            await post_with(client, url)
        assert await post_with(client, url) == 200
    # The client does not cache the addresses of merchants' host names.
    assert asked == ["shop.example"] * 3
    assert len(server.requests) == 2


async def test_no_private_address_among_several_is_connected_to(
    server: RawServer, resolve: Resolve
) -> None:
    resolve(["127.0.0.1", "::1", "10.0.0.1"])
    error = await failure(f"http://shop.example:{server.port}/", is_public_only=True)
    assert type(error) is AddressRefused
    assert server.connections == 0


async def test_the_names_of_providers_are_cached_for_seconds(
    server: RawServer, resolve: Resolve
) -> None:
    asked = resolve(["127.0.0.1"])
    url = f"http://provider.example:{server.port}/"
    async with HttpClient(connections=8, keepalive_seconds=0) as client:
        await asyncio.gather(*(post_with(client, url) for _ in range(8)))
        assert asked == ["provider.example"]
        clock.advance(NAME_CACHE_SECONDS)
        await post_with(client, url)
        assert asked == ["provider.example"] * 2


async def test_a_failed_lookup_is_not_cached(
    server: RawServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"http://provider.invalid:{server.port}/"
    async with HttpClient(connections=2, keepalive_seconds=0) as client:
        with pytest.raises(UnknownHost):
            await post_with(client, url)
        found = [(socket.AF_INET, 1, 6, "", ("127.0.0.1", server.port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert await post_with(client, url) == 200


async def test_a_cancelled_call_does_not_end_a_lookup_that_others_wait_for(
    server: RawServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answer = threading.Event(), threading.Event()

    def getaddrinfo(_host: str, port: int, **_more: Any) -> list[Any]:
        asked.set()
        answer.wait(30)
        return [(socket.AF_INET, 1, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    url = f"http://provider.example:{server.port}/"
    async with HttpClient(connections=2, keepalive_seconds=0) as client:
        first, second = (asyncio.create_task(post_with(client, url)) for _ in range(2))
        await asyncio.to_thread(asked.wait, 30)
        first.cancel()
        await asyncio.sleep(0)
        answer.set()
        assert await second == 200


# Several addresses.


async def test_the_next_address_is_tried_after_a_failure(
    server: RawServer, resolve: Resolve
) -> None:
    resolve(["::1", "127.9.9.9", "127.0.0.1"])
    async with asyncio.timeout(30):
        assert await post(f"http://provider.example:{server.port}/") == 200


async def test_the_next_address_is_tried_if_the_first_is_silent(
    server: RawServer, resolve: Resolve, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve(["127.0.0.2", "127.0.0.1"])
    loop = asyncio.get_running_loop()
    connect, tried, ended = loop.sock_connect, [], asyncio.Event()

    async def sock_connect(sock: socket.socket, address: Any) -> None:
        tried.append(address[0])
        if address[0] == "127.0.0.2":
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()
                assert sock.fileno() != -1
        await connect(sock, address)

    monkeypatch.setattr(loop, "sock_connect", sock_connect)
    assert await post(f"http://provider.example:{server.port}/") == 200
    assert tried == ["127.0.0.2", "127.0.0.1"]
    await asyncio.wait_for(ended.wait(), 30)


async def test_the_address_families_alternate() -> None:
    v4, v6 = socket.AF_INET, socket.AF_INET6
    found: list[Any] = [(v6, 1), (v6, 2), (v6, 3), (v4, 1)]
    assert connecting._alternate(found) == [(v6, 1), (v4, 1), (v6, 2), (v6, 3)]


async def test_if_no_address_accepts_the_last_error_is_raised(resolve: Resolve) -> None:
    resolve(["127.0.0.1", "127.0.0.2"])
    error = await failure(f"http://provider.example:{unused_port()}/")
    assert type(error) is NotConnected
    assert outbound.describe(error) == "Connection refused"


async def test_a_silent_server_is_a_connect_timeout(
    resolve: Resolve, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve(["127.0.0.2", "127.0.0.1"])
    loop = asyncio.get_running_loop()

    async def sock_connect(_sock: socket.socket, _address: Any) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(loop, "sock_connect", sock_connect)
    error = await failure("http://provider.example/", connect_seconds=0.1)
    assert type(error) is ConnectTimeout
    assert outbound.describe(error) == "the host did not accept the connection in time"
    assert wire._failed(error).never_sent


async def test_a_time_limit_of_the_caller_is_not_a_connect_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()

    async def sock_connect(_sock: socket.socket, _address: Any) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(loop, "sock_connect", sock_connect)
    async with HttpClient(connections=1, keepalive_seconds=1, connect_seconds=50) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.request("POST", "http://127.0.0.1/", body_max=9)


async def test_a_system_timeout_of_the_connection_is_a_system_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def sock_connect(_sock: socket.socket, _address: Any) -> None:
        raise TimeoutError(errno.ETIMEDOUT, "late")

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", sock_connect)
    error = await failure("http://127.0.0.1/", connect_seconds=30)
    assert type(error) is NotConnected
    assert outbound.describe(error) == "Connection timed out"


async def test_ipv6_addresses_are_called() -> None:
    async with serving("::1") as server:
        url = f"http://[0:0::1]:{server.port}/"
        assert await post(url) == 200
        assert server.requests[0].header("Host") == f"[::1]:{server.port}"


# TLS.


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return Certificate(tmp_path)


async def test_tls_with_a_trusted_certificate_sends_the_host_name(
    certificate: Certificate, resolve: Resolve, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve(["127.0.0.1"])
    names: list[str | None] = []
    tls = certificate.of_server()
    tls.set_alpn_protocols(["h2", "http/1.1"])
    tls.sni_callback = lambda _socket, name, _context: names.append(name)
    trusted = certificate.of_client()
    monkeypatch.setattr(connecting, "tls_context", lambda: trusted)
    async with serving(tls=tls) as server:
        url = f"https://LOCALHOST.:{server.port}/"
        async with HttpClient(connections=1, keepalive_seconds=60) as client:
            assert [await post_with(client, url) for _ in range(2)] == [200, 200]
    assert names == ["localhost"]
    assert {each.connection for each in server.requests} == {1}


async def test_a_certificate_that_nobody_vouches_for_is_rejected(certificate: Certificate) -> None:
    async with serving(tls=certificate.of_server()) as server:
        error = await failure(f"https://localhost:{server.port}/")
        assert type(error) is CertificateRejected
        assert isinstance(error.cause, ssl.SSLCertVerificationError)
        assert outbound.describe(error).startswith(
            "the TLS certificate was rejected: [SSL: CERTIFICATE_VERIFY_FAILED] "
            "certificate verify failed: self-signed certificate"
        )
        assert wire._failed(error).never_sent
        assert server.requests == []


async def test_a_certificate_of_another_host_is_rejected(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusted = certificate.of_client()
    monkeypatch.setattr(connecting, "tls_context", lambda: trusted)
    async with serving(tls=certificate.of_server()) as server:
        error = await failure(f"https://127.0.0.1:{server.port}/")
        assert type(error) is CertificateRejected
        assert "IP address mismatch" in outbound.describe(error)
        assert server.requests == []


async def test_a_server_without_tls_is_not_sent_anything(server: RawServer) -> None:
    error = await failure(f"https://localhost:{server.port}/", connect_seconds=0.2)
    assert isinstance(error, NotConnected)
    assert server.requests == []


def test_the_tls_context_verifies_certificates_and_host_names() -> None:
    context = connecting.tls_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
