"""HTTP calls to a provider: time limits, size limits, and a circuit breaker.

An answer is conclusive only if the provider itself clearly said so.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import aiohttp
import msgspec
import structlog

from manilla.kit import outbound, strict_json, time_limits
from manilla.kit.logs import HIDDEN
from manilla.providers import reading
from manilla.providers.health import Rail
from manilla.providers.port import Answer, Done, RefusalCode, Refused, Unknown

log = structlog.get_logger(__name__)

Value = TypeVar("Value")

UNAUTHORIZED = 401  # our credentials are wrong
ANSWER_BYTES_MAX = 1024 * 1024
NO_HEADERS: Mapping[str, str] = {}

# When calls in this context must have ended, in the time of the event loop.
_ends: ContextVar[float] = ContextVar("calls_end", default=math.inf)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Limits the total time of the calls in this block. Each call keeps its own limit too."""
    token = _ends.set(min(asyncio.get_running_loop().time() + seconds, _ends.get()))
    try:
        yield
    finally:
        _ends.reset(token)


def _end_of_call() -> float:
    seconds = time_limits.current.provider_call_seconds
    return min(asyncio.get_running_loop().time() + seconds, _ends.get())


# HTTP statuses with which an error in the provider's own envelope is a conclusive rejection.
REFUSING = frozenset((400, 402, 403, 422))


# A request is written only after its connection is established. A connection that breaks later is
# not among these, and requests with a body are not repeated on another connection.
NOT_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


class Reply(msgspec.Struct, frozen=True):
    """A provider's response envelope, whatever its HTTP status."""

    status: int
    is_success: bool
    message: str
    data: Any
    document: Mapping[str, Any] = {}  # the whole answer, for values beside the data


class Enveloped(msgspec.Struct, frozen=True):
    """What a provider's envelope says."""

    is_success: bool | None  # None if the document is not in the provider's envelope
    message: Any
    data: Any


Envelope = Callable[[Mapping[str, Any]], Enveloped]


class ProviderCall(msgspec.Struct, frozen=True):
    method: str
    path: str
    body: Mapping[str, Any] | None
    query: Mapping[str, str] | None
    headers: Mapping[str, str]  # with our credentials


class Exchange(msgspec.Struct, frozen=True):
    """A call and its response, as they were sent. Nobody may see it before it is redacted."""

    call: ProviderCall
    status: int | None  # None if there was no response
    raw: bytes
    reply: Reply | None  # None if the response is not in the provider's envelope
    problem: str  # why there is no reply


Recorder = Callable[[Exchange], None]


def read_flag(document: Mapping[str, Any]) -> Enveloped:
    """Reads `{"status": true, "message": ..., "data": ...}`."""
    status = document.get("status")
    is_success = status if isinstance(status, bool) else None
    return Enveloped(is_success, document.get("message"), document.get("data"))


def read_word(document: Mapping[str, Any]) -> Enveloped:
    """Reads `{"status": "success", "message": ..., "data": ...}`."""
    status = document.get("status")
    is_success = status == "success" if status in ("success", "error") else None
    return Enveloped(is_success, document.get("message"), document.get("data"))


class Wire:
    """Sends an adapter's calls to one provider, with its URL and credentials."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base_url: str,
        headers: Mapping[str, str],
        envelope: Envelope,
        calls: asyncio.Semaphore,
        secrets: Sequence[str] = (),
        record: Recorder | None = None,
    ) -> None:
        self._secrets = secrets
        self._session = session
        self._base_url = base_url.rstrip("/")
        self._headers = headers
        self._envelope = envelope
        self._calls = calls
        self._record = record

    async def call(
        self,
        rail: Rail,
        method: str,
        path: str,
        read: Callable[[Reply], Answer[Value]],
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> Answer[Value]:
        """Sends the request once. `read` converts the reply to an answer or raises Malformed.

        `headers` are sent besides the adapter's own.
        """
        if not rail.is_open_for_calls:
            return Unknown("the rail is down, so it was not called", never_sent=True)
        call = ProviderCall(method, path, body, query, {**self._headers, **headers})
        began = time.monotonic()
        answer = await self._answer(call, read)
        rail.record(answer, time.monotonic() - began)
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
            # An answer that breaks our code is unknown: in the worst case the provider is queried
            # again.
            log.exception("provider_answer_not_read", path=call.path)
            return Unknown("an answer that could not be read")

    async def _exchange(self, call: ProviderCall) -> Reply | Unknown:
        status, raw = None, None
        try:
            async with asyncio.timeout_at(_end_of_call()), self._calls:
                status, raw = await self._send(call)
            reply = self._reply(status, raw)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reply = _failed(error)
        if self._record is not None:
            readable, problem = (None, reply.reason) if isinstance(reply, Unknown) else (reply, "")
            self._record(Exchange(call, status, raw or b"", readable, problem))
        return reply

    async def _send(self, call: ProviderCall) -> tuple[int, bytes | None]:
        async with self._session.request(
            call.method,
            self._base_url + call.path,
            params=call.query,
            data=None if call.body is None else strict_json.encode(call.body),
            headers={**call.headers, "Content-Type": "application/json"},
            allow_redirects=False,
        ) as response:
            return response.status, await _read_limited(response)

    def _reply(self, status: int, raw: bytes | None) -> Reply | Unknown:
        if raw is None:
            return Unknown("the answer is too large")
        if status >= 500:
            return Unknown(f"HTTP {status}", is_rail_down=True)
        try:
            document = strict_json.decode(raw)
        except strict_json.JsonError:
            return _unknown(status, "without a readable body")
        found = document if isinstance(document, dict) else {}
        read = self._envelope(found)
        is_success, message = read.is_success, read.message
        # A proxy in front of the provider has its own error format, which is not a rejection by the
        # provider.
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
        """Hides our keys in a message, in case the provider echoes them."""
        for secret in self._secrets:
            message = message.replace(secret, HIDDEN)
        return reading.plain(message)


def _failed(error: Exception) -> Unknown:
    is_connected = not isinstance(error, NOT_CONNECTED)
    is_late = is_connected and isinstance(error, TimeoutError)
    reason = "no answer in time" if is_late else f"connection failed: {_problem(error)}"
    return Unknown(reason, is_rail_down=True, never_sent=not is_connected)


def _problem(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"the host name {error.host} is not known"
    return outbound.describe(error)


def _unknown(status: int, problem: str) -> Unknown:
    return Unknown(f"HTTP {status} {problem}", can_pass=status != UNAUTHORIZED)


async def _read_limited(response: aiohttp.ClientResponse) -> bytes | None:
    read = bytearray()
    async for chunk in response.content.iter_chunked(64 * 1024):
        read += chunk
        if len(read) > ANSWER_BYTES_MAX:
            response.close()
            return None
    return bytes(read)


def done(reply: Reply, read: Callable[[Any], Value]) -> Answer[Value]:
    """Returns Done if the status is 2xx, the envelope says success and the data is valid."""
    if 200 <= reply.status < 300 and reply.is_success:
        return Done(read(reply.data))
    reason = f"HTTP {reply.status}: {reply.message}"
    return Unknown(reason, can_pass=reply.status != UNAUTHORIZED)


def charge_answer(reply: Reply, read: Callable[[Any], Value]) -> Answer[Value]:
    """Converts the reply to a new charge: the provider's rejection declines the payment.

    A duplicate reference is not a rejection: the charge exists.
    """
    if is_refusal(reply) and not is_duplicate(reply):
        return Refused(RefusalCode.PAYMENT_DECLINED, reply.message)
    return done(reply, read)


def refund_answer(reply: Reply, read: Callable[[Any], Value]) -> Answer[Value]:
    """Converts the reply to a new refund.

    A duplicate reference is not a rejection: the refund exists.
    """
    if is_refusal(reply) and not is_duplicate(reply):
        return Refused(RefusalCode.PAYMENT_DECLINED, reply.message)
    return done(reply, read)


def transfer_answer(reply: Reply, read: Callable[[Any], Value]) -> Answer[Value]:
    """Reads the reply to a transfer or account lookup request."""
    return refused_transfer(reply) if is_refusal(reply) else done(reply, read)


DUPLICATE = ("duplicate", "already exist", "already used", "already been used", "unique reference")


def is_duplicate(reply: Reply) -> bool:
    """Whether the provider says, in whatever words, that it knows the reference already."""
    return any(words in reply.message.lower() for words in DUPLICATE)


def is_refusal(reply: Reply) -> bool:
    return reply.status in REFUSING and not reply.is_success


def refused_transfer(reply: Reply) -> Answer[Any]:
    """Converts a provider's rejection. A duplicate reference is not one: the transfer exists."""
    message = reply.message.lower()
    if is_duplicate(reply):
        return Unknown(f"the reference is known to the provider: {reply.message}")
    for words, code in TRANSFER_REFUSALS:
        if any(word in message for word in words):
            return Refused(code, reply.message)
    return Refused(RefusalCode.GATEWAY_PAYOUT_FAILED, reply.message or "No reason was given.")


TRANSFER_REFUSALS: tuple[tuple[tuple[str, ...], RefusalCode], ...] = (
    (("insufficient",), RefusalCode.PROVIDER_INSUFFICIENT_BALANCE),
    (
        ("resolve", "invalid bank", "account validation", "validate account", "invalid account"),
        RefusalCode.INVALID_BENEFICIARY,
    ),
    (("not enabled", "whitelist", "minimum transfer"), RefusalCode.PAYOUT_FAILED),
)


def is_not_found(reply: Reply) -> bool:
    """Whether the provider itself says that it does not know the reference.

    A 404 without its message may come from a proxy.
    """
    return reply.status == 404 and not reply.is_success and "not found" in reply.message.lower()
