"""Sends the explorer's calls through the API's kernel, for a user of the dashboard.

API keys are stored as hashes, so the explorer cannot send one. Instead the merchant is taken from
the dashboard session, and only the sandbox is used. Everything else is the same as for any caller:
the request is signed with the merchant's secret, timestamp and signature are checked, it counts
towards the rate limit, and it appears in the request log.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote, urlencode

import msgspec

from manilla import __version__
from manilla.api import authenticate, v1
from manilla.api.authenticate import Identity, SignedRequest
from manilla.api.endpoint import Endpoint
from manilla.api.kernel import MerchantApi
from manilla.api.optional_headers import IDEMPOTENCY_KEY, SANDBOX_SCENARIO
from manilla.api.request import ApiRequest
from manilla.kit import http, strict_json
from manilla.kit.environment import Environment
from manilla.kit.strict_json import JsonError
from manilla.merchants.directory import Caller
from manilla.reference import examples, openapi
from manilla.reference.operations import Operation, operations
from manilla.services import Services

USER_AGENT = "Manilla explorer"
YOUR_API_KEY = "(your API key; not shown because we store only its hash)"
NO_GENERATION = 0  # no API key was used, so no credential generation either


class ExplorerCall(msgspec.Struct, frozen=True, kw_only=True):
    """The request that the user wants to send."""

    operation: Operation
    merchant_id: int
    merchant_key: str
    address: str  # the user's IP address, for the rate limit and the request log
    parameters: Mapping[str, str]
    body: str = ""
    idempotency_key: str = ""
    scenario: str = ""


class ExplorerResult(msgspec.Struct, frozen=True, kw_only=True):
    """The exact request that was sent, and its response."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]
    signed: str
    body: str
    status: int
    answer_headers: Sequence[tuple[str, str]]
    answer: str
    trx_id: str | None  # id of the created transaction


class ExplorerApi:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._endpoints = v1.endpoints(services)
        document = openapi.document(self._endpoints, services.base_url, __version__)
        self.operations = [one for one in operations(document) if one.is_signed]

    async def send(self, call: ExplorerCall) -> ExplorerResult:
        caller = await self._services.directory.of(Environment.SANDBOX, call.merchant_id)
        request = _Request(call, caller)
        kernel = _SandboxApi(self._services, self._endpoints, caller)
        status, headers, body = await request.through(kernel)
        return ExplorerResult(
            method=call.operation.method,
            target=request.target,
            headers=[*request.shown, *request.headers],
            signed=request.signed,
            body=call.body,
            status=status,
            answer_headers=headers,
            answer=body,
            trx_id=_created(call.operation, status, body),
        )


class _SandboxApi(MerchantApi):
    """The kernel for one caller who was authenticated by the dashboard instead of an API key."""

    def __init__(self, services: Services, endpoints: Sequence[Endpoint], caller: Caller) -> None:
        assert caller.is_sandbox
        super().__init__(services, endpoints)
        self._caller = caller

    async def _identify(
        self, request: ApiRequest, scope: Any, endpoint: Endpoint, body: bytes
    ) -> Identity:
        assert endpoint.is_signed
        authenticate.check_signed(
            self._caller.live_credentials(),
            self._services.platform.now,
            request.headers,
            SignedRequest(scope["method"], http.target(scope), body),
        )
        return Identity(self._caller, NO_GENERATION)


class _Request:
    """The request as the merchant's server would send it."""

    def __init__(self, call: ExplorerCall, caller: Caller) -> None:
        self._method = call.operation.method
        self._body = call.body.encode()
        self._address = call.address
        self._path, self._query = _address(call)
        self.target = self._path + (f"?{self._query}" if self._query else "")
        moment = int(time.time())
        secret = caller.live_credentials()[0].secret
        self.signed = f"{moment}.{self._method}.{self.target}.{call.body}"
        self.shown = [
            ("X-Merchant-Key", call.merchant_key),
            ("X-API-Key", YOUR_API_KEY),
        ]
        self.headers = [
            ("X-Environment", str(Environment.SANDBOX)),
            ("X-Timestamp", str(moment)),
            (
                "X-Signature",
                authenticate.sign(secret, moment, self._method, self.target, self._body),
            ),
            *_optional(call),
        ]

    async def through(self, kernel: MerchantApi) -> tuple[int, list[tuple[str, str]], str]:
        answers: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": self._body, "more_body": False}

        async def send(message: Any) -> None:
            answers.append(message)

        await kernel(self._scope(), receive, send)
        start, end = answers
        headers = [(name.decode(), value.decode()) for name, value in start["headers"]]
        return start["status"], headers, _laid_out(end["body"])

    def _scope(self) -> dict[str, Any]:
        sent = [
            *self.headers,
            ("User-Agent", USER_AGENT),
            ("Content-Length", str(len(self._body))),
        ]
        return {
            "type": "http",
            "method": self._method,
            "path": unquote(self._path),
            "raw_path": self._path.encode(),
            "query_string": self._query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in sent],
            "client": (self._address, 0),
            "state": {},
        }


def _address(call: ExplorerCall) -> tuple[str, str]:
    """The endpoint's path and query, with the parameters filled in."""
    path, brace, rest = call.operation.path.partition("{")
    given = dict(call.parameters)
    if brace:
        path += quote(given.pop(rest.rstrip("}")), safe="")
    return path, urlencode(given)


def _optional(call: ExplorerCall) -> list[tuple[str, str]]:
    wanted = [
        ("Content-Type", "application/json" if call.body else ""),
        (IDEMPOTENCY_KEY, call.idempotency_key),
        (SANDBOX_SCENARIO, call.scenario),
    ]
    return [(name, value) for name, value in wanted if value]


def example_body(operation: Operation) -> Mapping[str, Any] | None:
    """None if the endpoint takes no body."""
    return next(iter(examples.REQUESTS.get(operation.id, {}).values()), None)


def _laid_out(body: bytes) -> str:
    return msgspec.json.format(body, indent=2).decode()


def _created(operation: Operation, status: int, answer: str) -> str | None:
    """The id of the transaction that an initiation created, to be verified next."""
    if status != 200 or not operation.is_repeatable:
        return None
    try:
        made = strict_json.decode(answer.encode())
    except JsonError:
        return None
    own: str | None = made.get("trx_id")
    return own or made["payment_url"].partition("/checkout/")[2].partition("?")[0]
