"""Handles a request to a simulated provider: applies faults, runs the call and logs the request."""

import asyncio
import time
from collections.abc import Mapping

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from manilla.kit import strict_json
from manilla_simulator import faults, files
from manilla_simulator.faults import Ending, Reply
from manilla_simulator.provider import Provider, Received
from manilla_simulator.state import now
from manilla_simulator.wire import Ask, BodyKind, Call, Denial, Fields, Refused

BODY_BYTES_MAX = 64 * 1024
JOURNAL_BYTES_MAX = 4096
HANG_SECONDS_MAX = 120
HANG_LOOK_SECONDS = 0.1

NOTHING_HERE = Denial(404, "No such endpoint")
NO_FIELDS: Mapping[str, object] = {}


def add_routes(app: web.Application, provider: Provider) -> None:
    for call in provider.wire.calls:
        path = f"/{provider.wire.key}{call.path}"
        app.router.add_route(call.method, path, _handler(provider, call))

    async def unknown(_request: web.Request) -> web.StreamResponse:
        return _response(_deny(provider, NOTHING_HERE))

    app.router.add_route("*", f"/{provider.wire.key}/{{rest:.*}}", unknown)


def _handler(provider: Provider, call: Call) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        return await _serve(provider, call, request)

    return handle


async def _serve(provider: Provider, call: Call, request: web.Request) -> web.StreamResponse:
    try:
        raw = await _read(call, request)
    except web.HTTPRequestEntityTooLarge:
        return _response(_deny(provider, Denial(413, "The body is too large")))
    current = provider.faults
    if current.latency_seconds:
        await asyncio.sleep(current.latency_seconds)
        # If the provider was reset during the delay, this request must not change its new state.
        if provider.faults is not current:
            return _response(faults.OUTAGE)
    reply, fault = _reply(provider, call, request, raw)
    provider.journal.append(
        Received(
            at=now(),
            call=call.name,
            method=request.method,
            path=request.path_qs,
            raw=raw[:JOURNAL_BYTES_MAX],
            status=reply.status,
            answer=reply.body[:JOURNAL_BYTES_MAX],
            fault=fault,
        )
    )
    if reply.ending is not Ending.ANSWER:
        await _end_without_answer(request, reply.ending)
    return _response(reply)


async def _read(call: Call, request: web.Request) -> bytes:
    if call.body is BodyKind.JSON:
        return await request.read()
    raw = bytearray()
    async for chunk in request.content.iter_any():
        raw += chunk
        if len(raw) > files.FILE_BYTES_MAX:
            raise web.HTTPRequestEntityTooLarge(files.FILE_BYTES_MAX, len(raw))
    return bytes(raw)


def _reply(
    provider: Provider, call: Call, request: web.Request, raw: bytes
) -> tuple[Reply, str | None]:
    """Returns the response and the fault that was applied to the request, or None for no fault."""
    if provider.faults.outage:
        return faults.OUTAGE, "outage"
    planned = provider.faults.strike(call.name)
    if planned is None:
        return _handle(provider, call, request, raw), None
    reply = faults.meet(
        planned,
        lambda: _handle(provider, call, request, raw),
        lambda status, message: _deny(provider, _denial(provider, status, message)),
    )
    return reply, planned.fault


def _handle(provider: Provider, call: Call, request: web.Request, raw: bytes) -> Reply:
    """Runs the call's handler. The handler never awaits anything, so each change is atomic."""
    try:
        if not call.is_public:
            provider.wire.authenticate(provider, request.headers)
        fields = Fields(_body(call, request, raw))
        file = _file(call, request, raw)
        ask = Ask(request.match_info, request.query, fields, request.headers, file)
        answer = call.answer(provider, ask)
    except Refused as refused:
        return _deny(provider, refused.denial)
    if call.body is BodyKind.FILE:
        return Reply(answer.status, b"", "application/xml")
    return Reply(answer.status, strict_json.encode(provider.wire.envelope(provider, answer)))


def _body(call: Call, request: web.Request, raw: bytes) -> object:
    has_fields = request.method != "GET" and call.body is BodyKind.JSON
    can_be_empty = call.is_public or request.method in ("DELETE", "PATCH")
    if not has_fields or (not raw and can_be_empty):
        return NO_FIELDS
    try:
        body: object = strict_json.decode(raw)
    except strict_json.JsonError as error:
        raise Refused(Denial(400, str(error))) from None
    if not strict_json.is_storable(body):
        raise Refused(Denial(400, "The body contains invalid characters."))
    return body


def _file(call: Call, request: web.Request, raw: bytes) -> files.SentFile | None:
    media_type = request.headers.get("Content-Type", "")
    if call.body is BodyKind.FORM:
        return files.from_form(raw, media_type)
    return files.from_body(raw, media_type) if call.body is BodyKind.FILE else None


def _denial(provider: Provider, status: int | None, message: str) -> Denial:
    """Returns the provider's error with this message. `status` overrides the documented status."""
    documented = {denial.message: denial for denial in provider.wire.denials.documented()}
    denial = documented.get(message, Denial(400, message))
    return msgspec.structs.replace(denial, status=status or denial.status)


def _deny(provider: Provider, denial: Denial) -> Reply:
    return Reply(denial.status, strict_json.encode(provider.wire.error_envelope(denial)))


def _response(reply: Reply) -> web.Response:
    headers = {"Retry-After": "1"} if reply.status == 429 else None
    return web.Response(
        status=reply.status or 502,
        body=reply.body,
        content_type=reply.content_type,
        headers=headers,
    )


async def _end_without_answer(request: web.Request, ending: Ending) -> None:
    """Sends no response. Instead, leaves the caller waiting or resets the connection."""
    deadline = time.monotonic() + (HANG_SECONDS_MAX if ending is Ending.HANG else 0)
    while request.transport is not None and not request.transport.is_closing():
        if time.monotonic() >= deadline:
            request.transport.abort()
            return
        await asyncio.sleep(HANG_LOOK_SECONDS)
