"""The exact error for every type of invalid request, and the size limits of requests."""

import asyncio
import contextlib
import gc
import gzip
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
import pytest

from manilla.api.endpoint import Call, Endpoint
from manilla.api.fields import Amount
from manilla.api.kernel import MerchantApi
from manilla.kit.errors import Refusal, Unavailable
from manilla.kit.server.direct import HttpRequest
from manilla.kit.server.request_queue import RequestQueue
from manilla.services import Services
from tests.conftest import serving
from tests.support.client import Merchant, Site
from tests.support.limits import limited
from tests.support.timeouts import TIMEOUT_SECONDS
from tests.support.waiting import until_true

PATH = "/api/v1/site-info"


class Order(msgspec.Struct):
    amount: Amount
    reference: Annotated[str, msgspec.Meta(max_length=5)]
    tags: list[str] = []
    note: str | None = None


class Filter(msgspec.Struct):
    currency: Annotated[str, msgspec.Meta(min_length=3, max_length=3)]


class Echo(msgspec.Struct):
    amount: Any = None
    reference: str | None = None
    parameter: str | None = None
    currency: str | None = None
    tags: list[str] = []


class LowBalance(Refusal):
    status, code = 422, "insufficient_balance"
    message = "Not enough."


async def _order(call: Call) -> Echo:
    return Echo(amount=call.body.amount, reference=call.body.reference, tags=call.body.tags)


async def _look(call: Call) -> Echo:
    return Echo(parameter=call.parameter, currency=call.query.currency)


async def _fail(call: Call) -> Echo:
    kinds: dict[str, Exception] = {
        "crash": ZeroDivisionError("the inside"),
        "refusal": LowBalance(details={"trx_id": "TXN1"}),
        "away": Unavailable(),
    }
    raise kinds[call.parameter]


@pytest.fixture(scope="module")
async def probe(services: Services) -> AsyncIterator[Site]:
    """Uses the API's request code to serve test endpoints that accept every type of parameter."""

    def endpoint(method: str, path: str, use_case: Any, **more: Any) -> Endpoint:
        return Endpoint(
            method=method,
            path=path,
            summary="",
            description="",
            right=None,
            answers=(Echo,),
            use_case=use_case,
            **more,
        )

    endpoints = [
        endpoint("POST", "/api/v1/order", _order, body=Order),
        endpoint("GET", "/api/v1/order", _look, query=Filter),
        endpoint("GET", "/api/v1/look/{id}", _look, query=Filter),
        endpoint("GET", "/api/v1/look/{id}/again", _look, query=Filter),
        endpoint("GET", "/api/v1/fail/{how}", _fail),
    ]
    async with serving(MerchantApi(services, endpoints)) as port:
        yield Site(port)


@pytest.fixture
def caller(merchant: Merchant, probe: Site) -> Merchant:
    return msgspec.structs.replace(merchant, site=probe.from_new_ip())


async def test_exact_amounts_and_defaults_reach_the_handler(caller: Merchant) -> None:
    reply = await caller.post(
        "/api/v1/order", b'{"amount": 90071992547409.93, "reference": "a", "unknown": {}}'
    )
    assert reply.status == 200
    assert b'"amount":90071992547409.93' in reply.body


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b'{"amount": 1}', {"reference"}),
        (b"{}", {"amount", "reference"}),
        (b'{"amount": "1", "reference": 5, "tags": "x", "note": 1}', "amount reference tags note"),
        (b'{"amount": true, "reference": "toolong"}', {"amount", "reference"}),
        (b'{"amount": null, "reference": null}', {"amount", "reference"}),
        (b'{"amount": 1, "reference": "a\\u0000b"}', {"reference"}),
        (b'{"amount": 1, "reference": "\\ud800"}', {"reference"}),
        (b'{"amount": 1, "reference": "a", "tags": ["ok", "\\u0000"]}', {"tags"}),
    ],
)
async def test_all_invalid_fields_are_reported_together(
    caller: Merchant, body: bytes, fields: set[str] | str
) -> None:
    reply = await caller.post("/api/v1/order", body)
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert set(reply.json["errors"]) == set(fields.split() if isinstance(fields, str) else fields)


@pytest.mark.parametrize("amount", [b'"5"', b"[]", b"{}", b'"NaN"', b"null", b"false"])
async def test_an_invalid_amount_alone_has_its_own_error_code(
    caller: Merchant, amount: bytes
) -> None:
    reply = await caller.post("/api/v1/order", b'{"amount": %b, "reference": "a"}' % amount)
    assert (reply.status, reply.code) == (400, "INVALID_AMOUNT")
    assert list(reply.json["errors"]) == ["amount"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[]",
        b'"text"',
        b"null",
        b'{"amount": NaN, "reference": "a"}',
        b'{"amount": Infinity, "reference": "a"}',
        b'{"amount": 1, "amount": 2, "reference": "a"}',
        b'{"amount": 1, "reference": "\xff"}',
        b'{"amount": 1, "reference": "a"} trailing',
        gzip.compress(b'{"amount": 1, "reference": "a"}', mtime=0),
        b'{"a":' * 17 + b"1" + b"}" * 17,
    ],
)
async def test_a_body_that_is_not_a_json_object_is_rejected(caller: Merchant, body: bytes) -> None:
    reply = await caller.post("/api/v1/order", body)
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert reply.json["error"]


async def test_a_compressed_body_is_rejected(caller: Merchant) -> None:
    body = b'{"amount": 1, "reference": "a"}'
    headers = {**caller.headers("POST", "/api/v1/order", body), "Content-Encoding": "gzip"}
    reply = await caller.site.send("POST", "/api/v1/order", headers, body)
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")


async def test_a_large_exponent_reaches_the_handler_unexpanded(caller: Merchant) -> None:
    reply = await caller.post("/api/v1/order", b'{"amount": 1e400, "reference": "a"}')
    assert b'"amount":1E+400' in reply.body


def padded(size: int) -> bytes:
    body = b'{"amount": 1, "reference": "a", "pad": ""}'
    return body.replace(b'""', b'"' + b"x" * (size - len(body)) + b'"')


async def test_a_body_of_64_kib_is_accepted_and_one_byte_more_is_not(caller: Merchant) -> None:
    assert (await caller.post("/api/v1/order", padded(64 * 1024))).status == 200
    reply = await caller.post("/api/v1/order", padded(64 * 1024 + 1))
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")


async def test_an_endless_body_is_cut_off_while_reading(probe: Site) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", probe.port)
    head = b"POST /api/v1/order HTTP/1.1\r\nHost: m\r\nTransfer-Encoding: chunked\r\n\r\n"
    writer.write(head)
    chunk = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    for _ in range(20):
        writer.write(chunk)
    await writer.drain()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        assert b" 400 " in await reader.readline()
    writer.close()


async def test_chunked_bodies_are_read_completely(caller: Merchant) -> None:
    body = b'{"amount": 1, "reference": "a"}'
    chunked = (
        b"5\r\n" + body[:5] + b"\r\n" + b"%x\r\n" % (len(body) - 5) + body[5:] + b"\r\n0\r\n\r\n"
    )
    headers = {**caller.headers("POST", "/api/v1/order", body), "Transfer-Encoding": "chunked"}
    assert (await caller.site.send("POST", "/api/v1/order", headers, chunked)).status == 200


async def test_query_parameters_are_validated_like_body_fields(caller: Merchant) -> None:
    assert (await caller.get("/api/v1/look/x?currency=NGN&more=1")).json["currency"] == "NGN"
    for target in ("", "?currency=N", "?currency=NGN&currency=USD", "?currency=%FF%FE%FF"):
        reply = await caller.get("/api/v1/order" + target)
        assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    repeated = await caller.get("/api/v1/order?currency=NGN&currency=NGN")
    assert list(repeated.json["errors"]) == ["currency"]


async def test_the_path_parameter_is_decoded_for_the_handler(caller: Merchant) -> None:
    for target in ("/api/v1/look/TXN%41%20b", "/api/v1/look/TXN%41%20b/again"):
        reply = await caller.get(f"{target}?currency=NGN")
        assert reply.json["parameter"] == "TXNA b"


@pytest.mark.parametrize(
    "target",
    ["/api/v1/nothing", "/api/", "/api/v2/order", "/api/v1/look/", "/api/v1/look/a/b"]
    + [
        "/api/v1/look//again",
        "/api/v1/look/{}/b",
        "/api/v1/order/",
        "/api/v1//order",
        "/api/v1/../v1/order",
    ],
)
async def test_an_unknown_path_is_not_found(probe: Site, target: str) -> None:
    reply = await probe.send("GET", target)
    assert (reply.status, reply.code) == (404, "NOT_FOUND")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])
async def test_a_wrong_method_returns_the_allowed_ones(probe: Site, method: str) -> None:
    reply = await probe.send(method, "/api/v1/order")
    assert (reply.status, reply.headers["allow"]) == (405, "get, post")
    if method != "HEAD":
        assert reply.code == "METHOD_NOT_ALLOWED"


async def test_a_crash_returns_500_with_a_request_id_and_no_details(
    caller: Merchant,
) -> None:
    reply = await caller.get("/api/v1/fail/crash")
    assert (reply.status, reply.code) == (500, "SERVER_ERROR")
    assert reply.headers["x-request-id"] in reply.json["error"]
    assert b"inside" not in reply.body
    assert b"ZeroDivision" not in reply.body


async def test_a_refusal_keeps_its_code_and_details(caller: Merchant) -> None:
    reply = await caller.get("/api/v1/fail/refusal")
    assert reply.status == 422
    assert reply.json == {
        "error": "Not enough.",
        "error_code": "insufficient_balance",
        "trx_id": "TXN1",
    }


async def test_an_unavailable_database_returns_503_with_retry_after(caller: Merchant) -> None:
    reply = await caller.get("/api/v1/fail/away")
    assert (reply.status, reply.code) == (503, "SERVICE_UNAVAILABLE")
    assert int(reply.headers["retry-after"]) >= 1


async def test_every_response_has_a_request_id_and_the_rate_limit(caller: Merchant) -> None:
    replies = [
        await caller.get("/api/v1/order?currency=NGN"),
        await caller.get("/api/v1/order"),
        await caller.get("/api/v1/order?currency=NGN", X_Signature="bad"),
        await caller.get("/api/v1/order?currency=NGN", X_Environment="mars"),
        await caller.get("/api/v1/nothing"),
        await caller.call("PUT", "/api/v1/order"),
        await caller.get("/api/v1/fail/crash"),
    ]
    assert len({reply.headers["x-request-id"] for reply in replies}) == len(replies)
    for reply in replies:
        assert reply.headers["content-type"] == "application/json"
        assert ";q=120;w=60" in reply.headers["ratelimit-policy"]
        assert ";r=1" in reply.headers["ratelimit"]


@pytest.mark.parametrize(
    "request_",
    [
        b"GARBAGE\r\n\r\n",
        b"GET /api/v1/order HTTP/1.1\r\nbad header\r\n\r\n",
        b"GET /api/v1/\xff HTTP/1.1\r\nHost: m\r\n\r\n",
        b"POST /api/v1/order HTTP/1.1\r\nHost: m\r\nContent-Length: -5\r\n\r\n",
        b"POST /api/v1/order HTTP/1.1\r\nHost: m\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        # Two lengths could end the request at different places in the proxy and in the API.
        b"POST /api/v1/order HTTP/1.1\r\nHost: m\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        # The API would take the compressed bytes for the body.
        b"POST /api/v1/order HTTP/1.1\r\nHost: m\r\n"
        b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST /api/v1/order HTTP/1.1\r\nHost: m\r\nTransfer-Encoding: gzip\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /api/v1/order HTTP/1.1\r\nHost: m\r\nX-Big: " + b"x" * 100_000 + b"\r\n\r\n",
        b"CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere:443\r\n\r\n",
        b"POST /api/v1/order HTTP/1.1\r\nHost: m\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
        b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    ],
)
async def test_malformed_http_is_rejected_in_the_same_format(probe: Site, request_: bytes) -> None:
    reply = await probe.send_raw(request_)
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")
    assert reply.headers["x-request-id"]


async def test_the_size_of_request_headers_is_limited_while_they_arrive(probe: Site) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", probe.port)
    writer.write(b"GET /api/v1/order HTTP/1.1\r\nX-Endless: ")
    for _ in range(10):
        writer.write(b"x" * 8192)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        assert b" 400 " in await reader.readline()
    writer.close()


@pytest.mark.parametrize(
    "request_",
    [
        b"",
        b"GET /api/v1/or",
        b"GET /api/v1/order HTTP/1.1\r\nHost: m\r\nX-Slow: a",
    ],
)
async def test_headers_that_do_not_arrive_time_out(probe: Site, request_: bytes) -> None:
    with limited(head_seconds=0.05):
        reader, writer = await asyncio.open_connection("127.0.0.1", probe.port)
        writer.write(request_)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize("sent", [b"", b"{"])
async def test_a_body_that_does_not_arrive_times_out(probe: Site, sent: bytes) -> None:
    head = b"POST /api/v1/order HTTP/1.1\r\nHost: m\r\nConnection: close\r\nContent-Length: 9"
    with limited(body_seconds=0.05):
        reply = await probe.send_raw(head + b"\r\n\r\n" + sent)
    assert (reply.status, reply.code) == (400, "VALIDATION_FAILED")


async def test_requests_can_share_a_connection(caller: Merchant) -> None:
    headers = caller.headers("GET", "/api/v1/look/a?currency=NGN")
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    request = f"GET /api/v1/look/a?currency=NGN HTTP/1.1\r\nHost: m\r\n{lines}\r\n".encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", caller.site.port)
    for _ in range(3):
        # The client pipelines the second request: it does not wait for the first response.
        writer.write(request * 2)
        for _ in range(2):
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in head
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            assert json.loads(await reader.readexactly(length))["parameter"] == "a"
    writer.close()


async def test_trailers_after_a_body_are_ignored(caller: Merchant) -> None:
    """Trailers arrive after a proxy has checked the headers, so the server ignores them."""
    target, body = "/api/v1/order", b'{"amount": 1, "reference": "a"}'
    headers = caller.headers("POST", target, body)
    signature = headers.pop("X-Signature")
    chunked = {**headers, "Connection": "close", "Transfer-Encoding": "chunked"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in chunked.items())
    head = f"POST {target} HTTP/1.1\r\nHost: m\r\n{lines}\r\n".encode()
    trailer = f"X-Signature: {signature}\r\n".encode()
    reply = await caller.site.send_raw(
        head + b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(body), body, trailer)
    )
    assert (reply.status, reply.json["errors"]) == (401, {"X-Signature": "The header is missing."})


async def test_an_error_later_on_the_connection_does_not_answer_an_earlier_request(
    caller: Merchant,
) -> None:
    headers = caller.headers("GET", "/api/v1/look/a?currency=NGN")
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    request = f"GET /api/v1/look/a?currency=NGN HTTP/1.1\r\nHost: m\r\n{lines}\r\n".encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", caller.site.port)
    writer.write(request + b"GARBAGE\r\n\r\n")
    async with asyncio.timeout(TIMEOUT_SECONDS):
        assert b"400" not in await reader.readline()
    writer.close()


async def test_a_protocol_upgrade_is_ignored(caller: Merchant) -> None:
    """Java's HTTP client offers an upgrade to h2c in its first request, even with a body."""
    target, body = "/api/v1/order", b'{"amount": 1, "reference": "a"}'
    reader, writer = await asyncio.open_connection("127.0.0.1", caller.site.port)

    async def answer() -> Any:
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head, head
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return json.loads(await reader.readexactly(length))

    def request(framing: str, sent: bytes) -> tuple[bytes, bytes]:
        headers = caller.headers("POST", target, body)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        offer = "Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AA\r\nUpgrade: h2c\r\n"
        head = f"POST {target} HTTP/1.1\r\nHost: m\r\n{offer}{lines}{framing}\r\n\r\n"
        return head.encode(), sent

    whole = request(f"Content-Length: {len(body)}", body)
    chunked = request("Transfer-Encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        for head, sent in (whole, chunked):
            writer.write(head + sent)
            assert (await answer())["reference"] == "a"
            # The client sends the headers first and the body later.
            for piece in (head[:40], head[40:], sent[:5], sent[5:]):
                writer.write(piece)
                await asyncio.sleep(0.02)
            assert (await answer())["reference"] == "a"
            writer.write((head + sent) * 2)  # two pipelined requests
            assert [(await answer())["reference"] for _ in range(2)] == ["a", "a"]
    writer.close()


async def test_a_full_queue_refuses_at_once_with_retry_after(
    caller: Merchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RequestQueue, "is_full", lambda *_: True)
    reply = await caller.post("/api/v1/order", b'{"amount": 1, "reference": "a"}')
    assert (reply.status, reply.code) == (503, "SERVICE_UNAVAILABLE")
    assert reply.headers["retry-after"] == "1"
    assert reply.headers["x-request-id"]
    assert "ratelimit-policy" in reply.headers
    monkeypatch.undo()
    reply = await caller.post("/api/v1/order", b'{"amount": 1, "reference": "a"}')
    assert reply.status == 200


@contextlib.asynccontextmanager
async def _requests_are_freed() -> AsyncIterator[None]:
    """Checks that requests are freed without the garbage collector.

    A body has up to 5 MB, and the garbage collector of a quiet process rarely runs.
    """

    def requests() -> int:
        return sum(type(each) is HttpRequest for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = requests()
        yield
        await until_true(lambda: requests() <= before)
    finally:
        gc.enable()


async def test_an_ended_request_is_freed_without_the_garbage_collector(caller: Merchant) -> None:
    async with _requests_are_freed():
        for target, body in (
            ("order", b'{"amount": 1, "reference": "a"}'),
            ("order", b"{}"),
            ("nothing", b""),
        ):
            await caller.post("/api/v1/" + target, body)
        for how in ("refusal", "away"):
            await caller.get("/api/v1/fail/" + how)
        await caller.get("/api/v1/order?currency=NGN", X_Signature="0" * 64)


async def test_a_rejected_webhook_is_freed_without_the_garbage_collector(site: Site) -> None:
    async with _requests_are_freed():
        for path in ("/webhooks/providera", "/webhooks/unknown"):
            reply = await site.send("POST", path, {}, b"{}")
            assert reply.status in (401, 404)
