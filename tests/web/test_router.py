"""How the router finds a URL's handler, parses requests and writes responses."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from manilla.checkout.request import prefers_json
from manilla.kit.errors import Refusal, Unavailable
from manilla.kit.http import BodyTooLarge
from manilla.web.form_body import read_parts
from manilla.web.forms import UploadedFile
from manilla.web.serving.request import WebRequest, parse_cookies
from manilla.web.serving.response import PageResponse, SetCookie, StreamedResponse
from manilla.web.serving.router import MethodNotSupported, PageRouter, UrlHandler

Message = dict[str, Any]


class Answer(msgspec.Struct, frozen=True):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Client:
    """Calls an ASGI application. `sent` contains the parts of the request body."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(
        self,
        method: str,
        path: str,
        headers: Sequence[tuple[str, str]] = (),
        sent: Sequence[bytes] = (b"",),
        *,
        query: bytes = b"",
    ) -> Answer | None:
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query,
            "headers": [(name.encode(), value.encode()) for name, value in headers],
            "client": ("192.0.2.1", 1),
        }
        parts = [
            {"type": "http.request", "body": part, "more_body": place < len(sent) - 1}
            for place, part in enumerate(sent)
        ]
        messages: list[Message] = []

        async def receive() -> Message:
            return parts.pop(0) if parts else {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            messages.append(message)

        await self._app(scope, receive, send)
        if not messages:
            return None
        start, *rest = messages
        return Answer(start["status"], start["headers"], b"".join(m["body"] for m in rest))


def on_error(_request: WebRequest, error: Exception) -> PageResponse:
    if isinstance(error, MethodNotSupported):
        return PageResponse.json("", 405, headers={"Allow": error.allowed})
    if isinstance(error, Refusal):
        return PageResponse.json(error.code, error.status)
    return PageResponse.json(type(error).__name__, 413 if isinstance(error, BodyTooLarge) else 500)


def shows(name: str) -> Any:
    async def respond(request: WebRequest) -> PageResponse:
        return PageResponse.json([name, request.path, request.parameters])

    return respond


async def size(request: WebRequest) -> PageResponse:
    return PageResponse.json(len(await request.body()))


async def overloaded(_request: WebRequest) -> PageResponse:
    raise Unavailable


async def invalid_header(_request: WebRequest) -> PageResponse:
    return PageResponse.redirect("/\u20a6")


PATHS = ("/", "/docs/", "/docs/search", "/docs/{name:str}", "/{realm:str}/team/{person:int}/role")
FILES = ("/files/{name:path}", "/files/web/{version:str}/{name:path}")


@pytest.fixture
def client() -> Client:
    handlers = [UrlHandler("GET", path, shows(path)) for path in (*PATHS, *FILES)]
    own = UrlHandler("POST", "/own", overloaded, on_error=lambda *_: PageResponse.html("own", 409))
    handlers += [
        UrlHandler("POST", "/docs/search", shows("post")),
        UrlHandler("POST", "/small", size, 10),
        UrlHandler("GET", "/overloaded", overloaded),
        UrlHandler("GET", "/invalid", invalid_header),
        own,
    ]
    return Client(PageRouter(handlers, on_error))


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/", ["/", "/", {}]),
        ("//", ["/", "/", {}]),
        ("/docs", ["/docs/", "/docs", {}]),
        ("//docs//", ["/docs/", "/docs", {}]),
        ("/docs/search", ["/docs/search", "/docs/search", {}]),
        ("/docs/\u00e9/", ["/docs/{name:str}", "/docs/\u00e9", {"name": "\u00e9"}]),
        ("/a/team/+5/role", [PATHS[4], "/a/team/+5/role", {"realm": "a", "person": 5}]),
        ("/a/team/x/role", None),
        ("/a/team/5", None),
        # The router prefers a literal segment, even if no complete path then matches.
        ("/docs/team/5/role", None),
        ("/files", None),
        ("/files/a/../b", [FILES[0], "/files/a/../b", {"name": "a/../b"}]),
        ("/files/web", None),
        ("/files/web/1/a/b", [FILES[1], "/files/web/1/a/b", {"version": "1", "name": "a/b"}]),
    ],
)
async def test_a_path_finds_its_handler(client: Client, path: str, found: Any) -> None:
    reply = await client("GET", path)
    assert reply is not None
    assert (reply.status, msgspec.json.decode(reply.body)) == (
        (404, "NOT_FOUND") if found is None else (200, found)
    )


async def test_other_methods_are_rejected_and_listed(client: Client) -> None:
    for path, allowed in (("/", b"GET, OPTIONS"), ("/docs/search", b"GET, OPTIONS, POST")):
        for method in ("PUT", "TRACE"):
            refused = await client(method, path)
            assert refused is not None
            assert (refused.status, refused.headers[0]) == (405, (b"allow", allowed))
        options = await client("OPTIONS", path)
        assert options == Answer(204, [(b"allow", allowed)], b"")


@pytest.mark.parametrize(
    ("host", "status"), [("shop.example:80", 200), ("[::1]", 200), ("a/b", 400), ("a b", 400)]
)
async def test_an_invalid_host_is_rejected(client: Client, host: str, status: int) -> None:
    reply = await client("GET", "/", [("host", host)])
    assert reply is not None
    assert reply.status == status


@pytest.mark.parametrize(
    ("headers", "sent", "status"),
    [
        ([], [b"12345", b"67890"], 200),
        ([], [b"12345", b"678901"], 413),
        # The server rejects the request before it reads the body.
        ([("content-length", "11")], [b""], 413),
    ],
)
async def test_a_body_has_a_maximum_size(
    client: Client, headers: list[tuple[str, str]], sent: list[bytes], status: int
) -> None:
    reply = await client("POST", "/small", headers, sent)
    assert reply is not None
    assert reply.status == status


async def test_a_client_that_disconnects_gets_no_response(client: Client) -> None:
    assert await client("POST", "/small", sent=()) is None


async def test_a_handlers_errors_become_responses(client: Client) -> None:
    replies = {path: await client("GET", path) for path in ("/overloaded", "/invalid")}
    assert {path: reply and reply.status for path, reply in replies.items()} == {
        "/overloaded": 503,
        "/invalid": 500,
    }
    own = await client("POST", "/own")
    assert own is not None
    assert (own.status, own.body) == (409, b"own")


def test_a_cookies_attributes() -> None:
    name, plain = SetCookie("a", "b", 60, "/console", is_secure=False).header()
    assert (name, plain) == (
        b"set-cookie",
        b"a=b; HttpOnly; Max-Age=60; Path=/console; SameSite=lax",
    )
    secure = SetCookie("__Secure-a", "b=", 0, "/", is_secure=True).header()[1]
    assert secure == b'__Secure-a="b="; HttpOnly; Max-Age=0; Path=/; SameSite=lax; Secure'


def test_a_malformed_cookie_affects_no_other() -> None:
    assert parse_cookies('x; a=1;b="c="; d e="{"; =; a=2') == {
        "a": "2",
        "b": "c=",
        "d e": "{",
        "": "",
    }


def test_the_first_of_repeated_headers_and_parameters_is_read() -> None:
    scope = {
        "method": "GET",
        "path": "/",
        "query_string": b"a=1&b=%C3%A9&a=2&c",
        "headers": [(b"accept", b"x"), (b"accept", b"y")],
    }
    request = WebRequest(scope, None)
    assert request.headers == {"accept": "x"}
    assert request.query == {"a": "1", "b": "\u00e9", "c": ""}
    assert request.query_pairs == [("a", "1"), ("b", "\u00e9"), ("a", "2"), ("c", "")]
    assert request.peer == ""


async def test_a_form_is_read_by_its_media_type() -> None:
    border = b"--b\r\nContent-Disposition: form-data; name="
    parts = border + b'"f"; filename="x"\r\n\r\n\xff\r\n' + border + b'"a"\r\n\r\n1\r\n--b--\r\n'
    found = []

    async def read(request: WebRequest) -> PageResponse:
        found.append(await read_parts(request))
        return PageResponse.empty(204)

    call = Client(PageRouter([UrlHandler("POST", "/", read)], on_error))
    await call("POST", "/", [("content-type", "Multipart/Form-Data; boundary=b")], [parts])
    await call("POST", "/", [("content-type", "application/x-www-form-urlencoded")], [b"a=1&a=+"])
    await call("POST", "/", [("content-type", "text/plain")], [b"a=1"])
    assert found == [[("f", UploadedFile("x", b"\xff")), ("a", "1")], [("a", "1"), ("a", " ")], []]


@pytest.mark.parametrize(
    ("accept", "is_json"),
    [
        (None, False),
        ("*/*", False),
        ("text/html, application/json", False),
        ("application/json", True),
        ("application/json;q=0.5, text/*;q=0.7", False),
        ("*/*;q=0.1, application/json", True),
        ("application/*, text/html;q=0.9", True),
        ("image/png", False),
    ],
)
def test_json_is_sent_if_it_is_preferred(accept: str | None, is_json: bool) -> None:
    assert prefers_json(accept) is is_json


async def _chunks(ended: list[str]) -> AsyncGenerator[bytes, None]:
    try:
        for number in range(1000):
            yield b"%d," % number
    finally:
        ended.append("closed")


async def test_a_stream_ends_when_the_client_disconnects() -> None:
    ended: list[str] = []
    response = StreamedResponse(_chunks(ended), media_type="text/csv", headers={})
    await response.begin()
    gone, sent = asyncio.Event(), []

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message["body"])
        if len(sent) == 3:
            gone.set()
        await asyncio.sleep(0)

    await response.send_body(receive, send)
    assert sent[:3] == [b"0,", b"1,", b"2,"]
    assert len(sent) < 1000
    assert ended == ["closed"]


async def test_a_stream_is_sent_to_its_end() -> None:
    async def numbers() -> AsyncIterator[bytes]:
        yield b"1"
        yield b"2"

    async def respond(_request: WebRequest) -> PageResponse:
        response = StreamedResponse(numbers(), media_type="text/csv", headers={})  # type: ignore[arg-type]
        await response.begin()
        return response

    async def receive() -> Message:
        await asyncio.Event().wait()
        return {}

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"method": "GET", "path": "/", "query_string": b"", "headers": []}
    await PageRouter([UrlHandler("GET", "/", respond)], on_error)(scope, receive, send)
    assert sent[0]["headers"] == [(b"content-type", b"text/csv; charset=utf-8")]
    assert [message["body"] for message in sent[1:]] == [b"1", b"2", b""]
    assert [message.get("more_body") for message in sent[1:]] == [True, True, None]
