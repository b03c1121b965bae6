"""Responses with pages and files, and the ASGI messages that send them."""

import asyncio
import contextlib
import gzip
from collections.abc import AsyncGenerator, Mapping, Sequence
from http.cookies import SimpleCookie
from typing import Any, Self

import msgspec

from manilla.kit import strict_json
from manilla.kit.errors import Refusal
from manilla.kit.http import Header

HTML, JSON, TEXT = "text/html", "application/json", "text/plain"
NO_HEADERS: Mapping[str, str] = {}
WITHOUT_CONTENT = (204, 304)
COMPRESSION_LEVEL = 4


class SetCookie(msgspec.Struct, frozen=True):
    """A cookie that JavaScript cannot read. Browsers delete the cookie after `seconds`."""

    name: str
    value: str
    seconds: int
    path: str
    is_secure: bool

    def header(self) -> Header:
        cookie: SimpleCookie = SimpleCookie({self.name: self.value})
        attributes: dict[str, Any] = {
            "httponly": True,
            "max-age": self.seconds,
            "path": self.path,
            "samesite": "lax",
            "secure": self.is_secure,
        }
        cookie[self.name].update(attributes)
        return b"set-cookie", cookie.output(header="").strip().encode("latin-1")


class PageResponse:
    """A complete response: a page, a file or a redirect."""

    def __init__(
        self,
        body: bytes = b"",
        status: int = 200,
        *,
        media_type: str = JSON,
        headers: Mapping[str, str] = NO_HEADERS,
        cookies: Sequence[SetCookie] = (),
    ) -> None:
        self.body = body
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self._media_type = media_type
        self._cookies = cookies

    @classmethod
    def html(
        cls,
        text: str,
        status: int = 200,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
        cookies: Sequence[SetCookie] = (),
    ) -> Self:
        return cls(text.encode(), status, media_type=HTML, headers=headers, cookies=cookies)

    def compressed(self) -> Self:
        """Compresses the body, and sets `Vary` to the headers that compression depends on."""
        self.body = gzip.compress(self.body, COMPRESSION_LEVEL, mtime=0)
        self.headers |= {"content-encoding": "gzip", "vary": "Accept-Encoding, Sec-Fetch-Site"}
        return self

    def with_retry_after(self, refusal: Refusal | None) -> Self:
        """Adds the time after which the client may repeat a rejected request, if it is known."""
        if refusal is not None and refusal.retry_after_seconds is not None:
            self.headers["retry-after"] = str(refusal.retry_after_seconds)
        return self

    @classmethod
    def json(
        cls, value: object, status: int = 200, *, headers: Mapping[str, str] = NO_HEADERS
    ) -> Self:
        return cls(strict_json.encode(value), status, headers=headers)

    @classmethod
    def redirect(
        cls,
        url: str,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
        cookies: Sequence[SetCookie] = (),
    ) -> Self:
        """Returns a 303 redirect, which browsers follow with GET. The body is a JSON null."""
        return cls(b"null", 303, headers={"Location": url, **headers}, cookies=cookies)

    @classmethod
    def empty(cls, status: int, *, headers: Mapping[str, str] = NO_HEADERS) -> Self:
        return cls(status=status, headers=headers)

    def with_cookie(self, cookie: SetCookie) -> Self:
        self._cookies = (*self._cookies, cookie)
        return self

    def encoded_headers(self) -> list[Header]:
        """Returns the headers as they are sent."""
        headers = self._all_headers()
        encoded = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in headers]
        encoded += [cookie.header() for cookie in self._cookies]
        return encoded

    def _all_headers(self) -> list[tuple[str, str]]:
        if self.status in WITHOUT_CONTENT:
            return list(self.headers.items())
        charset = "; charset=utf-8" if self._media_type.startswith("text/") else ""
        content = {"content-type": self._media_type + charset, **self._length()}
        return [
            *self.headers.items(),
            *((n, v) for n, v in content.items() if n not in self.headers),
        ]

    def _length(self) -> dict[str, str]:
        return {"content-length": str(len(self.body))}

    async def send_body(self, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.body", "body": self.body})


class StreamedResponse(PageResponse):
    """A response that is generated while it is sent, so its length is not known in advance."""

    def __init__(
        self, content: AsyncGenerator[bytes, None], *, media_type: str, headers: Mapping[str, str]
    ) -> None:
        super().__init__(media_type=media_type, headers=headers)
        self._content = content

    async def begin(self) -> None:
        """Generates the first bytes, so that an error can still change the response's status."""
        self.body = await anext(self._content, b"")

    def _length(self) -> dict[str, str]:
        return {}

    async def send_body(self, receive: Any, send: Any) -> None:
        """Sends the generator's output, and closes the generator if the client disconnects."""
        gone = asyncio.create_task(_until_disconnected(receive))
        try:
            async with contextlib.aclosing(self._content) as content:
                await _send_part(send, self.body)
                async for chunk in content:
                    if gone.done():
                        return
                    await _send_part(send, chunk)
        finally:
            gone.cancel()
        await send({"type": "http.response.body", "body": b""})


async def _send_part(send: Any, content: bytes) -> None:
    await send({"type": "http.response.body", "body": content, "more_body": True})


async def _until_disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
