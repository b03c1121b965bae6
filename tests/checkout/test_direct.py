"""Checkout over HTTP: HEAD, OPTIONS, large bodies and the headers of every response."""

import pytest

from manilla.kit.errors import Unavailable
from manilla.pages.app import SECURITY_HEADERS
from tests.checkout.shop import Shop


async def test_head_has_the_headers_of_get_and_no_body(shop: Shop) -> None:
    started = await shop.sell()
    page = await shop.site.send("GET", started.target)
    head = await shop.site.send("HEAD", started.target)
    assert (page.status, head.status, head.body) == (200, 200, b"")
    assert int(head.headers["content-length"]) == len(page.body)
    assert head.headers.keys() == page.headers.keys()


async def test_options_names_the_methods_and_has_no_length(shop: Shop) -> None:
    started = await shop.sell()
    reply = await shop.site.send("OPTIONS", started.target)
    assert (reply.status, reply.headers["allow"]) == (204, "get, options")
    assert "content-length" not in reply.headers


async def test_a_large_body_is_rejected_before_it_has_arrived(shop: Shop) -> None:
    started = await shop.sell()
    form = "Content-Type: application/x-www-form-urlencoded\r\n"
    choose = started.target.replace("?", "/choose?")
    request = f"POST {choose} HTTP/1.1\r\nHost: manilla\r\nConnection: close\r\n"
    reply = await shop.site.send_raw(
        f"{request}{form}Content-Length: 70000\r\n\r\nmethod=".encode()
    )
    assert reply.status == 413


@pytest.mark.parametrize("page", ["", "/status", "/missing"])
async def test_every_response_has_the_security_headers(shop: Shop, page: str) -> None:
    started = await shop.sell()
    path, _, query = started.target.partition("?")
    headers = (await shop.site.send("GET", f"{path}{page}?{query}")).headers
    assert {name.lower() for name in SECURITY_HEADERS} <= headers.keys()
    assert headers["x-request-id"]


async def test_a_page_with_status_503_says_when_to_try_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_given: object) -> None:
        raise Unavailable

    started = await shop.sell()
    monkeypatch.setattr(shop.services.checkout, "choose", fail)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    target = started.target.replace("?", "/choose?")
    reply = await shop.site.send("POST", target, form, b"method=providera-ngn")
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
