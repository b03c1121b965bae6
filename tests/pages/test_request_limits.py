"""The request limits apply to every type of route."""

import asyncio
import itertools

import pytest

from manilla.kit import http
from tests.support.client import Site
from tests.support.limits import limited
from tests.support.rows import pairs
from tests.support.timeouts import TIMEOUT_SECONDS

ROUTES = [
    "/api/v1/initiate-payment",
    "/api/initiate-payment",
    "/api/openapi.json",
    "/webhooks/a",
    "/checkout/TXN1/choose",
    "/dashboard/sign-in",
    "/dashboard/payouts/bulk",
    "/console/sign-in",
    "/shop",
    "/docs",
    "/static/none.css",
    "/readyz",
    "/nothing-here",
]
FRAMINGS = ["Content-Length: 900", "Transfer-Encoding: chunked"]
SENT = list(itertools.product(["GET", "POST"], FRAMINGS))


async def _until_closed(site: Site, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(request)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(("path", "sent"), pairs(ROUTES, SENT))
async def test_a_body_that_does_not_arrive_closes_the_connection(
    site: Site, path: str, sent: tuple[str, str]
) -> None:
    method, framing = sent
    form = "Content-Type: application/x-www-form-urlencoded"
    start = "a" if "Length" in framing else "1\r\na"
    request = f"{method} {path} HTTP/1.1\r\nHost: m\r\n{form}\r\n{framing}\r\n\r\n{start}"
    many = [_until_closed(site, request.encode()) for _ in range(5)]
    with limited(body_seconds=0.05):
        answers = await asyncio.gather(*many)
    for answer in answers:
        assert answer.startswith(b"HTTP/1.1 ")
        assert answer.count(b"HTTP/1.1 ") == 1
        assert b" 500 " not in answer.split(b"\r\n")[0]


@pytest.mark.parametrize("hosts", [[], ["a", "a"], ["a", "b"]])
@pytest.mark.parametrize("path", ["/", "/api/v1/site-info", "/webhooks/a"])
async def test_a_request_without_exactly_one_host_is_rejected(
    site: Site, path: str, hosts: list[str]
) -> None:
    lines = [f"GET {path} HTTP/1.1", *(f"Host: {host}" for host in hosts), "Connection: close"]
    reply = await site.send_raw("\r\n".join([*lines, "", ""]).encode())
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert "Host" in reply.json["error"]
    valid = await site.send("GET", "/api/v1/site-info")
    for name, value in http.JSON_HEADERS:
        sent = reply.headers[name.decode()], valid.headers[name.decode()]
        assert sent == (value.decode(), value.decode())
    assert reply.headers["x-request-id"]


@pytest.mark.parametrize("path", ["/", "/docs", "/dashboard/sign-in", "/console/sign-in", "/none"])
async def test_pages_do_not_allow_other_sites_to_use_their_resources(site: Site, path: str) -> None:
    headers = (await site.send("GET", path)).headers
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "camera=()" in headers["permissions-policy"]


async def test_api_responses_cannot_be_embedded_by_other_sites(site: Site) -> None:
    for path in ("/api/v1/site-info", "/api/openapi.json", "/webhooks/a"):
        headers = (await site.send("GET", path)).headers
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
