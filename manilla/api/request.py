"""The state of an API request, with its response headers and log entries."""

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from manilla import metrics
from manilla.api.authenticate import Identity
from manilla.api.endpoint import Call
from manilla.api.refusals import ValidationFailed
from manilla.kit import ids, logs, strict_json
from manilla.kit.database.connections import Connection
from manilla.kit.errors import Refusal
from manilla.kit.ratelimit import WINDOW_SECONDS, Allowance, RateTicket
from manilla.kit.server.direct import HttpRequest
from manilla.ledger import idempotency, trx_ids
from manilla.ledger.idempotency import Remember, RepeatKey
from manilla.ledger.transactions import Scenario
from manilla.merchants.credentials import InvalidCredentials
from manilla.merchants.directory import Caller
from manilla.merchants.requests import log as request_log
from manilla.merchants.requests.log import KeyUse, RequestLogLine

IDEMPOTENCY_KEY = "Idempotency-Key"
KEY_LENGTH_MAX = 255
SANDBOX_SCENARIO = "X-Sandbox-Scenario"

NO_ENDPOINT = "none"  # recorded as the endpoint if a request is rejected before routing
OF_ADDRESS, OF_MERCHANT = "address", "merchant"  # the rate limit policies


def first_lines(request_id: str, policy: str, limit: int) -> str:
    """Returns the HTTP header lines that every API response contains."""
    return (
        f"x-request-id: {request_id}\r\n"
        f'ratelimit-policy: "{policy}";q={limit};w={WINDOW_SECONDS}\r\n'
    )


class ApiRequest(msgspec.Struct):
    """The state of an API request while it is being processed."""

    sent: HttpRequest
    address: str
    id: str = msgspec.field(default_factory=ids.new_request_id)
    began: float = msgspec.field(default_factory=time.perf_counter)
    endpoint: str = NO_ENDPOINT
    identity: Identity | None = None
    call: Call | None = None
    answer: msgspec.Struct | None = None
    ticket: RateTicket | None = None
    # The rate limit per IP address, which applies to requests without valid credentials.
    address_allowance: Allowance | None = None
    refusal: Refusal | None = None
    status: int = 0  # the response's HTTP status
    seconds: float = 0
    trace_id: str | msgspec.UnsetType = msgspec.UNSET

    def end(self, status: int) -> None:
        self.status, self.seconds = status, time.perf_counter() - self.began

    @property
    def caller(self) -> Caller | None:
        return None if self.identity is None else self.identity.caller

    @property
    def policy(self) -> str:
        return OF_ADDRESS if self.ticket is None else OF_MERCHANT

    @property
    def allowance(self) -> Allowance | None:
        return self.address_allowance if self.ticket is None else self.ticket.allowance

    @property
    def trx_id(self) -> str | None:
        """The id of the transaction that the request creates or refers to, or None."""
        if self.call is None:
            return None
        made = getattr(self.answer, "trx_id", None)
        if made is None and self.refusal is not None and self.refusal.details:
            made = self.refusal.details.get("trx_id")
        if made is None and trx_ids.merchant_of(self.call.parameter) is not None:
            made = self.call.parameter
        return made

    def lines(self, limit: int) -> bytes:
        """Returns the header lines with the request's id and the rate limit."""
        policy, allowance = self.policy, self.allowance
        lines = first_lines(self.id, policy, limit)
        if allowance is not None:
            rest, seconds = allowance.remaining, allowance.resets_in_seconds
            lines += f'ratelimit: "{policy}";r={rest};t={seconds}\r\n'
        return lines.encode()

    def line(self, caller: Caller, at: datetime) -> RequestLogLine:
        """Returns this request's row in the merchant's request log."""
        status, refusal = self.status, self.refusal
        code = None if status == 200 else refusal.code if refusal else "SERVER_ERROR"
        return RequestLogLine(
            merchant_id=caller.merchant_id,
            at=at,
            request_id=self.id,
            environment=caller.environment,
            method=self.sent.method,
            path=request_log.plain(self.sent.path),
            status=status,
            error_code=code,
            error=request_log.reason(self._logged(refusal)) if refusal else None,
            errors=request_log.encode_errors(refusal.errors) if refusal else None,
            milliseconds=self._milliseconds,
            address=self.address,
            user_agent=request_log.agent(self.sent.headers.get(b"user-agent")),
            ref_trx=getattr(self.call.body, "ref_trx", None) if self.call else None,
            trx_id=self.trx_id,
            api_key=self.identity.key_name if self.identity else None,
        )

    @staticmethod
    def _logged(refusal: Refusal) -> str:
        """Returns the error text for the request log. It can be more detailed than the response."""
        hidden = refusal.logged if isinstance(refusal, InvalidCredentials) else None
        return hidden or refusal.text

    def key_use(self) -> KeyUse:
        assert self.identity is not None
        caller, generation, key = self.identity
        number = generation if key is None else key.number
        return KeyUse(caller.merchant_id, caller.environment, number, is_further=key is not None)

    def record(self, now: datetime) -> None:
        """Adds the request to the metrics and to the process's log."""
        caller, refusal = self.caller, self.refusal
        metrics.request_times.add(self.endpoint, self.status, self.seconds)
        logs.write_request(
            timestamp=now,
            request_id=self.id,
            method=self.sent.method,
            path=self.sent.path,
            status=self.status,
            error_code=refusal.code if refusal else None,
            merchant_id=caller.merchant_id if caller else None,
            environment=caller.environment if caller else None,
            address=self.address,
            milliseconds=self._milliseconds,
            trace_id=self.trace_id,
        )

    @property
    def _milliseconds(self) -> float:
        return round(self.seconds * 1000, 3)


def read_repeat_key(
    headers: Mapping[bytes, bytes], endpoint: str, raw_body: bytes
) -> RepeatKey | None:
    raw = headers.get(b"idempotency-key")
    if raw is None:
        return None
    key = raw.decode("latin-1")
    if not 1 <= len(key) <= KEY_LENGTH_MAX or not (key.isascii() and key.isprintable()):
        expected = f"Expected 1 to {KEY_LENGTH_MAX} printable characters."
        raise ValidationFailed(errors={IDEMPOTENCY_KEY: expected})
    return RepeatKey.of(endpoint, key, raw_body)


def remember(call: Call, describe: Callable[[Any], msgspec.Struct]) -> Remember:
    """Returns a function that stores the response to a request that has an Idempotency-Key.

    `describe` returns what is stored about the created or changed object.
    """
    key = read_repeat_key(call.headers, call.path, call.raw_body)
    if key is None:
        return idempotency.without_key

    async def store(connection: Connection, made: Any) -> None:
        answer = strict_json.encode(describe(made)).decode()
        await idempotency.store_answer(connection, call.tenant, key, answer)

    return store


def read_scenario(call: Call) -> Scenario | None:
    raw = call.headers.get(b"x-sandbox-scenario")
    if raw is None:
        return None
    problem = "Expected `success`, `failed` or `pending`, or for a payment `disputed`."
    if not call.caller.is_sandbox:
        # If production ignored the header, a caller that expects a test could move real money.
        problem = "This header works in the sandbox only."
    elif (text := raw.decode("latin-1")) in _scenarios_of(call.path):
        return Scenario(text)
    raise ValidationFailed(errors={SANDBOX_SCENARIO: problem})


def _scenarios_of(path: str) -> set[Scenario]:
    is_payment = path.endswith("/initiate-payment")
    return set(Scenario) - (set() if is_payment else {Scenario.DISPUTED})
