"""The HTTP client sends requests to the same host, path and headers as aiohttp."""

import asyncio
import re
from itertools import product
from typing import Any

import aiohttp
import pytest
import yarl
from aiohttp import helpers
from hypothesis import given
from hypothesis import strategies as st

from manilla.kit.http_client import urls
from manilla.kit.http_client.client import HttpClient
from tests.kit.http_server import SentRequest, serving

AUTHORITIES = [
    *("example.com", "EXAMPLE.Com", "example.com.", "example.com..", "shop1", "a_b.example"),
    *("example.com:80", "example.com:443", "example.com:8080", "example.com:", "example.com.:81"),
    *("127.0.0.1", "127.1", "0x7f.1", "[::1]", "[2001:DB8::0:1]:8443", "[FE80::1%25eth0]"),
    *("bücher.example", "straße.example", "日本語。example", "i❤.example", "xn--bcher-kva.example"),
    *("u@h.example", "u:p@h.example", ":p@h.example", "u:@h.example", "@h.example"),
    *("u%40x:p%3a@h.example:81", "é:ü@h.example", "a@b@h.example"),
]
PATHS = [
    *("", "/", "?", "#", "?#", "/#fragment", "/a?b#c", "?a=b", "/a b", "/a%20b", "/a+b", "/é/日本"),
    *("/%C3%A9", "/%c3%a9", "/%7euser", "/%41", "/%2F%2f", "/%", "/%2", "/%zz", "/100%25", "/%00"),
    *("/a/./b/../c", "/..", "/a/..", "/.", "/../../a", "//", "//a//b", "/a;b=c&d,e!$'()*@:"),
    *('/[x]{y}|^`"<>\\', "/?q=a b+c", "/?q=%20%2B%26%3d%3B", "/?q=é%C3%A9&r=%zz&s", "/?a=1?b=2/#"),
    *(
        "/?q=[x]{y}|^`\"<>\\'",
        "/\tb\r\nc",
        "/\x00\x7f",
        "/?x=\x00",
        "/%E0%A4%A",
        "/?callback=http://x/?y",
    ),
]
REFERENCE = "TXN0123456789ABCDEFGHJKMNPQRSTV-1"  # the end of a status query's URL
INVALID = [
    *("", "example.com", "/path", "ftp://example.com/", "http://", "http:///path", "http://:80/"),
    *("http://h:99999/", "http://h:x/", "http://[::1/", "http://::1]/", "http://a[::1]/"),
    *(
        "http://[::1]x/",
        "http://h\\@evil.example/",
        "http://e\u200bvil.example/",
        "http://℀.example/",
    ),
    *("javascript:alert(1)", "http://u%3Ax:p@h/"),
]


def of_aiohttp(url: str) -> tuple[Any, ...]:
    parsed = yarl.URL(url)
    if parsed.scheme not in ("http", "https"):
        raise ValueError(url)
    parsed, auth = helpers.strip_auth_from_url(parsed)
    if not parsed.raw_host:
        raise ValueError(url)
    return (
        (parsed.scheme == "https", parsed.raw_host, parsed.port),
        parsed.host_port_subcomponent,
        parsed.with_fragment(None).raw_path_qs,
        auth and auth.encode(),
    )


@pytest.mark.parametrize("authority", AUTHORITIES)
def test_every_part_of_an_odd_url_is_sent_as_aiohttp_sent_it(authority: str) -> None:
    for scheme, path, end in product(("http", "HTTPS"), PATHS, ("", f"/{REFERENCE}")):
        url = f"{scheme}://{authority}{path}{end}"
        assert tuple(urls.parse(url)) == of_aiohttp(url)


@given(st.text(alphabet="/?#%@:&=+;.,[]{} aZ0~é2Ff\\'\"\t"))
def test_any_path_and_query_is_sent_as_aiohttp_sent_it(text: str) -> None:
    url = f"http://example.com/{text}"
    assert tuple(urls.parse(url)) == of_aiohttp(url)


@pytest.mark.parametrize("url", INVALID)
def test_an_invalid_url_is_rejected_as_by_aiohttp(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (their texts differ)
        urls.parse(url)
    with pytest.raises(ValueError):  # noqa: PT011 (their texts differ)
        of_aiohttp(url)


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=8), max_size=3))
def test_parameters_are_encoded_as_aiohttp_encoded_them(query: dict[str, str]) -> None:
    for url in ("http://example.com/a", "http://example.com/a?b=c"):
        target = urls.parse(urls.with_query(url, query))
        assert target.path == yarl.URL(url).extend_query(query).raw_path_qs


@pytest.mark.parametrize("path", ["/a b?c=d e#f", "/é?%C3%A9", "/a/../b", "", "?q", "/%2f%41"])
@pytest.mark.parametrize("user", ["", "u:p%40@"])
@pytest.mark.parametrize("body", [b'{"a": 1}', b""])
async def test_the_whole_request_is_what_aiohttp_sent(path: str, user: str, body: bytes) -> None:
    ours = {"User-Agent": "Manilla", "Accept": "*/*"}
    headers = {"Content-Type": "application/json", "X-Name": "Adé"}
    async with serving() as server:
        url = f"http://{user}LOCALHOST:{server.port}{path}"
        async with aiohttp.ClientSession(
            headers={**ours, "Accept-Encoding": "identity"}
        ) as session:
            for data in (body, None):
                await session.post(url, data=data, headers=headers)
            await session.get(url, headers=headers)
        async with HttpClient(connections=1, keepalive_seconds=9, headers=ours) as client:
            for each in (body, None):
                await client.request("POST", url, headers=headers, body=each, body_max=9)
            await client.request("GET", url, headers=headers, body_max=9)
        sent = [_comparable(each) for each in server.requests]
    assert len(sent) == 6
    assert sent[:3] == sent[3:]


def _comparable(request: SentRequest) -> tuple[str, list[tuple[str, str]], bytes]:
    return request.line, sorted(request.headers), request.body


@pytest.mark.parametrize("line_break", ["\r\n", "\n", "\r", "\0"])
async def test_a_header_with_a_line_break_is_rejected(line_break: str) -> None:
    async with serving() as server, HttpClient(connections=1, keepalive_seconds=9) as client:
        for headers in ({"X-A": f"b{line_break}X-C: d"}, {f"X-A{line_break}X-C": "d"}):
            with pytest.raises(ValueError, match="line break"):
                await client.request("GET", server.url, headers=headers, body_max=9)
        assert server.requests == []


@pytest.mark.parametrize("name", ["authorization", "content-length", "host"])
async def test_a_header_that_the_client_sets_is_not_sent_twice(name: str) -> None:
    async with serving() as server, HttpClient(connections=1, keepalive_seconds=9) as client:
        url = re.sub("//", "//user:password@", server.url, count=1)
        with pytest.raises(ValueError, match="repeated"):
            await client.request("POST", url, headers={name: "1"}, body=b"{}", body_max=9)
        assert server.requests == []


async def test_a_line_break_in_a_url_adds_no_line_to_the_request() -> None:
    async with serving() as server, HttpClient(connections=1, keepalive_seconds=9) as client:
        url = f"{server.url}a\r\nX-Injected: yes\r\n\r\nb?c\nd"
        await asyncio.wait_for(client.request("GET", url, body_max=9), 30)
        [request] = server.requests
        assert request.line == "GET /aX-Injected:%20yesb?cd HTTP/1.1"
        assert request.header("X-Injected") is None
