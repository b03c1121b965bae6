"""Sends the API explorer's requests through the API's kernel, for a user of the dashboard.

API keys are stored as hashes, so the explorer cannot send an API key. Instead, the dashboard
session identifies the merchant, and only the sandbox is used. Everything else is the same as for
other callers: the request is signed with the merchant's secret, timestamp and signature are
checked, the request counts toward the rate limit, and it appears in the request log.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote, urlencode

import msgspec

from manilla import __version__
from manilla.api import authenticate, v1
from manilla.api.authenticate import Identity, SignedRequest
from manilla.api.endpoint import PARAMETER, Endpoint
from manilla.api.kernel import MerchantApi
from manilla.api.request import IDEMPOTENCY_KEY, SANDBOX_SCENARIO, ApiRequest
from manilla.kit.environment import Environment
from manilla.kit.server.direct import HttpRequest
from manilla.merchants.directory import Caller
from manilla.reference import examples, openapi
from manilla.reference.operations import Operation, operations
from manilla.services import Services

USER_AGENT = "Manilla explorer"
YOUR_API_KEY = "(your API key; not shown because we store only its hash)"


class ExplorerCall(msgspec.Struct, frozen=True, kw_only=True):
    """The API request that the user wants to send."""

    operation: Operation
    merchant_id: int
    merchant_key: str
    address: str  # the user's IP address, for the rate limit and the request log
    parameters: Mapping[str, str]
    body: str = ""
    idempotency_key: str = ""
    scenario: str = ""


class ExplorerResult(msgspec.Struct, frozen=True, kw_only=True):
    """The exact API request that was sent, and its response."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]
    signed: str
    body: str
    status: int
    answer_headers: Sequence[tuple[str, str]]
    answer: str
    trx_id: str | None  # id of the transaction that the request created, or None


class ExplorerApi:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._endpoints = v1.endpoints(services)
        # The explorer's form cannot send files.
        shown = [endpoint for endpoint in self._endpoints if endpoint.upload is None]
        document = openapi.document(shown, services.base_url, __version__)
        self.operations = [one for one in operations(document) if one.is_signed]

    async def send(self, call: ExplorerCall) -> ExplorerResult:
        caller = await self._services.directory.of(Environment.SANDBOX, call.merchant_id)
        api = _SandboxApi(self._services, self._endpoints, caller)
        method, target, now = call.operation.method, _target(call), int(time.time())
        secret, body = caller.live_credentials()[0].secret, call.body.encode()
        sent = [
            ("X-Environment", str(Environment.SANDBOX)),
            ("X-Timestamp", str(now)),
            ("X-Signature", authenticate.sign(secret, now, method, target, body)),
            *_optional(call),
        ]
        response = await api.respond(_request(call, target, sent))
        headers = _read_lines(response.head)
        return ExplorerResult(
            method=method,
            target=target,
            headers=[("X-Merchant-Key", call.merchant_key), ("X-API-Key", YOUR_API_KEY), *sent],
            signed=f"{now}.{method}.{target}.{call.body}",
            body=call.body,
            status=response.status,
            answer_headers=headers,
            answer=msgspec.json.format(response.body, indent=2).decode(),
            trx_id=dict(headers).get("x-transaction-id"),
        )


class _SandboxApi(MerchantApi):
    """The API kernel for a caller that is authenticated by its dashboard session, not a key."""

    def __init__(self, services: Services, endpoints: Sequence[Endpoint], caller: Caller) -> None:
        assert caller.is_sandbox
        super().__init__(services, endpoints)
        self._caller = caller

    async def _identify(self, request: ApiRequest, endpoint: Endpoint, body: bytes) -> Identity:
        assert endpoint.is_signed
        # The request has no API key, so it has no credential generation.
        identity = Identity(self._caller, authenticate.NO_GENERATION)
        authenticate.check_signed(
            identity,
            self._services.platform.now,
            request.sent.headers,
            SignedRequest(request.sent.method, request.sent.target, body),
        )
        return identity


def _request(call: ExplorerCall, target: str, headers: Sequence[tuple[str, str]]) -> HttpRequest:
    path, _, query = target.partition("?")
    sent = [*headers, ("User-Agent", USER_AGENT)]
    return HttpRequest(
        method=call.operation.method,
        path=unquote(path),
        target=target.encode(),
        query=query.encode(),
        headers={name.lower().encode(): value.encode() for name, value in sent},
        peer=call.address,
        body=call.body.encode(),
    )


def _read_lines(head: bytes) -> list[tuple[str, str]]:
    lines = head.decode().splitlines()
    return [(name, value) for name, _, value in (line.partition(": ") for line in lines)]


def _target(call: ExplorerCall) -> str:
    """Returns the endpoint's path and query string with the parameters' values."""
    given = dict(call.parameters)
    path = PARAMETER.sub(lambda name: quote(given.pop(name[1]), safe=""), call.operation.path)
    return path + (f"?{urlencode(given)}" if given else "")


def _optional(call: ExplorerCall) -> list[tuple[str, str]]:
    wanted = [
        ("Content-Type", "application/json" if call.body else ""),
        (IDEMPOTENCY_KEY, call.idempotency_key),
        (SANDBOX_SCENARIO, call.scenario),
    ]
    return [(name, value) for name, value in wanted if value]


def example_body(operation: Operation) -> Mapping[str, Any] | None:
    """Returns the endpoint's example body, or None if the endpoint has no body."""
    return next(iter(examples.REQUESTS.get(operation.id, {}).values()), None)
