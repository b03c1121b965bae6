"""HTTP calls to a provider: time limits, size limits, and a circuit breaker."""

import asyncio
import math
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import msgspec
import structlog

from manilla.kit import outbound, strict_json, time_limits
from manilla.kit.http_client import urls
from manilla.kit.http_client.client import HttpClient
from manilla.kit.http_client.connection import HttpReply
from manilla.kit.http_client.errors import HttpError, IncompleteReply, NotConnected, UnknownHost
from manilla.kit.logs import HIDDEN
from manilla.providers import reading
from manilla.providers.health import Rail
from manilla.providers.port import Answer, Unknown
from manilla.providers.replies import UNAUTHORIZED, Decide, Envelope, Read, Reply, require_success

log = structlog.get_logger(__name__)

Value = TypeVar("Value")

ANSWER_BYTES_MAX = 1024 * 1024
COMPRESSIONS = ("gzip", "deflate")
# Values of zlib's `wbits`: the first detects a gzip or zlib header, the second expects none.
ANY_HEADER = 32 + zlib.MAX_WBITS
NO_HEADER = -zlib.MAX_WBITS

# The deadline for all calls in this context, as a time on the event loop's clock.
_ends: ContextVar[float] = ContextVar("calls_end", default=math.inf)


@contextmanager
def limit_calls(seconds: float) -> Iterator[None]:
    """Limits the total time of the calls in this block. Each call also has its own limit."""
    token = _ends.set(min(asyncio.get_running_loop().time() + seconds, _ends.get()))
    try:
        yield
    finally:
        _ends.reset(token)


def _end_of_call(*, uploads: bool) -> float:
    limits = time_limits.current
    seconds = limits.provider_upload_seconds if uploads else limits.provider_call_seconds
    return min(asyncio.get_running_loop().time() + seconds, _ends.get())


# These errors occur only before a request is sent. A connection that breaks later raises others.
# A request with a body is never repeated on another connection.
NOT_CONNECTED = (NotConnected,)


class Content(msgspec.Struct, frozen=True):
    """A request body that is not JSON, for example a form with a file."""

    media_type: str
    raw: bytes


class ProviderCall(msgspec.Struct, frozen=True):
    method: str
    path: str
    body: Mapping[str, Any] | None
    query: Mapping[str, str] | None
    headers: Mapping[str, str]  # includes our credentials
    content: Content | None = None  # sent instead of `body`


class Exchange(msgspec.Struct, frozen=True):
    """A call and its response, including secrets. Redact both before they are shown or stored."""

    call: ProviderCall
    status: int | None  # None if there was no response
    raw: bytes
    reply: Reply | None  # None if the response is not in the provider's envelope
    problem: str  # why there is no reply


Recorder = Callable[[Exchange], None]


class ProviderApi(msgspec.Struct, frozen=True):
    """The settings for calling a provider's API with one account."""

    client: HttpClient
    base_url: str
    envelope: Envelope
    calls: asyncio.Semaphore  # limits the account's concurrent calls
    secrets: Sequence[str] = ()
    record: Recorder | None = None


class Wire:
    """Sends an adapter's calls on one rail, with the account's credentials."""

    def __init__(self, rail: Rail, api: ProviderApi, headers: Mapping[str, str]) -> None:
        self.rail = rail
        self.api = api
        self._headers = headers

    async def get(
        self,
        path: str,
        read: Read[Value],
        decide: Decide[Value] = require_success,
        *,
        query: Mapping[str, str] | None = None,
    ) -> Answer[Value]:
        return await self.call("GET", path, lambda reply: decide(reply, read), query=query)

    async def post(
        self,
        path: str,
        body: Mapping[str, Any] | None,
        read: Read[Value],
        decide: Decide[Value] = require_success,
    ) -> Answer[Value]:
        return await self.call("POST", path, lambda reply: decide(reply, read), body=body)

    async def call(
        self,
        method: str,
        path: str,
        read: Callable[[Reply], Answer[Value]],
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        content: Content | None = None,
    ) -> Answer[Value]:
        """Sends the request once. `read` converts the response or raises Malformed."""
        if not self.rail.is_open_for_calls:
            return Unknown("the rail is down, so it was not called", never_sent=True)
        began = time.monotonic()
        call = ProviderCall(method, path, body, query, self._headers, content)
        answer = await self._answer(call, read)
        self.rail.record(answer, time.monotonic() - began)
        return answer

    async def _answer(
        self, call: ProviderCall, read: Callable[[Reply], Answer[Value]]
    ) -> Answer[Value]:
        reply = await self._exchange(call)
        if isinstance(reply, Unknown):
            return reply
        try:
            return read(reply)
        except reading.Malformed as error:
            return Unknown(f"unexpected answer: {error}")
        except Exception:
            # If our code cannot process a response, the result is unknown and is queried again.
            log.exception("provider_answer_not_read", path=call.path)
            return Unknown("an answer that could not be read")

    async def _exchange(self, call: ProviderCall) -> Reply | Unknown:
        status, raw = None, None
        try:
            end = _end_of_call(uploads=call.content is not None)
            async with asyncio.timeout_at(end), self.api.calls:
                status, raw = await self._send(call)
            reply = self._reply(status, raw)
        except (HttpError, OSError, ValueError) as error:
            reply = _failed(error)
        if self.api.record is not None:
            readable, problem = (None, reply.reason) if isinstance(reply, Unknown) else (reply, "")
            self.api.record(Exchange(call, status, raw or b"", readable, problem))
        return reply

    async def _send(self, call: ProviderCall) -> tuple[int, bytes | None]:
        content = call.content or Content(
            "application/json", b"" if call.body is None else strict_json.encode(call.body)
        )
        reply = await self.api.client.request(
            call.method,
            urls.with_query(self.api.base_url + call.path, call.query),
            headers={**call.headers, "Content-Type": content.media_type},
            body=content.raw or None,
            body_max=ANSWER_BYTES_MAX,
        )
        assert reply.status is not None
        return reply.status, _read_body(reply)

    def _reply(self, status: int, raw: bytes | None) -> Reply | Unknown:
        if raw is None:
            return _unknown(status, "with a body that is too large")
        if status >= 500:
            return Unknown(f"HTTP {status}", is_rail_down=True)
        try:
            document = strict_json.decode(raw)
        except strict_json.JsonError:
            return _unknown(status, "without a readable body")
        found = document if isinstance(document, dict) else {}
        read = self.api.envelope(found)
        is_success, message = read.is_success, read.message
        # Proxies in front of the provider have other error formats, which are not rejections.
        if is_success is None or not (is_success or isinstance(message, str)):
            return _unknown(status, "without the provider's envelope")
        return Reply(
            status,
            is_success,
            self._without_secrets(message) if isinstance(message, str) else "",
            read.data,
            found,
        )

    def _without_secrets(self, message: str) -> str:
        """Hides our keys in a message, in case the provider repeats them."""
        for secret in self.api.secrets:
            message = message.replace(secret, HIDDEN)
        return reading.plain(message)


def _failed(error: Exception) -> Unknown:
    is_connected = not isinstance(error, NOT_CONNECTED)
    is_late = is_connected and isinstance(error, TimeoutError)
    reason = "no answer in time" if is_late else f"connection failed: {_problem(error)}"
    return Unknown(reason, is_rail_down=True, never_sent=not is_connected)


def _problem(error: Exception) -> str:
    if isinstance(error, UnknownHost):
        return f"the host name {error.host} is not known"
    return outbound.describe(error)


def _unknown(status: int, problem: str) -> Unknown:
    return Unknown(f"HTTP {status} {problem}", can_pass=status != UNAUTHORIZED)


def _read_body(reply: HttpReply) -> bytes | None:
    """Returns the body, or None if it is too large.

    A compressed body is decompressed, although we request an uncompressed body.
    """
    if reply.is_cut:
        return None
    encoding = reply.headers.get("content-encoding", "").lower()
    if encoding not in COMPRESSIONS or not reply.body:
        return bytes(reply.body)
    has_header = encoding == "gzip" or reply.body[0] & 15 == zlib.DEFLATED
    try:
        decompress = zlib.decompressobj(ANY_HEADER if has_header else NO_HEADER)
        body = decompress.decompress(reply.body, ANSWER_BYTES_MAX + 1)
    except zlib.error as error:
        raise IncompleteReply from error
    if len(body) > ANSWER_BYTES_MAX:
        return None
    if not decompress.eof:
        raise IncompleteReply
    return body
