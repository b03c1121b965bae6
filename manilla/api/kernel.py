"""The kernel of the merchant API: everything between a merchant's request and a use case.

It runs all checks in the documented order: body size, environment, credentials, timestamp,
signature, rate limit, merchant availability, fields, use case.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec
import structlog

from manilla.api import authenticate, fields, refusals
from manilla.api.authenticate import Identity, SignedRequest
from manilla.api.endpoint import Call, Endpoint
from manilla.api.exchange import Exchange
from manilla.api.refusals import (
    InvalidCredentials,
    MethodNotAllowed,
    NotFound,
    ValidationFailed,
)
from manilla.api.repeats import read_repeat_key
from manilla.kit import http, strict_json
from manilla.kit.db import Database
from manilla.kit.errors import Refusal, Unavailable
from manilla.kit.ratelimit import RateLimiter, RateLimitExceeded, RateTicket, address_bucket
from manilla.ledger import idempotency
from manilla.ledger.idempotency import Replayed
from manilla.merchants import availability, request_limit, request_log
from manilla.merchants.directory import Caller, Directory
from manilla.merchants.request_log import RequestLog
from manilla.platform.changes import ChangeWatch
from manilla.platform.settings import CurrentSettings
from manilla.services import Services

log = structlog.get_logger(__name__)

BODY_BYTES_MAX = 64 * 1024

# The only request headers that the kernel reads.
READ = frozenset(
    b"x-environment x-merchant-key x-api-key x-timestamp x-signature authorization"
    b" idempotency-key x-sandbox-scenario content-encoding content-length transfer-encoding"
    b" x-forwarded-for user-agent".split()
)
FORWARDED_FOR = b"x-forwarded-for"


class Gate(msgspec.Struct, frozen=True):
    """The services that the kernel uses to check a request."""

    db: Database
    watch: ChangeWatch
    directory: Directory
    limiter: RateLimiter
    platform: CurrentSettings
    requests: RequestLog
    trusted_proxies: Sequence[http.Network] = ()
    is_public_only: bool = False  # reject callback URLs with a private host

    @classmethod
    def of(cls, services: Services) -> Self:
        return cls(
            db=services.db,
            watch=services.watch,
            directory=services.directory,
            limiter=services.limiter,
            platform=services.platform,
            requests=services.requests,
            trusted_proxies=services.trusted_proxies,
            is_public_only=not services.is_development,
        )


class Answer(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


class MerchantApi:
    """An ASGI application for everything under /api/."""

    def __init__(self, gate: Gate, endpoints: Sequence[Endpoint]) -> None:
        self._gate = gate
        self._routes: dict[str, dict[str, Endpoint]] = {}
        self._routes_with_parameter: dict[str, dict[str, Endpoint]] = {}
        for endpoint in endpoints:
            route, brace, _ = endpoint.path.partition("{")
            routes = self._routes_with_parameter if brace else self._routes
            routes.setdefault(route, {})[endpoint.method] = endpoint

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        began = time.perf_counter()
        exchange = self._begin(scope)
        try:
            answer = await self._answer(exchange, scope, receive)
        except http.ClientGone:
            return
        await send(
            {
                "type": "http.response.start",
                "status": answer.status,
                "headers": [
                    (b"content-type", b"application/json"),
                    (b"content-length", str(len(answer.body)).encode()),
                    (b"cache-control", b"no-store"),
                    (b"x-content-type-options", b"nosniff"),
                    (b"cross-origin-resource-policy", b"same-origin"),
                    (b"x-request-id", exchange.id.encode()),
                    *exchange.limit_headers(self._gate.platform.now.rate_limit_per_minute),
                    *answer.headers,
                ],
            }
        )
        await send({"type": "http.response.body", "body": answer.body})
        seconds = time.perf_counter() - began
        exchange.record(scope, answer.status, seconds)
        self._keep(exchange, scope, answer.status, seconds)

    def _begin(self, scope: Any) -> Exchange:
        headers: dict[bytes, bytes] = {}
        for name, sent in scope["headers"]:
            if name in READ:
                value = sent.rstrip(
                    b" \t"
                )  # remove trailing whitespace that the parser leaves; it is not part of the value
                # A repeated header is joined with a comma, so that it matches no key and no
                # signature.
                headers[name] = headers[name] + b"," + value if name in headers else value
        peer = scope["client"][0] if scope.get("client") else ""
        address = http.client_address(peer, headers.get(FORWARDED_FOR), self._gate.trusted_proxies)
        return Exchange(headers, address)

    async def _answer(self, exchange: Exchange, scope: Any, receive: Any) -> Answer:
        try:
            return await self._call(exchange, scope, receive)
        except Refusal as refusal:
            return await self._refuse(exchange, refusal)
        except http.ClientGone:
            raise
        except Exception:
            log.exception("request_failed", request_id=exchange.id, endpoint=exchange.endpoint)
            return _error(
                500,
                "SERVER_ERROR",
                f"Something went wrong on our side. Please quote request {exchange.id}.",
            )

    async def _call(self, exchange: Exchange, scope: Any, receive: Any) -> Answer:
        gate = self._gate
        endpoint, parameter = self._find(scope["method"], scope["path"])
        exchange.endpoint = endpoint.path
        body = await _read_body(exchange, receive)
        # Refresh cached settings and merchants before reading them: after a pause of this process
        # they may be outdated.
        await gate.watch.ensure_fresh()
        identity = await self._identify(exchange, scope, endpoint, body)
        caller = exchange.caller = identity.caller
        exchange.generation = identity.generation
        ticket = exchange.ticket = self._ticket(exchange, caller)
        try:
            if not endpoint.counts:
                await gate.limiter.spend(ticket)
            availability.check(caller)
            call = exchange.call = Call(
                caller=caller,
                parameter=parameter,
                query=_read_query(endpoint, scope),
                body=self._read_fields(endpoint, exchange, body),
                raw_body=body,
                headers=exchange.headers,
                ticket=ticket,
            )
            answer = exchange.answer = await endpoint.use_case(call)
            return _success(endpoint, answer)
        except Refusal as refusal:
            if isinstance(refusal, Unavailable | RateLimitExceeded):
                raise
            if ticket.allowance is None:
                # The use case rejected the request before the statement that would have counted it.
                await gate.limiter.spend(ticket)
            first = await self._first_answer(endpoint, exchange, caller, body)
            if first is None:
                raise
            return _success(endpoint, first)

    async def _first_answer(
        self, endpoint: Endpoint, exchange: Exchange, caller: Caller, body: bytes
    ) -> Replayed | None:
        """A request that succeeded is never rejected when repeated, whatever has changed since."""
        if not endpoint.is_repeatable or b"idempotency-key" not in exchange.headers:
            return None
        repeat = read_repeat_key(exchange.headers, endpoint.path, body)
        assert repeat is not None
        return await idempotency.find_answer(
            self._gate.db, caller.merchant_id, caller.environment, repeat
        )

    async def _identify(
        self, exchange: Exchange, scope: Any, endpoint: Endpoint, body: bytes
    ) -> Identity:
        gate = self._gate
        environment = authenticate.read_environment(exchange.headers)
        if not endpoint.is_signed:
            return await authenticate.by_bearer(gate.directory, environment, exchange.headers)
        return await authenticate.authenticate(
            gate.directory,
            gate.platform.now,
            environment,
            exchange.headers,
            SignedRequest(scope["method"], http.target(scope), body),
        )

    def _keep(self, exchange: Exchange, scope: Any, status: int, seconds: float) -> None:
        requests, caller = self._gate.requests, exchange.caller
        at = request_log.moment_before(seconds)
        if caller is not None:
            requests.note_use(caller.merchant_id, caller.environment, exchange.generation, at)
        elif isinstance(exchange.refusal, InvalidCredentials):
            # Log failed authentication for the merchant that was named. The rate limit bounds how
            # many such rows a caller can cause.
            caller = self._named_merchant(exchange)
        if caller is not None:
            requests.add(exchange.line(caller, scope, status, seconds, at))

    def _named_merchant(self, exchange: Exchange) -> Caller | None:
        """The merchant that a caller with invalid credentials named, if it is known."""
        merchant_key = exchange.headers.get(b"x-merchant-key", b"").decode("latin-1")
        environment = authenticate.read_environment(exchange.headers)
        return self._gate.directory.remembered(environment, merchant_key)

    def _ticket(self, exchange: Exchange, caller: Caller) -> RateTicket:
        limit = self._gate.platform.now.rate_limit_per_minute
        return request_limit.ticket(caller.merchant_id, address_bucket(exchange.address), limit)

    def _read_fields(self, endpoint: Endpoint, exchange: Exchange, body: bytes) -> Any:
        if endpoint.body is None:
            return None
        return fields.read_body(
            endpoint.body,
            body,
            compressed=b"content-encoding" in exchange.headers,
            is_public_only=self._gate.is_public_only,
        )

    def _find(self, method: str, path: str) -> tuple[Endpoint, str]:
        parameter = ""
        methods = self._routes.get(path)
        if methods is None:
            head, slash, parameter = path.rpartition("/")
            methods = self._routes_with_parameter.get(head + slash) if parameter else None
        if methods is None:
            raise NotFound
        endpoint = methods.get(method)
        if endpoint is None:
            raise MethodNotAllowed(", ".join(sorted(methods)))
        return endpoint, parameter

    async def _refuse(self, exchange: Exchange, refusal: Refusal) -> Answer:
        if exchange.ticket is None and not isinstance(refusal, Unavailable):
            try:
                refusal = await self._count_stranger(exchange, refusal)
            except Unavailable as unavailable:
                # If failed attempts cannot be counted, do not report whether the credentials were
                # right.
                refusal = unavailable if isinstance(refusal, InvalidCredentials) else refusal
        exchange.refusal = refusal
        return _error(
            *(refusal.status, refusal.code, refusal.text, refusal.errors, refusal.details),
            refusals.headers(refusal),
        )

    async def _count_stranger(self, exchange: Exchange, refusal: Refusal) -> Refusal:
        """Counts failed authentication per IP address; other errors only read that count."""
        is_guess = isinstance(refusal, InvalidCredentials)
        exchange.stranger = await self._gate.limiter.take(
            f"address:{address_bucket(exchange.address)}",
            self._gate.platform.now.rate_limit_per_minute,
            cost=1 if is_guess else 0,
        )
        if is_guess and exchange.stranger.exceeded:
            return RateLimitExceeded(retry_after_seconds=exchange.stranger.resets_in_seconds)
        return refusal


async def _read_body(exchange: Exchange, receive: Any) -> bytes:
    declared = exchange.headers.get(b"content-length", b"0")
    if declared == b"0" and b"transfer-encoding" not in exchange.headers:
        return b""
    try:
        if declared.isdigit() and int(declared) > BODY_BYTES_MAX:
            raise http.BodyTooLarge
        return await http.read_body(receive, BODY_BYTES_MAX)
    except http.BodyTooLarge:
        raise ValidationFailed("The body is larger than 64 KiB.") from None


def _read_query(endpoint: Endpoint, scope: Any) -> Any:
    return fields.read_query(endpoint.query, scope["query_string"]) if endpoint.query else None


def _success(endpoint: Endpoint, answer: msgspec.Struct) -> Answer:
    headers = _transaction(answer) if endpoint.is_repeatable else ()
    if isinstance(answer, Replayed):
        return Answer(200, answer.body.encode(), (*headers, (b"idempotent-replayed", b"true")))
    return Answer(200, strict_json.encode(answer), headers)


def _transaction(answer: Any) -> tuple[tuple[bytes, bytes], ...]:
    """The header with the transaction's id, so that a client need not parse the body for it."""
    trx_id: str | None = getattr(answer, "trx_id", None)
    return () if trx_id is None else ((b"x-transaction-id", trx_id.encode()),)


def _error(
    status: int,
    code: str,
    text: str,
    errors: Mapping[str, str] | None = None,
    details: Mapping[str, Any] | None = None,
    headers: Sequence[tuple[bytes, bytes]] = (),
) -> Answer:
    body: dict[str, Any] = {"error": text, "error_code": code}
    if errors:
        body["errors"] = errors
    if details:
        body.update(details)
    return Answer(status, strict_json.encode(body), tuple(headers))
