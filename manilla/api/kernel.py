"""The kernel of the merchant API, which handles a request before and after the use case.

It runs all checks in the documented order: body size, environment, credentials, timestamp,
signature, rate limit, merchant availability, the API key's permission, and fields.
"""

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
import structlog

from manilla import metrics
from manilla.api import authenticate, fields, refusals
from manilla.api.authenticate import Identity, SignedRequest
from manilla.api.endpoint import PARAMETER, Call, Endpoint, FileAnswer
from manilla.api.refusals import (
    MethodNotAllowed,
    NotFound,
    ServerError,
    ValidationFailed,
)
from manilla.api.request import NO_ENDPOINT, OF_ADDRESS, ApiRequest, first_lines, read_repeat_key
from manilla.cells.directory import MerchantMoves
from manilla.cells.fence_trigger import refused_when_fenced
from manilla.kit import deadline, http, ids, strict_json, tracing
from manilla.kit.errors import Refusal, Unavailable
from manilla.kit.ratelimit import RateLimitExceeded, RateTicket, address_bucket
from manilla.kit.server import direct
from manilla.kit.server.direct import HttpRequest, HttpResponse
from manilla.kit.tracing import SpanKind
from manilla.ledger import idempotency
from manilla.ledger.idempotency import Replayed
from manilla.ledger.scope import Tenant
from manilla.merchants import availability, limits
from manilla.merchants.credentials import InvalidCredentials
from manilla.merchants.directory import Caller
from manilla.merchants.rights import InsufficientPermission
from manilla.services import Services

log = structlog.get_logger(__name__)

# The request headers that the API uses. The server drops all other headers.
READ_HEADERS = frozenset(
    b"x-environment x-merchant-key x-api-key x-timestamp x-signature authorization"
    b" idempotency-key x-sandbox-scenario content-encoding content-length transfer-encoding"
    b" content-type user-agent traceparent".split()
)
PREFIX = "/api/"
TRACEPARENT = b"traceparent"
UPLOADS_MAX = 4  # of one merchant at the same time
FIXED_LINES = direct.lines(http.JSON_HEADERS)
FILE_LINES = direct.lines(http.JSON_HEADERS[1:])  # without the media type


class ApiAnswer(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    headers: Sequence[http.Header] = ()
    fixed_lines: bytes = FIXED_LINES


class MerchantApi:
    """Responds to every request under /api/."""

    read_headers = READ_HEADERS
    body_bytes_max = 64 * 1024

    def __init__(self, services: Services, endpoints: Sequence[Endpoint]) -> None:
        self._services = services
        self._ended: list[ApiRequest] = []  # requests that have ended but are not logged yet
        # The merchants of the uploads in progress. An upload whose client disconnects is freed.
        self._uploads = WeakKeyDictionary[HttpRequest, int]()
        self._routes: dict[str, dict[str, Endpoint]] = {}
        self._routes_with_parameter: dict[str, dict[str, Endpoint]] = {}
        for endpoint in endpoints:
            route, found = PARAMETER.subn("{}", endpoint.path)
            routes = self._routes_with_parameter if found else self._routes
            routes.setdefault(route, {})[endpoint.method] = endpoint

    async def respond(self, sent: HttpRequest) -> HttpResponse:
        request = ApiRequest(sent, self._address_of(sent))
        with deadline.limited(waited_seconds=sent.waited_seconds):
            answer = await (self._trace(request) if tracing.is_on() else self._answer(request))
        request.end(answer.status)
        self._uploads.pop(sent, None)
        if not self._ended:
            asyncio.get_running_loop().call_soon(self._log_ended)
        self._ended.append(request)
        limit = self._services.platform.now.rate_limit_per_minute
        lines = direct.lines(answer.headers) if answer.headers else b""
        head = answer.fixed_lines + request.lines(limit) + lines
        return HttpResponse(answer.status, answer.body, head)

    def busy(self) -> HttpResponse:
        refusal, limit = Unavailable(), self._services.platform.now.rate_limit_per_minute
        metrics.request_times.add(NO_ENDPOINT, refusal.status, 0)
        lines = first_lines(ids.new_request_id(), OF_ADDRESS, limit).encode()
        head = FIXED_LINES + lines + direct.lines(refusals.headers(refusal))
        return HttpResponse(refusal.status, refusals.body(refusal), head)

    def upload_bytes_max(self, request: HttpRequest) -> int:
        try:
            endpoint, _ = self._find(request.method, request.path)
        except Refusal:
            return 0
        return endpoint.upload.bytes_max if endpoint.upload else 0

    async def admits(self, request: HttpRequest) -> bool:
        """Admits uploads of callers with a valid API key, and only a few of each merchant at once.

        The signature covers the body, so it is checked when the body is complete. Without this
        check, anybody could fill the memory with bodies of requests that are then rejected.
        """
        with deadline.limited():
            try:
                identity = await self._find_key(ApiRequest(request, self._address_of(request)))
            except Refusal:
                return False
        owner = identity.caller.merchant_id
        if sum(each == owner for each in self._uploads.values()) >= UPLOADS_MAX:
            return False
        self._uploads[request] = owner
        return True

    async def _trace(self, request: ApiRequest) -> ApiAnswer:
        """Responds to the request in a span of the caller's trace, or of a new trace."""
        sent = request.sent
        parent = sent.headers.get(TRACEPARENT, b"").decode("latin-1")
        with tracing.begin("api", parent, SpanKind.SERVER) as span:
            assert span is not None
            answer = await self._answer(request)
            request.trace_id = f"{span.get_span_context().trace_id:032x}"
            span.update_name(f"{sent.method} {request.endpoint}")
            span.set_attribute("http.response.status_code", answer.status)
            span.set_attribute("request_id", request.id)
            if request.caller is not None:
                span.set_attribute("merchant_id", request.caller.merchant_id)
            if request.trx_id is not None:
                span.set_attribute("trx_id", request.trx_id)
            return answer

    async def _answer(self, request: ApiRequest) -> ApiAnswer:
        try:
            with refused_when_fenced(MerchantMoves):
                return await self._call(request)
        except Refusal as refusal:
            return await self._refuse(request, refusal)
        except Exception:
            log.exception("request_failed", request_id=request.id, endpoint=request.endpoint)
            text = f"{ServerError.message} Please quote request {request.id}."
            return _refused(ServerError(text))

    async def _call(self, request: ApiRequest) -> ApiAnswer:
        services, sent = self._services, request.sent
        endpoint, parameters = self._find(sent.method, sent.path)
        request.endpoint = endpoint.path
        body = sent.body
        # Refresh the cached settings and merchants, which may be outdated after a pause.
        await services.watch.ensure_fresh()
        if body is None:
            raise await self._rejected_body(request, endpoint)
        identity = request.identity = await self._identify(request, endpoint, body)
        caller = identity.caller
        services.cells.now.check_here(caller.merchant_id)
        ticket = request.ticket = self._ticket(request, caller)
        try:
            if not endpoint.counts:
                await services.limiter.spend(ticket)
            availability.check(caller)
            endpoint.check_right(identity.rights)
            call = request.call = Call(
                caller=caller,
                path=sent.path,
                parameters=parameters,
                query=fields.read_query(endpoint.query, sent.query) if endpoint.query else None,
                body=self._read_fields(endpoint, request, body),
                raw_body=body,
                headers=sent.headers,
                ticket=ticket,
                api_key=identity.key.number if identity.key else None,
                check_again=partial(self._check_again, request, endpoint),
            )
            answer = request.answer = await endpoint.use_case(call)
            return _success(endpoint, answer)
        except Refusal as refusal:
            if isinstance(refusal, Unavailable | RateLimitExceeded):
                raise
            if ticket.allowance is None:
                # A rejected request is counted here, because the use case has not counted it.
                await services.limiter.spend(ticket)
            if isinstance(refusal, InsufficientPermission | InvalidCredentials):
                raise  # an API key without this permission must not get a stored response
            first = await self._first_answer(endpoint, parameters, request, body)
            if first is None:
                raise
            return _success(endpoint, first)

    async def _first_answer(
        self, endpoint: Endpoint, parameters: Sequence[str], request: ApiRequest, body: bytes
    ) -> Replayed | None:
        """Returns the stored response if the request repeats an earlier successful request.

        A repeated request gets the first response, even if a new request would be rejected.
        """
        if not endpoint.is_repeatable or b"idempotency-key" not in request.sent.headers:
            return None
        repeat = read_repeat_key(request.sent.headers, request.sent.path, body)
        assert repeat is not None
        assert request.caller is not None
        tenant = Tenant(request.caller.merchant_id, request.caller.environment)
        first = await idempotency.find_answer(self._services.db, tenant, repeat)
        if first is None:
            return None
        assert request.identity is not None
        # An unavailable merchant is rejected before the permission is checked.
        endpoint.check_right(request.identity.rights)
        key = request.identity.key
        number = None if key is None else key.number
        parameter = parameters[0] if parameters else ""
        answer = await endpoint.replay(tenant, parameter, first, number)
        if isinstance(answer, Replayed):
            return answer
        return Replayed(strict_json.encode(answer).decode())

    async def _identify(self, request: ApiRequest, endpoint: Endpoint, body: bytes) -> Identity:
        services, headers = self._services, request.sent.headers
        environment = authenticate.read_environment(headers)
        if not endpoint.is_signed:
            return await authenticate.by_bearer(services.directory, environment, headers)
        return await authenticate.authenticate(
            services.directory,
            services.platform.now,
            environment,
            request.address,
            headers,
            SignedRequest(request.sent.method, request.sent.target, body),
        )

    async def _rejected_body(self, request: ApiRequest, endpoint: Endpoint) -> Refusal:
        """Returns why the body was not read. Raises an error if its sender is unknown."""
        upload = endpoint.upload
        if upload is None:
            return ValidationFailed("The body is larger than 64 KiB.")
        length = int(request.sent.headers.get(b"content-length", b"0"))
        if not length:
            return ValidationFailed("Send the header Content-Length with a body of this size.")
        if length > upload.bytes_max:
            return upload.too_large()
        await self._find_key(request)
        return Unavailable("Too many of your uploads are in progress. Please try again.")

    async def _check_again(self, request: ApiRequest, endpoint: Endpoint) -> None:
        """Rejects the request if its API key or merchant has lost access since the first check."""
        services = self._services
        await services.watch.ensure_fresh()
        identity = await self._find_key(request)
        services.cells.now.check_here(identity.caller.merchant_id)
        availability.check(identity.caller)
        endpoint.check_right(identity.rights)

    async def _find_key(self, request: ApiRequest) -> Identity:
        """Returns the request's API key and merchant, without checking the signature."""
        headers = request.sent.headers
        environment = authenticate.read_environment(headers)
        directory = self._services.directory
        return await authenticate.identify(directory, environment, request.address, headers)

    def _address_of(self, sent: HttpRequest) -> str:
        return http.client_address(sent.peer, sent.all_headers, self._services.trusted_proxies)

    def _log_ended(self) -> None:
        """Logs the requests that ended in this event-loop iteration.

        Logging several requests together needs less CPU time, because the code stays in the
        processor's cache.
        """
        ended, self._ended = self._ended, []
        requests, now = self._services.requests, datetime.now(UTC)
        clock_start = time.time() - time.perf_counter()
        for request in ended:
            request.record(now)
            at = datetime.fromtimestamp(clock_start + request.began, UTC)
            caller = request.caller
            if caller is not None:
                requests.note_use(request.key_use(), at)
            elif isinstance(request.refusal, InvalidCredentials):
                # Log the failed authentication for the merchant whose key was sent.
                caller = request.refusal.merchant
            if caller is not None:
                requests.add(request.line(caller, at))
            # The call refers to the request: without it, both are freed at once, with an uploaded
            # file, and not when the garbage collector runs.
            request.call = None

    def _ticket(self, request: ApiRequest, caller: Caller) -> RateTicket:
        limit = self._services.platform.now.rate_limit_per_minute
        return limits.rate_ticket(caller.merchant_id, address_bucket(request.address), limit)

    def _read_fields(self, endpoint: Endpoint, request: ApiRequest, body: bytes) -> Any:
        if endpoint.body is None:
            return None
        return fields.read_body(
            endpoint.body,
            body,
            compressed=b"content-encoding" in request.sent.headers,
            is_public_only=not self._services.is_development,
        )

    def _find(self, method: str, path: str) -> tuple[Endpoint, tuple[str, ...]]:
        parameters: tuple[str, ...] = ()
        methods = self._routes.get(path)
        if methods is None:
            methods, parameters = self._with_parameters(path)
        if methods is None:
            raise NotFound
        endpoint = methods.get(method)
        if endpoint is None:
            raise MethodNotAllowed(", ".join(sorted(methods)))
        return endpoint, parameters

    def _with_parameters(self, path: str) -> tuple[dict[str, Endpoint] | None, tuple[str, ...]]:
        """Finds the endpoints for a path with parameters. Also returns the parameters' values."""
        before, *last = path.rsplit("/", 3)
        if len(last) < 3:
            return None, ()
        first, middle, end = last
        for route, parameters in (
            (f"{before}/{first}/{middle}/{{}}", (end,)),
            (f"{before}/{first}/{{}}/{end}", (middle,)),
            (f"{before}/{{}}/{middle}/{{}}", (first, end)),
        ):
            methods = self._routes_with_parameter.get(route)
            if methods is not None:
                return (methods if all(parameters) else None), parameters
        return None, ()

    async def _refuse(self, request: ApiRequest, refusal: Refusal) -> ApiAnswer:
        if request.ticket is None and not isinstance(refusal, Unavailable):
            try:
                refusal = await self._count_address(request, refusal)
            except Unavailable as unavailable:
                # If the failure cannot be counted, do not reveal that the credentials are wrong.
                refusal = unavailable if isinstance(refusal, InvalidCredentials) else refusal
        # The traceback refers to the request too.
        refusal.__context__ = None
        request.refusal = refusal.with_traceback(None)
        return _refused(refusal)

    async def _count_address(self, request: ApiRequest, refusal: Refusal) -> Refusal:
        """Counts failed authentications by IP address. Other errors are not counted."""
        is_guess = isinstance(refusal, InvalidCredentials)
        allowance = request.address_allowance = await self._services.limiter.take(
            f"address:{address_bucket(request.address)}",
            self._services.platform.now.rate_limit_per_minute,
            cost=1 if is_guess else 0,
        )
        if is_guess and allowance.exceeded:
            return RateLimitExceeded(retry_after_seconds=allowance.resets_in_seconds)
        return refusal


def _success(endpoint: Endpoint, answer: msgspec.Struct) -> ApiAnswer:
    headers = _transaction(answer) if endpoint.creates_transaction else ()
    if isinstance(answer, Replayed):
        return ApiAnswer(200, answer.body.encode(), (*headers, (b"idempotent-replayed", b"true")))
    if isinstance(answer, FileAnswer):
        media_type = (b"content-type", answer.media_type.encode())
        return ApiAnswer(200, answer.content, (media_type,), FILE_LINES)
    return ApiAnswer(200, strict_json.encode(answer), headers)


def _transaction(answer: Any) -> tuple[http.Header, ...]:
    """Returns a header with the transaction's id, so that clients need not parse the body."""
    trx_id: str | None = getattr(answer, "trx_id", None)
    return () if trx_id is None else ((b"x-transaction-id", trx_id.encode()),)


def _refused(refusal: Refusal) -> ApiAnswer:
    return ApiAnswer(refusal.status, refusals.body(refusal), refusals.headers(refusal))
