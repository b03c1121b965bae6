"""Uploads to URLs from a provider's response, which must never reach our own network."""

import asyncio
import socket

import pytest

from manilla.kit.http_client.client import HttpClient
from manilla.providers import uploads
from manilla.providers.port import EvidenceFile, Unknown
from manilla.providers.replies import read_flag
from manilla.providers.wire import ProviderApi
from tests.providers.scripted import Scripted, hang
from tests.support import limits

FILE = EvidenceFile("a.pdf", "application/pdf", b"%PDF-1.7")
LIVE = "https://api.paystack.co"


def api_at(client: HttpClient, base_url: str) -> ProviderApi:
    return ProviderApi(client, base_url, read_flag, asyncio.Semaphore(1))


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch, server: Scripted) -> list[str]:
    """Makes every host name resolve to the scripted server's address, as a DNS record can."""
    names: list[str] = []

    def resolve(host: str, port: int, *_: object, **__: object) -> list[object]:
        names.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return names


@pytest.mark.parametrize(
    "url",
    [
        "http://files.example/a",
        "https://127.0.0.1/a",
        "https://localhost/a",
        "https://127.1/a",
        "https://0x7f000001/a",
        "https://[::1]/a",
        "https://[::ffff:10.0.0.1]/a",
        "https://169.254.169.254/latest/meta-data",
        "https://10.0.0.1/a",
        "https://user@files.example/a",
        "https://user:password@files.example/a",
        "https://files.example\\@127.0.0.1/a",
        "https://files.example /a",
        "ftp://files.example/a",
        "file:///etc/passwd",
        "//files.example/a",
        "files.example/a",
        "",
        "https://files.example/" + "a" * 5000,
        "https://",
        "https://files.example:0/a",
        "https://files.example:99999/a",
        "https://f\u00efles.example/a",
        # the host of the API URL, without its TLS or at another port
        "http://api.paystack.co/a",
    ],
)
async def test_only_public_https_urls_are_called(
    client: HttpClient, resolved: list[str], server: Scripted, url: str
) -> None:
    problem = await uploads.put(api_at(client, LIVE), url, FILE)
    assert problem == Unknown("the URL for the upload is not a public https URL", needs_lookup=True)
    assert not resolved
    assert not server.recorded


async def test_a_name_with_a_private_address_is_not_called(
    client: HttpClient, resolved: list[str], server: Scripted
) -> None:
    problem = await uploads.put(api_at(client, LIVE), "https://files.example/a", FILE)
    assert resolved == ["files.example"]
    assert isinstance(problem, Unknown)
    assert "not a public address" in problem.reason
    assert not server.recorded


async def test_the_host_of_the_api_url_is_called(client: HttpClient, server: Scripted) -> None:
    server.answers(200, b"")
    own = api_at(client, f"{server.url}/paystack")
    assert await uploads.put(own, f"{server.url}/uploads/a?signature=b", FILE) is None
    assert server.recorded[0].method == "PUT"
    assert server.recorded[0].headers["content-length"] == "8"


async def test_another_port_of_the_api_host_is_not_called(
    client: HttpClient, server: Scripted
) -> None:
    own = api_at(client, f"http://127.0.0.1:{server.port + 1}")
    assert isinstance(await uploads.put(own, f"{server.url}/uploads/a", FILE), Unknown)
    assert not server.recorded


@pytest.mark.parametrize("status", [301, 302, 307, 400, 403, 404, 500, 503])
async def test_only_a_success_has_stored_the_file(
    client: HttpClient, server: Scripted, status: int
) -> None:
    server.answers(status, b"<Error/>")
    problem = await uploads.put(api_at(client, server.url), f"{server.url}/a", FILE)
    assert problem == Unknown(f"the file was not uploaded: HTTP {status}")
    assert len(server.recorded) == 1


async def test_an_upload_has_a_deadline(client: HttpClient, server: Scripted) -> None:
    server.behaviour = hang
    with limits.limited(provider_upload_seconds=limits.CALL_SECONDS):
        problem = await uploads.put(api_at(client, server.url), f"{server.url}/a", FILE)
    assert problem == Unknown("the file was not uploaded: no answer in time")


async def test_a_signed_url_is_never_reported(client: HttpClient, server: Scripted) -> None:
    server.behaviour = hang
    unused = socket.create_server(("127.0.0.1", 0))
    port = unused.getsockname()[1]
    unused.close()
    own = api_at(client, f"http://127.0.0.1:{port}")
    problem = await uploads.put(own, f"http://127.0.0.1:{port}/a?signature=s3cret", FILE)
    assert isinstance(problem, Unknown)
    assert "s3cret" not in problem.reason


def test_a_large_file_or_an_odd_type_is_not_sent() -> None:
    large = EvidenceFile("a.pdf", "application/pdf", b"x" * (uploads.FILE_BYTES_MAX + 1))
    odd = EvidenceFile("a.pdf", "image/png\r\nAuthorization: x", b"x")
    for file in (large, odd):
        problem = uploads.problem_of(file)
        assert problem is not None
        assert problem.never_sent
    assert uploads.problem_of(FILE) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("receipt.pdf", "receipt.pdf"),
        ("../../etc/passwd", "etc-passwd"),
        ('a"\r\nX: y.png', "a-X-y.png"),
        ("\u00e9\u00e8", "evidence"),
        ("", "evidence"),
        ("x" * 200 + ".pdf", "x" * 76 + ".pdf"),
    ],
)
def test_a_file_name_has_only_plain_characters(name: str, expected: str) -> None:
    assert uploads.safe_name(EvidenceFile(name, "application/pdf", b"")) == expected
